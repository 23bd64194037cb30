package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pgleader/pgleader/migrations"
)

func TestDescriptionSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for state, want := range map[migrations.State]string{
		{Newest: 2}:                          "the database has none of pgleader's tables",
		{Version: 1, Newest: 2}:              "the database is at version 1 of 2",
		{Version: 3, Newest: 2}:              "the database is at version 3, newer than this program's 2",
		{Version: 2, Newest: 2, Dirty: true}: "the database is at version 2 of 2, dirty",
	} {
		if got := Describe(state); got != want {
			t.Errorf("%+v: %q, want %q", state, got, want)
		}
	}
}

func TestScriptsHaveWhatComesAfterTheVersionInItsOrder(t *testing.T) {
	t.Parallel()
	scripts, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	const lease, slot = "CREATE TABLE leader_lease", "CREATE TABLE leader_slot"
	version := fmt.Sprintf("VALUES (%d, false)", scripts.Newest())
	const noLease, noSlot = "DROP TABLE leader_lease", "DROP TABLE leader_slot"
	const books = "DROP TABLE leader_schema_migrations;"
	for name, row := range map[string]struct {
		text        string
		want, never []string // want in this order
	}{
		"up":                  {scripts.Up(0), []string{lease, slot, version}, nil},
		"up from version 1":   {scripts.Up(1), []string{slot, version}, []string{lease}},
		"down":                {scripts.Down(scripts.Newest()), []string{noSlot, noLease, books}, nil},
		"down from version 1": {scripts.Down(1), []string{noLease, books}, []string{noSlot}},
	} {
		if !strings.HasPrefix(row.text, "BEGIN;\n") || !strings.HasSuffix(row.text, "\nCOMMIT;\n") {
			t.Errorf("%s is not one transaction", name)
		}
		rest := row.text
		for _, part := range row.want {
			_, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("%s has no %q in its place", name, part)
			}
			rest = after
		}
		for _, part := range row.never {
			if strings.Contains(row.text, part) {
				t.Errorf("%s has %q", name, part)
			}
		}
	}
}
