package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pgleader/pgleader/leader"
)

// A cronFile is what 'pgleader cron' reads.
type cronFile struct {
	TimeZone string              `yaml:"time_zone"` // of the jobs that name none
	Jobs     map[string]*cronJob `yaml:"jobs"`
}

type cronJob struct {
	Schedule string            `yaml:"schedule"`
	TimeZone string            `yaml:"time_zone"`
	Command  commandLine       `yaml:"command"`
	Dir      string            `yaml:"dir"`
	Env      map[string]string `yaml:"env"`

	Grace        time.Duration  `yaml:"grace"`
	CatchUp      leader.CatchUp `yaml:"catch_up"`
	Attempts     int            `yaml:"attempts"`
	RepeatFailed bool           `yaml:"repeat_failed"`
	Keep         time.Duration  `yaml:"keep"`

	schedule leader.Schedule
	location *time.Location
}

// A commandLine is a list of arguments, or a line for sh -c.
type commandLine []string

func (c *commandLine) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode && node.Tag == "!!str" && node.Value != "" {
		*c = commandLine{"sh", "-c", node.Value}
		return nil
	}
	var list []string
	if err := node.Decode(&list); err != nil || len(list) == 0 {
		return fmt.Errorf("line %d: command is neither a list of arguments nor a line for the shell", node.Line)
	}
	*c = list
	return nil
}

func (j *cronJob) policy() leader.Policy {
	return leader.Policy{Grace: j.Grace, CatchUp: j.CatchUp, Attempts: j.Attempts, RepeatFailed: j.RepeatFailed, Keep: j.Keep}
}

// same reports whether nothing in the file has changed about the job.
func (j *cronJob) same(other *cronJob) bool {
	return other != nil && j.Schedule == other.Schedule && j.location.String() == other.location.String() &&
		slices.Equal(j.Command, other.Command) && j.Dir == other.Dir && maps.Equal(j.Env, other.Env) && j.policy() == other.policy()
}

// readCronFile reads and checks a file. It refuses what it does not know, for a misspelt key must not be a silent default.
func readCronFile(path string) (*cronFile, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the user named it
	if err != nil {
		return nil, err
	}
	file, err := parseCronFile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

func parseCronFile(text []byte) (*cronFile, error) {
	var file cronFile
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		text := strings.NewReplacer("yaml: ", "", "unmarshal errors: ", "", "main.cronFile", "the jobs", "main.cronJob", "a job").Replace(tidy(err.Error()))
		return nil, hint(errors.New(text), "see 'pgleader cron --help' for the format")
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one YAML document")
	}
	if len(file.Jobs) == 0 {
		return nil, hint(errors.New("it has no jobs"), "see 'pgleader cron --help' for the format")
	}
	for _, name := range slices.Sorted(maps.Keys(file.Jobs)) {
		if err := file.check(name); err != nil {
			return nil, fmt.Errorf("job %q: %w", name, err)
		}
	}
	return &file, nil
}

func (f *cronFile) check(name string) (err error) {
	j := f.Jobs[name]
	if j == nil || len(j.Command) == 0 {
		return errors.New("command is missing")
	}
	for name, value := range j.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("env: %q=%q cannot be in an environment", name, value)
		}
	}
	if slices.ContainsFunc(j.Command, func(arg string) bool { return strings.Contains(arg, "\x00") }) {
		return errors.New("command contains a NUL byte")
	}
	if j.TimeZone == "" {
		j.TimeZone = f.TimeZone
	}
	if j.schedule, j.location, err = parseSchedule(j.Schedule, j.TimeZone); err != nil {
		return err
	}
	if err := leader.CheckJob(name); err != nil {
		return err
	}
	return j.policy().Validate()
}
