package main

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"time"
)

// A row is one line of results.json. A field that was not measured is absent.
type row struct {
	Bench        string   `json:"bench"`
	Subject      string   `json:"subject"`
	Driver       string   `json:"driver"`
	N            int      `json:"n"`
	MedianUS     *float64 `json:"median_us,omitempty"`
	P99US        *float64 `json:"p99_us,omitempty"`
	P10US        *float64 `json:"p10_us,omitempty"` // when nothing else got in the way
	RatioToFloor *float64 `json:"ratio_to_floor,omitempty"`
	RatioAtP10   *float64 `json:"ratio_at_p10,omitempty"` // of the 10th percentiles
	WALBytes     *float64 `json:"wal_bytes,omitempty"`
	RoundTrips   *float64 `json:"round_trips,omitempty"`
	Statements   *float64 `json:"statements,omitempty"`
	Allocs       *float64 `json:"allocs,omitempty"`

	// Extra holds what only some benches measure; its keys end in their unit.
	Extra map[string]float64 `json:"extra,omitempty"`
}

func writeRows(path string, rows []row) error {
	text, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

func readRows(path string) (rows []row, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return rows, json.Unmarshal(text, &rows)
}

// timed fills in the latencies.
func (r row) timed(samples []time.Duration) row {
	r.N = len(samples)
	if r.N > 0 {
		r.MedianUS, r.P99US = some(micros(quantile(samples, 0.5))), some(micros(quantile(samples, 0.99)))
		r.P10US = some(micros(quantile(samples, 0.1)))
	}
	return r
}

// quantile of few samples is pessimistic: the 99th percentile of fewer than a hundred is the
// greatest.
func quantile[T int64 | float64 | time.Duration](samples []T, q float64) T {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[min(int(math.Ceil(q*float64(len(sorted))))-1, len(sorted)-1)]
}

func micros(d time.Duration) float64 { return math.Round(float64(d)/100) / 10 }

func some(f float64) *float64 { return &f }
