package wallclock_test

import (
	"database/sql"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/internal/wallclock"
	"github.com/pgleader/pgleader/leader"
)

// Nobody names most of these fields: Set finds them.
//
//nolint:unused
type (
	direct struct {
		wall func() time.Time
	}
	below struct {
		pool  *sql.DB
		part  *direct
		again *direct // the same
		self  *below
		none  *direct
	}
	embedded struct{ direct }
	twice    struct{ a, b direct }
	renamed  struct{ clock func() time.Time }
	retyped  struct{ wall time.Time }
)

func TestSetFindsTheClock(t *testing.T) {
	want := time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	clock := func() time.Time { return want }
	d, b, e := &direct{}, &below{pool: new(sql.DB), part: &direct{}}, &embedded{}
	b.self, b.again = b, b.part
	for _, tt := range []struct {
		elector any
		wall    func() time.Time
	}{
		{d, func() time.Time { return d.wall() }},
		{b, func() time.Time { return b.part.wall() }},
		{e, func() time.Time { return e.wall() }},
	} {
		if err := wallclock.Set(tt.elector, clock); err != nil {
			t.Errorf("%T: %v", tt.elector, err)
			continue
		}
		if got := tt.wall(); !got.Equal(want) {
			t.Errorf("%T shows %v, want %v", tt.elector, got, want)
		}
	}
}

func TestSetSaysWhatItDoesNotFind(t *testing.T) {
	none := (*direct)(nil)
	for _, elector := range []any{nil, none, direct{}, new(int), &twice{}, &renamed{}, &retyped{}} {
		err := wallclock.Set(elector, time.Now)
		if err == nil || !strings.HasPrefix(err.Error(), "wallclock: ") {
			t.Errorf("%T: %v, want an error of this package", elector, err)
		}
	}
	if wallclock.Set(&direct{}, nil) == nil {
		t.Error("a nil clock is accepted")
	}
}

func TestElectorHasAClockToSet(t *testing.T) {
	pool := pgfake.NewPath(pgfake.NewTable()).OpenDB()
	defer pool.Close()
	elector, err := leader.New(pool, leader.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Bool
	err = wallclock.Set(elector, func() time.Time {
		asked.Store(true)
		return time.Now().Round(0)
	})
	if err != nil {
		t.Fatal(err)
	}
	term, ok, err := elector.TryAcquire(t.Context(), "job")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := term.Resign(); err != nil {
		t.Fatal(err)
	}
	if !asked.Load() {
		t.Error("the elector does not look at the clock that was set")
	}
}
