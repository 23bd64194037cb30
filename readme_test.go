package pgleader_test

import (
	"os"
	"strings"
	"testing"
)

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
