// Command width names the lines of SQL and of Markdown prose that are wider than 100 columns, and
// exits with 1 if there are any. For Go code a linter does that: lll in .golangci.yaml.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

const limit = 100

func main() {
	wide, err := search(".")
	for _, line := range wide {
		fmt.Println(line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "width: error:", err)
	}
	if err != nil || len(wide) > 0 {
		os.Exit(1)
	}
}

// search returns the wide lines of all files below dir that git has or would add.
func search(dir string) (wide []string, err error) {
	git := exec.Command("git", "ls-files", "-z", "-co", "--exclude-standard", "--", "*.sql", "*.md")
	git.Dir, git.Stderr = dir, os.Stderr
	names, err := git.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.FieldsFuncSeq(string(names), func(r rune) bool { return r == 0 }) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and git was not told yet
		}
		if err != nil {
			return nil, err
		}
		wide = append(wide, wideLines(name, string(text))...)
	}
	return wide, nil
}

var (
	fence = regexp.MustCompile("^[ >]*([*+-] +|[0-9]+[.)] +)?(`{3,}|~{3,})")
	// What can't be wrapped: a row of a table, one word, one link; also as an item of a list.
	unbreakable = regexp.MustCompile(
		`^\s*(\||([>*+-]\s+|[0-9]+[.)]\s+)*(\S*|!?\[[^\]]*\](\(\S*\)|:\s*\S+)[.,:;]?)\s*$)`)
)

// wideLines returns a message for each wide line of a file. In Markdown only prose counts.
func wideLines(name, text string) (wide []string) {
	markdown, open := strings.HasSuffix(name, ".md"), "" // open is the fence around the line
	for i, line := range strings.Split(text, "\n") {
		if m := fence.FindStringSubmatch(line); markdown && m != nil {
			if open == "" {
				open = m[2]
			} else if strings.HasPrefix(m[2], open) {
				open = ""
			}
			continue
		}
		columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\r"))
		if columns <= limit || markdown && (open != "" || unbreakable.MatchString(line)) {
			continue
		}
		wide = append(wide, fmt.Sprintf("%s:%d: %d columns, want at most %d", name, i+1, columns, limit))
	}
	return wide
}
