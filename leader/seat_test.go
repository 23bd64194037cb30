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
	kept := leadWithAValue(t, p)
	for began := time.Now(); kept.Value() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the elector keeps the context of a caller whose term is over")
		}
		runtime.GC()
	}
	runtime.KeepAlive(p)
}

// leadWithAValue leads a job for a moment, on behalf of a caller whose context has the value.
func leadWithAValue(t *testing.T, p *process) weak.Pointer[[1 << 20]byte] {
	t.Helper()
	type key struct{}
	value := new([1 << 20]byte)
	term, ok, err := p.TryAcquire(context.WithValue(t.Context(), key{}, value), "report")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	mustResign(t, term)
	return weak.Make(value)
}
