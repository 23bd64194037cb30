package migrations_test

import (
	"fmt"
	"io/fs"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/pgleader/pgleader/migrations"
)

func TestFilesArePairsWithoutGaps(t *testing.T) {
	entries, err := fs.ReadDir(migrations.FS, ".")
	if err != nil {
		t.Fatal(err)
	}
	// In the order of names, the down file of a version comes just before its up file.
	pattern := regexp.MustCompile(`^(\d{4}_[a-z0-9_]+)\.(down|up)\.sql$`)
	if len(entries) == 0 || len(entries)%2 != 0 {
		t.Errorf("%d files, want pairs", len(entries))
	}
	for i, entry := range entries {
		m := pattern.FindStringSubmatch(entry.Name())
		if m == nil {
			t.Errorf("%s: want 0001_what_it_does.up.sql", entry.Name())
			continue
		}
		wantNumber, wantDirection := fmt.Sprintf("%04d_", i/2+1), []string{"down", "up"}[i%2]
		if !strings.HasPrefix(m[1], wantNumber) || m[2] != wantDirection {
			t.Errorf("%s: want number %s and direction %s", entry.Name(), wantNumber, wantDirection)
		}
		if i%2 == 1 && strings.TrimSuffix(entries[i-1].Name(), ".down.sql") != m[1] {
			t.Errorf("%s does not have the name of %s", entries[i-1].Name(), entry.Name())
		}
		text, _ := fs.ReadFile(migrations.FS, entry.Name())
		if len(strings.TrimSpace(string(text))) == 0 {
			t.Errorf("%s is empty", entry.Name())
		}
	}
}

func TestPackageBringsNoDriver(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if strings.Contains(dep, "/lib/pq") || strings.Contains(dep, "/pgx") ||
			strings.Contains(dep, "docker") {
			t.Errorf("importing migrations brings %s", dep)
		}
	}
}
