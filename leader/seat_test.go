package leader

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/pgleader/pgleader/internal/pgfake"
)

// A term has the values of its caller's context, such as a request. A process that leads a new job
// for each tenant or day must not keep them all.
func TestTermThatIsOverLetsGoOfItsCallersContext(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgfake.NewTable(), Config{})
	value := new([1 << 20]byte)
	kept := weak.Make(value)
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, value)
	term, ok, err := p.TryAcquire(ctx, "report")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	mustResign(t, term)
	value, ctx, term = nil, nil, nil
	for began := time.Now(); kept.Value() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the elector keeps the context of a caller whose term is over")
		}
		runtime.GC()
	}
	runtime.KeepAlive(p)
}
