package contract_test

import (
	"os/exec"
	"strings"
	"testing"
)

func TestLibraryDependsOnStandardLibraryAlone(t *testing.T) {
	t.Parallel()
	const module = "github.com/pgleader/pgleader/"
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"leader", module+"db")
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	own := 0
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		first, _, _ := strings.Cut(dep, "/")
		switch {
		case dep == module+"leader", dep == module+"db":
			own++
		case strings.Contains(first, "."):
			t.Errorf("leader or db depends on %s", dep)
		}
	}
	if own != 2 {
		t.Errorf("go list names %d of the two packages:\n%s", own, out)
	}
}
