package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/worker"
)

// A typing is a value that somebody types for a flag, and what is said about it.
type typing struct {
	command, flag, value string
	refused              string // behind the flag's name; "" if the value is honoured
}

// typings are all flags with the values that could be taken for "not given", and those below. What
// is honoured is shown in the tests of what it is for.
func typings() []typing {
	const positive, empty = "want more than 0", "want a text, or no "
	rows := []typing{
		{"try", "conflict-exit-code", "0", ""},
		{"try", "conflict-exit-code", "-1", "is -1, want 0 to 255"},
		{"try", "conflict-exit-code", "256", "is 256, want 0 to 255"},

		{"slot", "schedule", "", "is empty, " + empty},
		{"slot", "slot", "", "is empty, " + empty},
		{"slot", "tz", "", "is empty, " + empty},
		{"slot", "early", "0s", ""},
		{"slot", "early", "-1s", "is -1s, want at least 0s"},
		{"slot", "retry-for", "0s", ""},
		{"slot", "retry-for", "-1s", "is -1s, want at least 0s"},
		{"slot", "grace", "0s", "is 0s, want at least 1ms"},
		{"slot", "grace", "-1s", "is -1s, want at least 1ms"},
		{"slot", "catch-up", "", "is empty, " + empty},
		{"slot", "catch-up", "skip", "is skip, want latest or all"},
		{"slot", "catch-up", "all", ""},
		{"slot", "attempts", "0", "is 0, want 1 to 1000"},
		{"slot", "attempts", "-1", "is -1, want 1 to 1000"},
		{"slot", "attempts", "1001", "is 1001, want 1 to 1000"},
		{"slot", "attempts", "1", ""},
		{"slot", "keep", "0s", "is 0s, want at least 1m0s"},
		{"slot", "keep", "-1s", "is -1s, want at least 1m0s"},

		{"next", "schedule", "", "is empty, " + empty},
		{"next", "tz", "", "is empty, " + empty},
		{"next", "from", "", "is empty, " + empty},
		{"next", "count", "0", "is 0, want 1 to 100000"},
		{"next", "count", "-1", "is -1, want 1 to 100000"},
		{"next", "count", "100001", "is 100001, want 1 to 100000"},

		{"history", "limit", "0", "is 0, want at least 1"},
		{"history", "limit", "-1", "is -1, want at least 1"},
		{"check", "max-age", "0s", "is 0s, " + positive},
		{"check", "max-age", "-1s", "is -1s, " + positive},
		{"migrate down", "steps", "0", "is 0, want at least 1"},
		{"migrate down", "steps", "-1", "is -1, want at least 1"},
		{"migrate print", "from", "0", ""},
		{"migrate print", "from", "-1", "is -1, want 0 to "},
		{"migrate print --down", "from", "0", "is 0, want 1 to "},
		{"migrate print --down", "from", "1", ""},
		{"status", "database-url", "", "is empty, " + empty},
	}
	for _, command := range []string{"run", "try", "slot", "cron"} {
		rows = append(rows,
			typing{command, "ttl", "0s", "is 0s, want 250ms to 24h0m0s"},
			typing{command, "ttl", "-1s", "is -1s, want 250ms to 24h0m0s"},
			typing{command, "ttl", "25h", "is 25h, want 250ms to 24h0m0s"},
			typing{command, "ttl", "soon", "is soon, want a duration such as 90s or 1h30m"},
			typing{command, "stop-within", "0s", ""},
			typing{command, "stop-within", "-1s", "is -1s, want 0 to 6.25s with --ttl 15s"},
			typing{command, "stop-within", "7s", "is 7s, want 0 to 6.25s with --ttl 15s"},
			typing{command, "drain-timeout", "0s", "is 0s, " + positive},
			typing{command, "drain-timeout", "-1s", "is -1s, " + positive},
			typing{command, "holder", "", "is empty, " + empty},
		)
	}
	return rows
}

func TestWhatIsTypedIsHonouredOrRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	err := os.WriteFile(file, []byte("jobs: {a: {schedule: '0 2 * * *', command: [x]}}"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	rest := map[string][]string{ // what makes a whole command line
		"run": {"job", "--", "true"}, "try": {"job", "--", "true"},
		"slot": {"job", "--schedule", "0 2 * * *", "--", "true"}, "cron": {file},
		"next": {"--schedule", "0 2 * * *"}, "history": {"job"}, "check": {"job"},
		"migrate down": {"--yes"},
	}
	for _, row := range typings() {
		args := append(strings.Fields(row.command), "--"+row.flag+"="+row.value)
		if row.flag != "database-url" && row.command != "next" {
			// What gets past the flags fails here, before it connects.
			args = append(args, "--database-url", "postgres://localhost:port/")
		}
		more := rest[row.command]
		if row.command == "slot" && row.flag == "slot" {
			more = []string{"job", "--", "true"}
		}
		output := said(t, append(args, more...)...)
		switch want := "--" + row.flag + " " + row.refused; {
		case row.refused == "" && strings.Contains(output, "--"+row.flag+" "):
			t.Errorf("%q is refused: %s", args, output)
		case row.refused != "" && !strings.Contains(output, want):
			t.Errorf("%q: want %q, got %s", args, want, output)
		}
	}
}

// said is all that a command prints.
func said(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "output")
	output, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run(ctx, args, nil, output, output)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A flag that is added without a decision about zero fails here.
func TestEveryFlagHasADecisionAboutZero(t *testing.T) {
	t.Parallel()
	decided := make(map[typing]bool)
	for _, row := range typings() {
		command, _, _ := strings.Cut(row.command, " --")
		decided[typing{command: command, flag: row.flag, value: row.value}] = true
	}
	zeros := map[string][]string{"duration": {"0s", "-1s"}, "int": {"0", "-1"}, "string": {""}}
	shownFlag := regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)
	flags := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "pgleader ")
		if cmd.HasParent() { // the root's own flag is every command's
			usages := cmd.NonInheritedFlags().FlagUsages()
			for _, match := range shownFlag.FindAllStringSubmatch(usages, -1) {
				name := match[1]
				kind := cmd.Flags().Lookup(name).Value.Type()
				if kind == "bool" {
					continue
				}
				flags++
				if zeros[kind] == nil {
					t.Errorf("%s --%s: what is the zero of a %s?", path, name, kind)
				}
				for _, zero := range zeros[kind] {
					if !decided[typing{command: path, flag: name, value: zero}] {
						t.Errorf("%s --%s=%s: honoured or refused?", path, name, zero)
					}
				}
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).command())
	if flags < 30 {
		t.Errorf("found only %d flags", flags)
	}
}

func TestStopWithinIsAFifthOfTheTTLUnlessItIsTyped(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args []string
		want time.Duration
	}{
		{nil, 3 * time.Second},
		{[]string{"--ttl=5s"}, time.Second},
		{[]string{"--stop-within=0s"}, 0},
		{[]string{"--stop-within=1ms"}, time.Millisecond},
	} {
		var flags workerFlags
		cmd := &cobra.Command{}
		flags.add(cmd)
		if err := cmd.ParseFlags(row.args); err != nil {
			t.Fatal(err)
		}
		config, err := flags.config(&app{databaseURL: "postgres://localhost/"}, cmd)
		if err != nil {
			t.Fatal(err)
		}
		config.Pool.Close()
		if config.StopWithin != row.want || config.StopWithin > worker.LongestStop(config.TTL) {
			t.Errorf("%q: %v, want %v", row.args, config.StopWithin, row.want)
		}
	}
}
