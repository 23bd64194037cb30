package main

import "testing"

// The whole table takes minutes; that its texts are still those of the code is seen at once.
func TestEveryMutantStillApplies(t *testing.T) {
	root, err := findRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		names[m.name] = true
		if _, err := m.overlay(root, t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if len(mutants) < 12 {
		t.Errorf("there are only %d mutants", len(mutants))
	}
}
