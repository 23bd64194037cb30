package leader

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
)

// noDatabase is a connector for tests that must not connect.
func noDatabase(context.Context) (db.Querier, func(error), error) {
	panic("connects")
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	every := func(ttl, renewEvery time.Duration) Config {
		return Config{TTL: ttl, RenewEvery: renewEvery}
	}
	for name, tt := range map[string]struct {
		cfg   Config
		names string
	}{
		"TTL below the least":       {Config{TTL: MinTTL - 1}, "TTL"},
		"TTL above the most":        {Config{TTL: MaxTTL + 1}, "TTL"},
		"negative TTL":              {Config{TTL: -time.Second}, "TTL"},
		"TTL at the end of time":    {Config{TTL: math.MaxInt64}, "TTL"},
		"negative RenewEvery":       {Config{RenewEvery: -1}, "RenewEvery"},
		"RenewEvery too often":      {Config{RenewEvery: minInterval - 1}, "RenewEvery"},
		"RenewEvery does not fit":   {every(15*time.Second, 8500*time.Millisecond+1), "RenewEvery"},
		"RenewEvery is the TTL":     {Config{TTL: time.Minute, RenewEvery: time.Minute}, "RenewEvery"},
		"RenewEvery at end of time": {Config{RenewEvery: math.MaxInt64}, "RenewEvery"},
		"negative RetryEvery":       {Config{RetryEvery: -1}, "RetryEvery"},
		"RetryEvery too often":      {Config{RetryEvery: minInterval - 1}, "RetryEvery"},
		"RetryEvery too seldom":     {Config{RetryEvery: MaxTTL + 1}, "RetryEvery"},
		"RetryEvery at end of time": {Config{RetryEvery: math.MaxInt64}, "RetryEvery"},
		"long Holder":               {Config{Holder: strings.Repeat("h", maxHolderBytes+1)}, "Holder"},
		"Holder with NUL":           {Config{Holder: "web\x001"}, "Holder"},
		"Holder that is not UTF-8":  {Config{Holder: "web\xff1"}, "Holder"},

		// client-go takes lease duration, renew deadline and retry period of 4 s, 3.9 s and 3.2 s, and
		// had two leaders for 2.9 s.
		"client-go's retry period":   {every(4*time.Second, 3200*time.Millisecond), "RenewEvery"},
		"client-go's renew deadline": {every(4*time.Second, 3900*time.Millisecond), "RenewEvery"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := newElector(noDatabase, tt.cfg)
			if !errors.Is(err, ErrConfig) || e != nil {
				t.Fatalf("New = %v, %v; want ErrConfig", e, err)
			}
			if !strings.Contains(err.Error(), tt.names) {
				t.Errorf("%q does not name %s", err, tt.names)
			}
		})
	}
}

func TestNewRefusesANilDB(t *testing.T) {
	e, err := New(nil, Config{})
	if !errors.Is(err, ErrConfig) || e != nil || !strings.Contains(err.Error(), "db is nil") {
		t.Errorf("New = %v, %v; want ErrConfig that names db", e, err)
	}
}

func TestNewDoesNotConnect(t *testing.T) {
	if _, err := New(new(sql.DB), Config{}); err != nil {
		t.Error(err)
	}
}

func TestNewTakesWhatCanWork(t *testing.T) {
	for name, cfg := range map[string]Config{
		"zero value":         {},
		"shortest TTL":       {TTL: MinTTL},
		"half a second":      {TTL: 500 * time.Millisecond},
		"longest TTL":        {TTL: MaxTTL},
		"longest RenewEvery": {TTL: 15 * time.Second, RenewEvery: 8500 * time.Millisecond},
		"shortest intervals": {RenewEvery: minInterval, RetryEvery: minInterval},
		"longest RetryEvery": {RetryEvery: MaxTTL},
		"longest Holder":     {Holder: strings.Repeat("h", maxHolderBytes)},
		"odd Holder":         {Holder: "Büro 日本 'web' \"1\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := newElector(noDatabase, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if e.renewEvery+e.callLimit+e.margin > e.ttl {
				t.Errorf("renewals %v apart that may take %v do not fit in TTL %v less %v",
					e.renewEvery, e.callLimit, e.ttl, e.margin)
			}
			if e.wallCheck > e.margin {
				t.Errorf("the wall clock is compared every %v, which is more than the margin %v",
					e.wallCheck, e.margin)
			}
			for name, d := range map[string]time.Duration{
				"callLimit": e.callLimit, "margin": e.margin,
				"retryPause": e.retryPause, "retryEvery": e.retryEvery,
			} {
				if d <= 0 {
					t.Errorf("%s is %v", name, d)
				}
			}
			if len(e.Holder()) > 255 {
				t.Errorf("the holder has %d bytes, the column takes 255", len(e.Holder()))
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	e, err := newElector(noDatabase, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if e.ttl != 15*time.Second || e.renewEvery != 5*time.Second ||
		e.retryEvery != 1500*time.Millisecond {
		t.Errorf("TTL %v, RenewEvery %v, RetryEvery %v", e.ttl, e.renewEvery, e.retryEvery)
	}
	e, err = newElector(noDatabase, Config{TTL: 3 * time.Second})
	if err != nil || e.renewEvery != time.Second || e.retryEvery != time.Second {
		t.Errorf("of TTL 3 s: %v, RenewEvery %v, RetryEvery %v", err, e.renewEvery, e.retryEvery)
	}
}

// kubernetes#61151, oban-py#32: processes with one host name, all of them process 1, took each
// other's lease for their own.
func TestHoldersOfOneNameDiffer(t *testing.T) {
	for _, name := range []string{"", "web-1"} {
		seen := make(map[string]bool)
		for range 1000 {
			e, err := newElector(noDatabase, Config{Holder: name})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(e.Holder(), name) || seen[e.Holder()] {
				t.Fatalf("holder %q of %q is not new", e.Holder(), name)
			}
			seen[e.Holder()] = true
		}
	}
}
