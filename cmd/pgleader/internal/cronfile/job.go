package cronfile

import (
	"errors"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/timetable"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// job checks what is written about one job. Zone is that of jobs that name none.
func (r rawJob) job(name string, zone *time.Location) (*Job, error) {
	if err := leader.CheckJob(name); err != nil {
		return nil, &Error{Job: name, Err: err}
	}
	j := &Job{}
	var err error
	if j.Command, err = (field{name, "command", r.Command}).command(); err != nil {
		return nil, err
	}
	if j.Env, err = (field{name, "env", r.Env}).environment(); err != nil {
		return nil, err
	}
	if err = (field{name, "dir", r.Dir}).text(&j.Dir); err != nil {
		return nil, err
	}
	if zone, err = (field{name, "time_zone", r.TimeZone}).zone(zone); err != nil {
		return nil, err
	}
	if j.Schedule, err = (field{name, "schedule", r.Schedule}).schedule(zone); err != nil {
		return nil, err
	}
	j.Policy, err = r.policy(name)
	return j, err
}

// policy is what the job's fields say about slots that do not go as planned.
func (r rawJob) policy(job string) (schedule.Policy, error) {
	p := timetable.DefaultPolicy()
	grace, keep := field{job, "grace", r.Grace}, field{job, "keep", r.Keep}
	catchUp := field{job, "catch_up", r.CatchUp}
	attempts := field{job, "attempts", r.Attempts}
	repeatFailed := field{job, "repeat_failed", r.RepeatFailed}
	for _, err := range []error{
		grace.duration(&p.Grace),
		keep.duration(&p.Keep),
		catchUp.decode(&p.CatchUp, "want a text"),
		attempts.number(&p.Attempts),
		repeatFailed.decode(&p.RepeatFailed, "want true or false"),
	} {
		if err != nil {
			return p, err
		}
	}
	err := timetable.CheckPolicy(p)
	var wrong *timetable.FieldError
	if errors.As(err, &wrong) {
		for _, f := range []field{grace, keep, catchUp, attempts} {
			if f.name == wrong.Field {
				return p, f.wrap(err)
			}
		}
	}
	return p, err
}

func (f field) schedule(zone *time.Location) (*timetable.Schedule, error) {
	if !f.given() {
		return nil, f.refuse("is missing")
	}
	var text string
	if err := f.decode(&text, "want the time fields of a crontab line"); err != nil {
		return nil, err
	}
	schedule, err := timetable.Parse(text, zone)
	if err != nil {
		return nil, f.wrap(err)
	}
	return schedule, nil
}

// zone reads a time zone, or returns the one that holds if none is written.
func (f field) zone(otherwise *time.Location) (*time.Location, error) {
	if !f.given() {
		return otherwise, nil
	}
	var name string
	if err := f.decode(&name, "want the name of a time zone"); err != nil {
		return nil, err
	}
	zone, err := timetable.ParseZone(name)
	if err != nil {
		return nil, f.wrap(err)
	}
	return zone, nil
}

// command reads a list of arguments, or a line for sh -c.
func (f field) command() ([]string, error) {
	if !f.given() {
		return nil, f.refuse("is missing")
	}
	var command []string
	if v := f.value(); v.Kind == yaml.ScalarNode && v.ShortTag() == "!!str" && v.Value != "" {
		command = []string{"sh", "-c", v.Value}
	} else if err := v.Decode(&command); err != nil || len(command) == 0 || command[0] == "" {
		return nil, f.refuse("is neither a list of arguments nor a line for the shell")
	}
	if slices.ContainsFunc(command, func(arg string) bool { return strings.Contains(arg, "\x00") }) {
		return nil, f.refuse("contains a NUL byte")
	}
	return command, nil
}

// environment reads variables and their values, which may be empty.
func (f field) environment() (map[string]string, error) {
	var nodes map[string]yaml.Node
	if err := f.decode(&nodes, "want names and values"); err != nil {
		return nil, err
	}
	env := make(map[string]string, len(nodes))
	for name, node := range nodes {
		variable := field{f.job, f.name, node}
		var value string
		switch {
		case variable.empty():
			return nil, variable.refuse(`gives %q no value; write "" for an empty one`, name)
		case variable.value().Decode(&value) != nil:
			return nil, variable.refuse("gives %q %s, want a text", name, variable.shown())
		case name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00"):
			return nil, variable.refuse("%q=%q cannot be in an environment", name, value)
		}
		env[name] = value
	}
	return env, nil
}
