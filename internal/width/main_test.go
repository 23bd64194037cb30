package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	full  = strings.Repeat("word ", 19) + "words" // 100 columns
	tight = strings.Repeat("ü", 120)              // one word
)

func TestOnlyLinesThatCanBeWrappedAreWide(t *testing.T) {
	if len(full) != limit {
		t.Fatalf("the line has %d columns", len(full))
	}
	for what, c := range map[string]struct {
		name, text string
		want       []string
	}{
		"nothing":                {"a.md", "", nil},
		"a full line":            {"a.md", full + "\n", nil},
		"a full line of Windows": {"a.md", full + "\r\n", nil},
		"a full line of umlauts": {"a.sql", strings.Replace(full, "word", "wörd", 7), nil},
		"prose":                  {"a.md", "short\n" + full + "s\n", []string{"a.md:2: 101"}},
		"a heading":              {"a.md", "# " + full, []string{"a.md:1: 102"}},
		"an item":                {"a.md", "* " + full, []string{"a.md:1: 102"}},
		"every line of SQL": {
			"a.sql", full + "s\n\n" + tight,
			[]string{"a.sql:1: 101", "a.sql:3: 120"},
		},
		"a row of a table":        {"a.md", "| " + full + " |", nil},
		"a row in SQL":            {"a.sql", "| " + full, []string{"a.sql:1: 102"}},
		"one word":                {"a.md", tight, nil},
		"one word in an item":     {"a.md", "  1. " + tight, nil},
		"two words":               {"a.md", "see " + tight, []string{"a.md:1: 124"}},
		"a link":                  {"a.md", "* [the whole story](" + tight + ").", nil},
		"a link's address":        {"a.md", "[the whole story]: " + tight, nil},
		"a link and a word":       {"a.md", "[a story](" + tight + ") ends", []string{"a.md:1: 136"}},
		"code":                    {"a.md", "```go\n" + full + "s\n```\n", nil},
		"code that shows a fence": {"a.md", "~~~\n```\n" + full + "s\n~~~\n", nil},
		"code in an item":         {"a.md", "* ```\n  " + full + "\n  ```\n", nil},
		"prose after code":        {"a.md", "```\n```\n" + full + "s", []string{"a.md:3: 101"}},
		"no code in SQL":          {"a.sql", "```" + full + "\n```", []string{"a.sql:1: 103"}},
	} {
		for i := range c.want {
			c.want[i] += " columns, want at most 100"
		}
		if got := wideLines(c.name, c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", what, got, c.want)
		}
	}
}

func TestFilesThatGitHasOrWouldAddAreSearched(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	for name, text := range map[string]string{
		".gitignore": "ignored.md",
		"ignored.md": full + "s",
		"code.go":    "// " + full,
		"deleted.md": full + "s",
		"ein ü.md":   full + "s",
		"new.md":     full + "s",
		"one.sql":    full + "s",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("add", "deleted.md", "ein ü.md", "one.sql")
	if err := os.Remove(filepath.Join(dir, "deleted.md")); err != nil {
		t.Fatal(err)
	}
	got, err := search(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	var want []string
	for _, name := range []string{"ein ü.md", "new.md", "one.sql"} {
		want = append(want, name+":1: 101 columns, want at most 100")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDirectoryWithoutGitIsAnError(t *testing.T) {
	t.Setenv("GIT_CEILING_DIRECTORIES", os.TempDir())
	if wide, err := search(t.TempDir()); err == nil {
		t.Errorf("nothing was searched, got %q", wide)
	}
}
