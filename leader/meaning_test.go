package leader

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/internal/pgfake"
)

func TestAnswerToAClaimMeansOneThing(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgfake.NewTable(), Config{})
	now := p.now()
	long := now.add(-p.ttl)
	live := func(holder string) Lease { return Lease{Holder: holder, Token: 7, Left: time.Second} }
	free := func(holder string) Lease { return Lease{Holder: holder, Token: 7, Left: -time.Second} }
	ours, rivals := live(p.holder), live("rival")
	late := fmt.Errorf("%w: late", pgcall.ErrUnanswered)
	for _, row := range []struct {
		name   string
		answer answer
		err    error
		want   claimMeaning
	}{
		{"granted", answer{sent: now, acquired: true, lease: ours}, nil, claimGranted},
		{"granted, heard too late", answer{sent: long, acquired: true, lease: ours}, nil, claimOutlived},
		{"another's", answer{sent: now, lease: rivals}, nil, claimHeld},
		{"another's, expired and locked", answer{sent: now, lease: free("rival")}, nil, claimHeld},
		{"ours, and live under a term given up", answer{sent: now, lease: ours}, nil, claimHeld},
		{"ours, and over before the answer", answer{sent: now, lease: free(p.holder)}, nil, claimStuck},
		{"no row", answer{}, sql.ErrNoRows, claimCrossed},
		{"a serialization failure", answer{}, pgfake.ServerError("40001"), claimCrossed},
		{"a deadlock", answer{}, pgfake.ServerError("40P01"), claimCrossed},
		{"a reset connection", answer{}, pgfake.ErrReset, claimUnanswered},
		{"a driver that does not return", answer{}, late, claimUnanswered},
		{"a server that shuts down", answer{}, pgfake.ServerError("57P01"), claimUnanswered},
		{"a statement timeout", answer{}, pgfake.ServerError("57014"), claimRefused},
		{"a missing table", answer{}, pgcall.Explain(pgfake.ServerError("42P01")), claimRefused},
	} {
		if got := p.meaningOf(row.answer, row.err); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func TestClaimIsHeardOutOnlyIfItMayBeGranted(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		nil:                         false,
		errors.New("reset"):         true,
		errTrustEnded:               true,
		pgcall.ErrUnanswered:        false, // it was waited for already
		pgfake.ServerError("57014"): false,
		pgfake.ServerError("57P01"): true,
	} {
		if got := mayBeGranted(err); got != want {
			t.Errorf("after %v: %v, want %v", err, got, want)
		}
	}
}
