package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// An error's text may be anything; what is stored of it must fit into the column.
func FuzzStorable(f *testing.F) {
	for _, text := range []string{"", "no paper", "a\x00b\xff", strings.Repeat("日", 4000)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := storable(text)
		if !utf8.ValidString(got) || strings.Contains(got, "\x00") || len(got) > 4000 {
			t.Errorf("storable(%q) = %q", text, got)
		}
	})
}

// A slot's instant must be the same on its way to the database and back, at a precision of a
// microsecond.
func FuzzSlotTime(f *testing.F) {
	for _, at := range []time.Time{
		{}, time.Unix(0, 0), time.Unix(1<<40, 999), time.Date(2026, 11, 29, 2, 0, 0, 1, time.UTC),
	} {
		f.Add(at.Unix(), int64(at.Nanosecond()))
	}
	f.Fuzz(func(t *testing.T, seconds, nanos int64) {
		at, err := slotTime(time.Unix(seconds, nanos))
		if err != nil {
			if !errors.Is(err, ErrSlotTime) {
				t.Errorf("%v", err)
			}
			return
		}
		whole := at.Nanosecond()%1000 == 0
		if !whole || at.Year() < 1970 || at.Year() > 9999 || at.Location() != time.UTC {
			t.Errorf("slotTime = %v", at)
		}
	})
}
