package main

import (
	"testing"
	"time"
)

func TestBackwardsFindsAStaleWrite(t *testing.T) {
	by := func(holder string, token int64) record { return record{token: token, holder: holder} }
	tests := []struct {
		name   string
		writes []record
		want   string
	}{
		{"none", nil, ""},
		{"growing", []record{by("a:x", 1), by("a:x", 1), by("b:x", 3)}, ""},
		{
			"stale",
			[]record{by("a:x", 1), by("b:x", 2), by("a:x", 1)},
			"a wrote token 1 after b wrote 2",
		},
		{"shared", []record{by("a:x", 2), by("b:x", 2)}, "b wrote token 2 after a wrote 2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := backwards(test.writes); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestOverlapFindsTwoLeadersAtOneMoment(t *testing.T) {
	at := func(ms int, token int64, holder string) record {
		return record{token, holder, time.UnixMilli(int64(ms))}
	}
	tests := []struct {
		name    string
		beliefs []record
		want    string
	}{
		{"none", nil, ""},
		{
			"one after the other",
			[]record{at(0, 1, "a:x"), at(100, 1, "a:x"), at(101, 2, "b:x"), at(300, 2, "b:x")},
			"",
		},
		{
			"written out of order",
			[]record{at(101, 2, "b:x"), at(300, 2, "b:x"), at(0, 1, "a:x"), at(100, 1, "a:x")},
			"",
		},
		{
			"a stale leader",
			[]record{at(0, 1, "a:x"), at(100, 2, "b:x"), at(150, 1, "a:x"), at(200, 2, "b:x")},
			"a (token 1) and b (token 2) for 50ms",
		},
		{
			"the same moment",
			[]record{at(0, 1, "a:x"), at(0, 2, "b:x")},
			"a (token 1) and b (token 2) for 0s",
		},
		{
			"one inside the other",
			[]record{at(0, 1, "a:x"), at(50, 2, "b:x"), at(500, 1, "a:x")},
			"a (token 1) and b (token 2) for 450ms",
		},
		{
			"one token, two holders",
			[]record{at(0, 1, "a:x"), at(20, 1, "b:x"), at(100, 1, "a:x")},
			"a (token 1) and b (token 1) for 80ms",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := overlap(test.beliefs); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
