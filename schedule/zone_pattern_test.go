package schedule

import (
	"slices"
	"time"
)

// A pattern is a schedule that knows nothing of zones. It comes every so often, or at some times of
// each day or of one day of the week. All of it is in seconds; local times are counted since 1970.
type pattern struct {
	every, first int64

	times   []int64 // of the day, in order
	weekday int64   // 0 for each, else from 1 for Monday to 7
}

const secondsOfDay = 24 * 3600

// has reports whether the pattern comes at a local time.
func (p pattern) has(local int64) bool {
	if p.every > 0 {
		return modulo(local-p.first, p.every) == 0
	}
	return p.on(local) && slices.Contains(p.times, modulo(local, secondsOfDay))
}

// on reports whether the pattern comes on the day of a local time.
func (p pattern) on(local int64) bool { return p.weekday == 0 || p.weekday == weekdayOf(local) }

// weekdayOf returns 1 for a Monday; the first day of 1970 was a Thursday.
func weekdayOf(local int64) int64 {
	return modulo((local-modulo(local, secondsOfDay))/secondsOfDay+3, 7) + 1
}

func (p pattern) Next(after time.Time) time.Time {
	local := after.Unix() // the second that it is in: all before the next one is past
	if p.every > 0 {
		return time.Unix(local+p.every-modulo(local-p.first, p.every), 0).UTC()
	}
	for day := local - modulo(local, secondsOfDay); ; day += secondsOfDay {
		if !p.on(day) {
			continue
		}
		for _, of := range p.times {
			if day+of > local {
				return time.Unix(day+of, 0).UTC()
			}
		}
	}
}

// modulo is never negative, also before 1970.
func modulo(a, b int64) int64 { return (a%b + b) % b }

// patternsAround returns patterns of times of day: at, in and around what a change skips or
// repeats, and everywhere else.
func patternsAround(c change) (patterns []pattern) {
	first := c.at + min(c.before, c.after) // of what is skipped or repeated
	end := c.at + max(c.before, c.after)
	middle := first + c.shift()/2
	middle -= modulo(middle, oracleGrain)

	var times []int64
	for _, local := range []int64{first - 60, first, first + 60, middle, end - 60, end, end + 60} {
		times = append(times, modulo(local, secondsOfDay))
	}
	for minute := int64(0); minute < 24*60; minute += 75 {
		times = append(times, minute*60)
	}
	for _, of := range times {
		patterns = append(patterns, pattern{times: []int64{of}})
	}
	for _, of := range []int64{first, middle, end, end + 3600} {
		weekly := pattern{times: []int64{modulo(of, secondsOfDay)}, weekday: weekdayOf(of)}
		patterns = append(patterns, weekly)
	}
	for _, of := range [][]int64{
		{first, middle},
		{first + 60, end - 60},
		{middle, end + 3600},
		{middle - 2*3600, middle},
		{first, first + 20*60, first + 40*60},
		{middle, middle + 12*3600},
	} {
		for i := range of {
			of[i] = modulo(of[i], secondsOfDay)
		}
		slices.Sort(of)
		patterns = append(patterns, pattern{times: slices.Compact(of)})
	}
	return patterns
}
