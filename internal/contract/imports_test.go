package contract_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pgleader/pgleader"

// The walls of docs/design.md: each package imports the standard library and what is below it. No
// driver, no cron library, and nothing of the tool.
func TestPackagesImportOnlyWhatIsBelowThem(t *testing.T) {
	t.Parallel()
	for name, below := range map[string][]string{
		"db":              nil,
		"internal/pgcall": {"db"},
		"leader":          {"db", "internal/pgcall"},
		"schedule":        {"db", "internal/pgcall", "leader"},
	} {
		want := []string{module + "/" + name}
		for _, pkg := range below {
			want = append(want, module+"/"+pkg)
		}
		list := exec.CommandContext(t.Context(), "go", "list", "-deps",
			"-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+"/"+name)
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(string(out))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s is made of %q, want %q", name, got, want)
		}
	}
}

// A go.mod is read by people. What leader's tests and the tool need must not reach a user's.
func TestProgramThatImportsLeaderGetsFewModules(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.go": "package main\n\nimport (\n\t_ \"github.com/jackc/pgx/v5/stdlib\"\n\t_ \"" + module +
			"/leader\"\n\t_ \"" + module + "/schedule\"\n)\n\nfunc main() {}\n",
		"go.mod": "module example.com/user\n\ngo 1.26.0\n\nrequire " + module +
			" v0.0.0\n\nreplace " + module + " => " + root + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tidy := exec.CommandContext(t.Context(), "go", "mod", "tidy")
	tidy.Dir = dir
	if out, err := tidy.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "\t") {
			modules++
		}
	}
	if modules > 7 { // pgleader, pgx, and what pgx needs
		t.Errorf("the user's go.mod names %d modules, want at most 7:\n%s", modules, text)
	}
}
