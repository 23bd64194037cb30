package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestOneBrokenPromiseMakesTheExitStatusOne(t *testing.T) {
	tests := []struct {
		name string
		fill func(*verdict)
		err  error
		want int
	}{
		{"all kept", func(v *verdict) {
			v.within("a", time.Second, time.Second, "at most")
			v.holds("b", "-", "c", true)
		}, nil, 0},
		{"too late", func(v *verdict) {
			v.holds("b", "-", "c", true)
			v.within("a", time.Second+time.Microsecond, time.Second, "at most")
		}, nil, 1},
		{"not so", func(v *verdict) {
			v.holds("b", "-", "c", false)
			v.within("a", time.Millisecond, time.Second, "at most")
		}, nil, 1},
		{"never", func(v *verdict) { v.never("a", time.Second, "at most") }, nil, 1},
		{"nothing was shown", func(*verdict) {}, nil, 1},
		{"not told to the end", func(v *verdict) { v.holds("b", "-", "c", true) }, errors.New("no"), 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var v verdict
			test.fill(&v)
			if got := status(v, test.err); got != test.want {
				t.Errorf("exit status %d, want %d", got, test.want)
			}
			var out strings.Builder
			v.write(&out)
			if broken := strings.Contains(out.String(), "BROKEN"); broken == v.kept() && len(v) > 0 {
				t.Errorf("kept is %v, but the table is\n%s", v.kept(), out.String())
			}
		})
	}
}

func TestTableIsAligned(t *testing.T) {
	var v verdict
	v.within("short", 2*time.Second, 3*time.Second, "the TTL")
	v.holds("something longer", "-", "never", false)
	var out strings.Builder
	v.write(&out)
	want := `
WHAT HAPPENED     TOOK     PROMISED          VERDICT
short             2.000 s  3.000 s, the TTL  ok
something longer  -        never             BROKEN

1 of 2 promises BROKEN
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
