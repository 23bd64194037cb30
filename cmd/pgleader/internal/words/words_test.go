package words

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSpanHasThePrecisionThatAPersonWants(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                                   "0s",
		1234 * time.Millisecond:             "1.2s",
		-1234 * time.Millisecond:            "-1.2s",
		12345 * time.Millisecond:            "12s",
		47*time.Hour + 59*time.Minute:       "47h59m0s",
		75*time.Hour + 59*time.Minute:       "3d3h",
		-(48*time.Hour + time.Nanosecond):   "-2d0h",
		365*24*time.Hour + 23*time.Hour + 1: "365d23h",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestInstantsAreInUTC(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 10, 3, 0, 0, 123_456_789, time.FixedZone("", 3600))
	if got, want := Instant(at), "2026-03-10T02:00:00.123Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := Slot(at), "2026-03-10T02:00:00.123456789Z"; got != want {
		t.Errorf("got %s, want %s: nothing else can be given back", got, want)
	}
	if got := Instant(time.Time{}); got != "-" {
		t.Errorf("the zero time is %q", got)
	}
}

func TestNameCannotForgeALineOrMoveTheCursor(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"nightly-report":          "nightly-report",
		"Backup '/logs/' + 日本":    "Backup '/logs/' + 日本",
		"two\nlines":              `"two\nlines"`,
		"\x1b[2Jclear":            `"\x1b[2Jclear"`,
		"a\u00a0space of its own": `"a\u00a0space of its own"`,
	} {
		if got := Name(name); got != want {
			t.Errorf("%q is shown as %s, want %s", name, got, want)
		}
	}
}

func TestBriefIsOneLineThatCanBeRead(t *testing.T) {
	t.Parallel()
	if got := Brief("line 1\n  line 2\n"); got != "line 1 line 2" {
		t.Errorf("%q", got)
	}
	long := []rune(Brief(strings.Repeat("日本 ", 1000)))
	if len(long) != briefest+1 || long[briefest] != '…' {
		t.Errorf("%d characters, the last %q", len(long), long[len(long)-1])
	}
}

func TestFoldedKeepsWordsAndCommands(t *testing.T) {
	t.Parallel()
	prose := strings.TrimSpace(strings.Repeat("word ", 100))
	command := "    " + strings.Repeat("x", 300)
	got := strings.Split(Folded(prose+"\n"+command+"\n"+prose), "\n")
	want := prose + " " + strings.TrimSpace(command) + " " + prose
	if OneLine(strings.Join(got, " ")) != want {
		t.Errorf("words were changed: %q", got)
	}
	commands := 0
	for _, line := range got {
		switch {
		case line == command:
			commands++
		case len(line) > width || len(line) < 4:
			t.Errorf("a line of %d: %q", len(line), line)
		}
	}
	if commands != 1 {
		t.Errorf("the command was broken: %q", got)
	}
}

func TestHintGoesWithItsError(t *testing.T) {
	t.Parallel()
	cause := errors.New("the job is missing")
	err := fmt.Errorf("run: %w", WithHint(cause, "write %s", "JOB"))
	if err.Error() != "run: the job is missing" || !errors.Is(err, cause) {
		t.Errorf("the error became %v", err)
	}
	if hint, ok := HintOf(err); !ok || hint != "write JOB" {
		t.Errorf("hint %q, %v", hint, ok)
	}
	if hint, ok := HintOf(cause); ok {
		t.Errorf("hint %q out of nothing", hint)
	}
}

func TestQuietVoiceKeepsItsWarnings(t *testing.T) {
	t.Parallel()
	speak := func(v *Voice) {
		v.Say("two\nlines", "leading under token %d", 7)
		v.Warn("", "%d jobs", 2)
		v.Advise("")
		v.Advise("check the URL")
		v.Advise("check the URL") // as after every try of a row
	}
	var loud, quiet bytes.Buffer
	speak(&Voice{Out: &loud})
	speak(&Voice{Out: &quiet, Quiet: true})
	const warnings = "pgleader: 2 jobs\npgleader: hint: check the URL\n"
	const all = "pgleader: \"two\\nlines\": leading under token 7\n" + warnings
	if loud.String() != all {
		t.Errorf("got %q, want %q", loud.String(), all)
	}
	if quiet.String() != warnings {
		t.Errorf("quiet: %q, want %q", quiet.String(), warnings)
	}
}
