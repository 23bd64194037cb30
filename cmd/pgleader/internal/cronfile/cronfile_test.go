package cronfile

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/timetable"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/schedule"
)

const whole = `
time_zone: Europe/Paris
jobs:
  nightly-report:
    schedule: "0 2 * * *"
    time_zone: America/New_York
    command: [node, report.js]
    dir: /srv/reports
    env: {REPORT_FORMAT: pdf, DRY_RUN: 0, EMPTY: ""}
    grace: 2h
    catch_up: skip
    attempts: 1
    repeat_failed: true
    keep: 24h
  plain:
    schedule: "0 3 * * *"
    command: rm -f /tmp/old && echo cleaned
`

func TestFileSaysWhatIsWrittenAndTheDefaultsOfTheRest(t *testing.T) {
	t.Parallel()
	file, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)
	report, plain := file.Jobs["nightly-report"], file.Jobs["plain"]
	wantPolicy := schedule.Policy{
		Grace: 2 * time.Hour, CatchUp: schedule.CatchUpSkip, Attempts: 1, RepeatFailed: true,
		Keep: 24 * time.Hour,
	}
	if report.Policy != wantPolicy || report.Dir != "/srv/reports" ||
		!slices.Equal(report.Command, []string{"node", "report.js"}) {
		t.Errorf("%+v", report)
	}
	want := []string{"DRY_RUN=0", "EMPTY=", "REPORT_FORMAT=pdf"}
	if got := report.Environment(); !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
	if got := report.Schedule.Next(now); got.Hour() != 7 { // 02:00 in New York
		t.Errorf("its own zone is not honoured: %v", got)
	}
	if plain.Policy != timetable.DefaultPolicy() || plain.Dir != "" || len(plain.Env) != 0 {
		t.Errorf("%+v", plain)
	}
	want = []string{"sh", "-c", "rm -f /tmp/old && echo cleaned"}
	if !slices.Equal(plain.Command, want) {
		t.Errorf("command %q, want %q", plain.Command, want)
	}
	if got := plain.Schedule.Next(now).UTC(); got.Hour() != 2 { // 03:00 in Paris
		t.Errorf("the file's zone is not honoured: %v", got)
	}
}

// A row is one field of a job, and what is said about it.
func TestEveryFieldIsHonouredOrRefusedWithItsNameAndPlace(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ field, written, want string }{
		{"grace", "0s", "grace is 0s, want at least 1ms"},
		{"grace", "0", "grace is 0, want a duration such as 90s or 1h30m"},
		{"grace", "-1s", "grace is -1s, want at least 1ms"},
		{"grace", "", "grace has no value; leave it out for the default"},
		{"grace", `""`, "grace is , want a duration"},
		{"grace", "[1h]", "grace is a list, want a duration"},
		{"grace", "1.5", "grace is 1.5, want a duration"},
		{"grace", "1ns", "grace is 1ns, want at least 1ms"},
		{"grace", "1ms", ""},
		{"keep", "0s", "keep is 0s, want at least 1m0s"},
		{"keep", "-24h", "keep is -24h0m0s, want at least 1m0s"},
		{"keep", "~", "keep has no value"},
		{"keep", "1h", ""},
		{"attempts", "0", "attempts is 0, want 1 to 1000"},
		{"attempts", "-1", "attempts is -1, want 1 to 1000"},
		{"attempts", "1001", "attempts is 1001, want 1 to 1000"},
		{"attempts", "many", "attempts is many, want a number"},
		{"attempts", "1.5", "attempts is 1.5, want a number"},
		{"attempts", "", "attempts has no value"},
		{"attempts", "1", ""},
		{"catch_up", `""`, `catch_up is "", want "latest", "all" or "skip"`},
		{"catch_up", "some", `catch_up is "some", want "latest", "all" or "skip"`},
		{"catch_up", "", "catch_up has no value"},
		{"catch_up", "all", ""},
		{"repeat_failed", "", "repeat_failed has no value"},
		{"repeat_failed", "0", "repeat_failed is 0, want true or false"},
		{"repeat_failed", "false", ""},
		{"dir", `""`, "dir is empty; leave it out for the default"},
		{"dir", "", "dir has no value"},
		{"dir", "{}", "dir is a mapping, want a text"},
		{"time_zone", `""`, "the time zone is empty"},
		{"time_zone", "", "time_zone has no value"},
		{"time_zone", "Local", `time zone "local" means another one on every host`},
		{"schedule", `""`, "the schedule is empty"},
		{"schedule", "", "schedule has no value"},
		{"schedule", `"0 2 30 2 *"`, `schedule "0 2 30 2 *" never comes`},
		{"command", `""`, "command is neither a list of arguments nor a line for the shell"},
		{"command", "[]", "command is neither"},
		{"command", `[""]`, "command is neither"},
		{"command", "", "command is neither"},
		{"command", "7", "command is neither"},
		{"command", `["a\0b"]`, "command contains a NUL byte"},
		{"command", "&x [a, *x]", "command is neither"},
		{"command", `[printf, ""]`, ""},
		{"env", "", "env has no value"},
		{"env", "[A]", "env is a list, want names and values"},
		{"env", "{A: }", `env gives "A" no value; write "" for an empty one`},
		{"env", "{A: [1]}", `env gives "A" a list, want a text`},
		{"env", `{"A=B": c}`, `env "A=B"="c" cannot be in an environment`},
		{"env", `{"": c}`, `env ""="c" cannot be`},
		{"env", `{A: ""}`, ""},
		{"env", "{}", ""},
	} {
		fields := map[string]string{"schedule": `"0 2 * * *"`, "command": "[x]"}
		fields[row.field] = row.written
		var text strings.Builder
		text.WriteString("jobs:\n  other: {schedule: '0 2 * * *', command: [x]}\n  report:\n")
		line := 3
		for i, name := range slices.Sorted(maps.Keys(fields)) {
			text.WriteString("    " + name + ": " + fields[name] + "\n")
			if name == row.field {
				line = 4 + i
			}
		}
		_, err := Parse([]byte(text.String()))
		var wrong *Error
		switch {
		case row.want == "":
			if err != nil {
				t.Errorf("%s: %s: %v", row.field, row.written, err)
			}
		case !errors.As(err, &wrong) || wrong.Job != "report" || wrong.Field != row.field ||
			wrong.Line != line || !strings.HasPrefix(wrong.Err.Error(), row.want):
			t.Errorf("%s: %s: %+v, want line %d, %s", row.field, row.written, err, line, row.want)
		}
	}
}

