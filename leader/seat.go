package leader

import (
	"context"
	"sync"
	"time"
)

// Seats are the places of a process's jobs: at most one call claims a job, or one live term has it,
// at any time.
type seats struct {
	mu    sync.Mutex
	byJob map[string]*seat
}

func newSeats() *seats { return &seats{byJob: make(map[string]*seat)} }

// A seat is one job's place in this process.
type seat struct {
	// Under seats.mu.
	busy    bool          // somebody claims, or works by Run or TryRun
	working bool          // the work of Run or TryRun has not returned
	term    *Term         // elected here, until soon after it is over; or nil
	changed chan struct{} // closed and replaced when one of them changes

	// Of whoever has taken the seat.
	known     int64     // the token of the last term: up to it, a lease is of a term given up
	skipped   int64     // the token of another's term that TryAcquire last reported
	heldUntil time.Time // until when another process has the lease, if it does not renew it nor resign
}

// An occupancy says who has a seat.
type occupancy int

const (
	vacant    occupancy = iota
	claimed             // another call asks the database for the lease
	occupied            // a live term, the seat's
	lingering           // work that has not returned since its term was lost
)

// occupancy is what the seat's state means. The caller holds seats.mu.
func (st *seat) occupancy() occupancy {
	switch {
	case st.term != nil && st.term.ctx.Err() == nil:
		return occupied
	case st.working:
		return lingering
	case st.busy:
		return claimed
	}
	return vacant
}

// A seating is what became of a request for a seat.
type seating struct {
	*seat
	who  occupancy // vacant: the seat is the caller's, who gives it up by leave
	term *Term     // the live term, if that occupies it
}

// take waits until nobody claims the job in this process, and takes the seat if that is vacant.
// With patience it waits until it is.
func (s *seats) take(ctx context.Context, job string, patient bool) (seating, error) {
	for {
		seating, changed := s.tryTake(job)
		var over <-chan struct{} // the end of the term changes the occupancy too
		switch {
		case seating.who == vacant:
			return seating, nil
		case seating.who == occupied && seating.term.Err() != nil:
			continue // its trust has just ended
		case seating.who == occupied:
			over = seating.term.ctx.Done()
		}
		if seating.who != claimed && !patient {
			return seating, nil
		}
		select {
		case <-changed:
		case <-over:
		case <-ctx.Done():
			return seating, ctx.Err()
		}
	}
}

// tryTake takes the seat if it is vacant.
func (s *seats) tryTake(job string) (taken seating, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.byJob[job]
	if st == nil {
		st = &seat{changed: make(chan struct{})}
		s.byJob[job] = st
	}
	taken = seating{seat: st, who: st.occupancy(), term: st.term}
	if taken.who == vacant {
		st.busy = true
	}
	return taken, st.changed
}

// leave gives up what take took. A live term keeps the seat occupied.
func (s *seats) leave(st *seat) {
	s.change(func() { st.busy, st.working = false, false }, st)
}

// occupy puts a new term on the seat, which the caller has taken, unless it is over already.
func (s *seats) occupy(st *seat, t *Term) {
	s.change(func() {
		if t.ctx.Err() == nil {
			st.term = t
		}
	}, st)
}

// vacate lets go of a term that is over: it keeps the context of its caller, with all values in it.
func (s *seats) vacate(st *seat, t *Term) {
	s.change(func() {
		if st.term == t {
			st.term = nil
		}
	}, st)
}

// work keeps the seat until leave also after the term was lost.
func (s *seats) work(st *seat) {
	s.change(func() { st.working = true }, st)
}

func (s *seats) change(how func(), st *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
	close(st.changed)
	st.changed = make(chan struct{})
}
