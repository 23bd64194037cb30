// Package cronfile reads the YAML file of 'pgleader cron': which jobs there are, and when and how
// each is run.
//
// What the file says is honoured or refused. A misspelt field, an empty value and a zero must not
// be a silent default: what is to have its default is left out.
package cronfile

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/timetable"
	"github.com/pgleader/pgleader/schedule"
)

// A File is what was read. It has one job at least.
type File struct {
	Jobs map[string]*Job
}

// A Job is one of the file's.
type Job struct {
	Schedule *timetable.Schedule
	Policy   schedule.Policy   // every field is set
	Command  []string          // the program and its arguments
	Dir      string            // where it runs, "" for where pgleader does
	Env      map[string]string // in addition to pgleader's own
}

// An Error is what is wrong with a file.
type Error struct {
	Line  int    // where it is, 0 if that is not known
	Job   string // "" if it concerns all jobs
	Field string // "" if it concerns no field
	Err   error  // what is wrong, with the field's name
}

func (e *Error) Error() string {
	text := e.Err.Error()
	if e.Job != "" {
		text = fmt.Sprintf("job %q: %s", e.Job, text)
	}
	if e.Line > 0 {
		text = fmt.Sprintf("line %d: %s", e.Line, text)
	}
	return text
}

// Unwrap returns what is wrong, with a hint if there is one.
func (e *Error) Unwrap() error { return e.Err }

// Read reads and checks a file. The error is an [*Error] behind the path, or that of the file
// system.
func Read(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// Parse is Read for the text of a file.
func Parse(text []byte) (*File, error) {
	raw, err := decode(text)
	if err != nil {
		return nil, err
	}
	zone, err := field{"", "time_zone", raw.TimeZone}.zone(time.UTC)
	if err != nil {
		return nil, err
	}
	file := &File{Jobs: make(map[string]*Job, len(raw.Jobs))}
	for _, name := range slices.Sorted(maps.Keys(raw.Jobs)) {
		if file.Jobs[name], err = raw.Jobs[name].job(name, zone); err != nil {
			return nil, err
		}
	}
	return file, nil
}

// Same reports whether the file says the same about another job. No job, nil, is none.
func (j *Job) Same(other *Job) bool {
	return other != nil && j.Schedule.Same(other.Schedule) && j.Policy == other.Policy &&
		slices.Equal(j.Command, other.Command) && j.Dir == other.Dir && maps.Equal(j.Env, other.Env)
}

// Environment is Env as key=value, in the order of the names.
func (j *Job) Environment() []string {
	env := make([]string, 0, len(j.Env))
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		env = append(env, name+"="+j.Env[name])
	}
	return env
}