func TestFileThatIsNoListOfJobsIsRefused(t *testing.T) {
	t.Parallel()
	const job = "schedule: '0 2 * * *', command: [x]"
	const twice = "jobs:\n  a: {" + job + "}\n  a: {" + job + "}"
	for text, want := range map[string]string{
		twice:                                 `line 3: mapping key "a" already defined at line 2`,
		"":                                    "it has no jobs",
		"jobs: {}":                            "it has no jobs",
		"jobs:":                               "it has no jobs",
		"nonsense":                            "line 1: cannot unmarshal !!str `nonsense` into the jobs",
		"jobs: [1]":                           "line 1: cannot unmarshal !!seq into the jobs",
		"jobs: {a: 1}":                        "line 1: cannot unmarshal !!int `1` into a job",
		"jobs: {a: }":                         `job "a": command is missing`,
		"jobs: {a: {command: [x]}}":           `job "a": schedule is missing`,
		"jobs: {'': {" + job + "}}":           "invalid job name: it is empty",
		"jobs: {a: {" + job + ", comand: x}}": "line 1: field comand not found in type a job",
		"jobs: {a: {" + job + ", dir: /, dir: /}}":                  `mapping key "dir" already defined`,
		"time_zone: ''\njobs: {a: {" + job + "}}":                   "line 1: the time zone is empty",
		"time_zone: Mars\njobs: {a: {" + job + ", time_zone: UTC}}": `line 1: unknown time zone "Mars"`,
		"time_zone:\njobs: {a: {" + job + "}}":                      "line 1: time_zone has no value",
		"jobs: {a: {" + job + "}}\n---\njobs: {}":                   "it has more than one YAML document",
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(*Error)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	_, err := Parse([]byte("jobs: {a: {comand: x}}"))
	if hint, _ := words.HintOf(err); hint != format {
		t.Errorf("hint %q", hint)
	}
}

func TestAnchorsAndMergesAreFollowed(t *testing.T) {
	t.Parallel()
	file, err := Parse([]byte(`
jobs:
  a: &a {schedule: &night "0 2 * * *", command: [x], grace: 2h, env: &env {A: &v one}}
  b: {<<: *a, attempts: 1, env: {<<: *env, B: *v}}
  c: {schedule: *night, command: [y]}
`))
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := file.Jobs["a"], file.Jobs["b"], file.Jobs["c"]
	if b.Policy.Grace != 2*time.Hour || b.Policy.Attempts != 1 || !a.Schedule.Same(c.Schedule) ||
		!slices.Equal(b.Environment(), []string{"A=one", "B=one"}) {
		t.Errorf("%+v\n%+v\n%+v", a, b, c)
	}
}

func TestJobIsTheSameUntilAnythingAboutItChanges(t *testing.T) {
	t.Parallel()
	read := func(text string) *Job {
		t.Helper()
		file, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return file.Jobs["nightly-report"]
	}
	job := read(whole)
	if !job.Same(read(whole)) {
		t.Error("one that was read again is another one")
	}
	if job.Same(nil) {
		t.Error("none is the same")
	}
	for old, changed := range map[string]string{
		`"0 2 * * *"`: `"0 4 * * *"`, "America/New_York": "UTC", "report.js": "other.js",
		"/srv/reports": "/srv/others", "pdf": "html", "grace: 2h": "grace: 3h", "skip": "all",
		"attempts: 1": "attempts: 2", "repeat_failed: true": "repeat_failed: false",
		"keep: 24h": "keep: 25h",
	} {
		if job.Same(read(strings.Replace(whole, old, changed, 1))) {
			t.Errorf("%s instead of %s is the same", changed, old)
		}
	}
}

func TestReadNamesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	if _, err := Read(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want that it does not exist", err)
	}
	if err := os.WriteFile(path, []byte("jobs:\n  a: {command: [x]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Read(path)
	if want := path + `: job "a": schedule is missing`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A file that is taken has jobs, each with a command, a schedule and a policy.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		whole, "jobs:\n  a: {schedule: '0 2 * * *', command: [x]}\n", "jobs: {a: null}", "jobs: [1]",
		"{", "a: &x [*x]", "---\njobs: {}\n---\n",
		"jobs:\n  b:\n    schedule: '@daily'\n    command: echo\n    grace: -1s\n",
		"jobs:\n  ? [a]\n  : {schedule: '* * * * *', command: ''}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(text)
		if err != nil {
			return
		}
		for name, j := range file.Jobs {
			if len(j.Command) == 0 || j.Schedule == nil || timetable.CheckPolicy(j.Policy) != nil ||
				slices.Contains([]string{"", "\x00"}, name) {
				t.Errorf("job %q is %+v", name, j)
			}
		}
	})
}
