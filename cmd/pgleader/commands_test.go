package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
			t.Errorf("%s has no Short, no Long or no Example", cmd.CommandPath())
		}
		if strings.HasSuffix(cmd.Short, ".") || strings.ToLower(cmd.Short[:1]) != cmd.Short[:1] {
			t.Errorf("%s: %q is not lower case, or has a period", cmd.CommandPath(), cmd.Short)
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if len(line) > 100 {
				t.Errorf("%s: its help has a line of %d: %s", cmd.CommandPath(), len(line), line)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).command())
}

// A command line that somebody copies at 3 a.m. must be one.
func TestDocsNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatal(docs, err)
	}
	docs = append(docs, "../../README.md")
	root := (&app{}).command()
	block := regexp.MustCompile("(?ms)^```.*?^```$")
	quote := regexp.MustCompile("`[^`\n]+`")
	command := regexp.MustCompile("(?m)(?:`|^ *|\\$\\()pgleader ([a-z][^`|#)\n]*)")
	flag := regexp.MustCompile(`(?:^| )--([a-z-]+)`)
	found := 0
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		prose := block.ReplaceAllString(string(text), "")
		quoted := strings.Join(quote.FindAllString(prose, -1), " ")
		blocks := strings.Join(block.FindAllString(string(text), -1), "\n")
		for _, match := range command.FindAllStringSubmatch(quoted+"\n"+blocks, -1) {
			line, _, _ := strings.Cut(match[1], " -- ") // what follows is somebody else's command
			cmd, _, err := root.Find(strings.Fields(line))
			if err != nil || cmd == root {
				t.Errorf("%s: there is no 'pgleader %s'", doc, line)
				continue
			}
			found++
			for _, name := range flag.FindAllStringSubmatch(line, -1) {
				if cmd.Flags().Lookup(name[1]) == nil &&
					cmd.InheritedFlags().Lookup(name[1]) == nil && name[1] != "help" {
					t.Errorf("%s: 'pgleader %s' has no flag --%s", doc, line, name[1])
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("found only %d commands", found)
	}
}
