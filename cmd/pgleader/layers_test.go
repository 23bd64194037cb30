package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers are the packages below internal, from the ground up: each imports only those below its own
// layer. Whoever adds one says here where it stands.
var layers = [][]string{
	{"words", "schema"},
	{"connect", "explain", "judge", "timetable"},
	{"cronfile", "doctor", "operator", "worker"},
	{"crontab", "slotrun"},
}

func TestPackagesImportOnlyWhatIsBelowThem(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("internal")
	if err != nil {
		t.Fatal(err)
	}
	imports := 0
	for _, entry := range entries {
		own := layerOf(entry.Name())
		if own < 0 {
			t.Errorf("%s stands in no layer", entry.Name())
		}
		for _, path := range imported(t, filepath.Join("internal", entry.Name())) {
			name, sibling := strings.CutPrefix(path, "github.com/pgleader/pgleader/cmd/pgleader/internal/")
			if !sibling {
				continue
			}
			if imports++; layerOf(name) >= own {
				t.Errorf("%s imports %s, which is not below it", entry.Name(), name)
			}
		}
	}
	if imports < 20 {
		t.Errorf("found only %d imports", imports)
	}
}

func layerOf(name string) int {
	return slices.IndexFunc(layers, func(layer []string) bool { return slices.Contains(layer, name) })
}

// imported are the imports of a package, without its tests'.
func imported(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
		}
	}
	return paths
}
