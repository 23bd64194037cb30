package leader

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// What CheckJob lets pass must fit into the column; what it refuses gets its error.
func FuzzCheckJob(f *testing.F) {
	for _, name := range []string{
		"", "nightly-report", "Backup '/logs/' + daily 日本", "a\x00b", "a\xff",
		strings.Repeat("j", MaxJobBytes+1),
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		fits := name != "" && len(name) <= MaxJobBytes && utf8.ValidString(name) &&
			!strings.Contains(name, "\x00")
		if err := CheckJob(name); (err == nil) != fits || err != nil && !errors.Is(err, ErrJobName) {
			t.Errorf("CheckJob(%q) = %v", name, err)
		}
	})
}
