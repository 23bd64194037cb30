//go:build unix

package main

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain is also the main function of the workers: the test starts them as this program.
func TestMain(m *testing.M) {
	if status, ok := child(); ok {
		os.Exit(status)
	}
	os.Exit(m.Run())
}

func TestNoPromiseIsBrokenUnderFaults(t *testing.T) {
	o := options{
		seed: rand.Uint64N(1e9) + 1, histories: 8, restarts: 4, parallel: 4,
		duration: 4 * time.Second, ttl: time.Second, keep: t.TempDir(),
	}
	if err := chaos(t.Context(), t.Output(), o); err != nil {
		t.Fatal(err)
	}
}

func TestPlanFollowsFromSeed(t *testing.T) {
	plan := func(seed uint64) string {
		return newPlan(rand.New(rand.NewPCG(seed, 0)), 3, 5*time.Second, time.Second).String()
	}
	if first, again := plan(7), plan(7); first != again || first == plan(8) {
		t.Error("the seed does not decide the plan")
	}
	var text strings.Builder
	for seed := range uint64(100) {
		text.WriteString(plan(seed))
	}
	all := text.String()
	for _, kind := range append(append([]string(nil), workerFaults...), databaseFaults...) {
		if !strings.Contains(all, kind) {
			t.Errorf("no plan has the fault %q", kind)
		}
	}
}

func TestScheduleComesEverySecond(t *testing.T) {
	s := everySecond{offset: 300 * time.Millisecond}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct{ after, want time.Duration }{
		{0, 300 * time.Millisecond},
		{299 * time.Millisecond, 300 * time.Millisecond},
		{300 * time.Millisecond, 1300 * time.Millisecond},
		{900 * time.Millisecond, 1300 * time.Millisecond},
	} {
		if got := s.Next(at.Add(c.after)); !got.Equal(at.Add(c.want)) {
			t.Errorf("after %v comes %v, want %v", c.after, got.Sub(at), c.want)
		}
	}
}
