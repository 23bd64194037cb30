package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A mutant is one deliberate bug.
type mutant struct {
	name   string
	breaks string // the promise that it breaks
	edits  []edit
	finder finder
}

// An edit replaces the first occurrence of old after the text within. Both must be there, so that a
// mutant can't rot away.
type edit struct{ file, within, old, new string }

// A finder is what is expected to find a mutant: a test, or the first histories of a chaos run.
type finder struct {
	pkg, run  string
	histories int
}

func (f finder) String() string {
	if f.histories > 0 {
		return fmt.Sprintf("chaos, %d histories", f.histories)
	}
	return fmt.Sprintf("`%s` in %s", strings.ReplaceAll(f.run, "|", `\|`), f.pkg)
}

type verdict string

const (
	found    verdict = "found"
	survives verdict = "SURVIVES"
	broken   verdict = "DOES NOT APPLY" // there is no such text to replace, or no program comes of it
)

// limit is for one finder, its compilation included.
const limit = 3 * time.Minute

func (m mutant) try(ctx context.Context, root, server string) (verdict, string) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return broken, err.Error()
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return broken, err.Error()
	}
	program := filepath.Join(dir, "program")
	args := []string{"build", "-overlay", overlay, "-o", program, "./internal/chaos"}
	if m.finder.histories == 0 {
		args = []string{"test", "-c", "-vet=off", "-overlay", overlay, "-o", program, m.finder.pkg}
	}
	if out, err := command(ctx, root, server, "go", args...).CombinedOutput(); err != nil {
		return broken, string(out) + err.Error()
	}

	var cmd *exec.Cmd
	if m.finder.histories > 0 {
		cmd = command(ctx, dir, server, program,
			"-seed", "1", "-histories", strconv.Itoa(m.finder.histories), "-restarts", "0",
			"-keep", dir, "-first")
	} else { // in the package's directory, as go test does
		cmd = command(ctx, filepath.Join(root, m.finder.pkg), server, program,
			"-test.run", "^("+m.finder.run+")$", "-test.failfast", "-test.timeout", "30s")
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil && bytes.Contains(out, []byte("no tests to run")):
		return broken, string(out)
	case err == nil:
		return survives, string(out)
	}
	for _, sign := range []string{"--- FAIL", "violates", "panic: "} {
		if bytes.Contains(out, []byte(sign)) {
			return found, string(out)
		}
	}
	return broken, string(out) + err.Error()
}

// overlay writes the changed files and the list that tells the compiler to read them.
func (m mutant) overlay(root, dir string) (string, error) {
	texts := make(map[string]string)
	for _, e := range m.edits {
		text, ok := texts[e.file]
		if !ok {
			read, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return "", err
			}
			text = string(read)
		}
		from := strings.Index(text, e.within)
		if from < 0 {
			return "", fmt.Errorf("%s has no %q", e.file, e.within)
		}
		at := strings.Index(text[from:], e.old)
		if at < 0 {
			return "", fmt.Errorf("%s has no %q after %q", e.file, e.old, e.within)
		}
		texts[e.file] = text[:from+at] + e.new + text[from+at+len(e.old):]
	}
	replace := make(map[string]string)
	for file, text := range texts {
		name := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = name
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, list, 0o600)
}

func command(ctx context.Context, dir, server, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PGLEADER_POSTGRES="+server)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func findRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
}
