package pgleader_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A promise names the test that shows it; a test that was renamed or removed shows nothing.
func TestDocsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		code.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Glob("docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatal(docs, err)
	}
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(text), -1) {
			if name != "TestName" && !strings.Contains(code.String(), "func "+name+"(") {
				t.Errorf("%s names %s, and there is no such test", doc, name)
			}
		}
	}
}

// What a reader copies from the first screen is what CI compiles and runs.
func TestReadmeShowsTheProgramThatIsTested(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("examples/run/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\n"+strings.TrimSpace(string(program))+"\n```") {
		t.Error("README.md does not show examples/run/main.go as it is")
	}
}
