package wake

import (
	"context"
	"log/slog"
	"time"
)

// A row of failures lasts from the first until the listener listens again. It is reported once when
// it begins, and once when it is over.
type row struct {
	name    string
	log     *slog.Logger
	onError func(error)

	since time.Time // zero while all is well
}

func (r *row) add(err error) {
	if !r.since.IsZero() {
		return
	}
	r.since = time.Now()
	r.log.LogAttrs(context.Background(), slog.LevelWarn,
		r.name+": not listening, connecting again; candidates look every RetryEvery meanwhile",
		slog.Any("error", err))
	if r.onError != nil {
		r.onError(err)
	}
}

func (r *row) end() {
	if r.since.IsZero() {
		return
	}
	r.log.LogAttrs(context.Background(), slog.LevelInfo, r.name+": listening again",
		slog.Duration("after", time.Since(r.since)))
	r.since = time.Time{}
}
