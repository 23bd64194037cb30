package timetable

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Coming is a slot that is to come.
type Coming struct {
	Job   string    `json:"job,omitempty"`
	Slot  time.Time `json:"slot"`
	Local string    `json:"local"`          // what the clocks show in the schedule's zone
	Note  string    `json:"note,omitempty"` // what a change of the clocks does to it
}

// Next lists the slots of all jobs that come after an instant, by time: as many as count, or fewer
// if there are no more.
func Next(jobs map[string]*Schedule, after time.Time, count int) []Coming {
	slots := make([]Coming, 0, count)
	heads := make(map[string]time.Time)
	for name, s := range jobs {
		heads[name] = s.Next(after.UTC())
	}
	names := slices.Sorted(maps.Keys(jobs))
	for len(slots) < count {
		first := ""
		var at time.Time
		for _, name := range names {
			if head := heads[name]; !head.IsZero() && (at.IsZero() || head.Before(at)) {
				first, at = name, head
			}
		}
		if at.IsZero() {
			break
		}
		s := jobs[first]
		slots = append(slots, Coming{first, at.UTC(), s.local(at), s.clockChange(at)})
		heads[first] = s.Next(at)
	}
	return slots
}

func (s *Schedule) local(at time.Time) string {
	return at.In(s.zone).Format("Mon 2006-01-02 15:04:05 MST")
}

// clockChange says what a change of the clocks does to a slot, or nothing.
func (s *Schedule) clockChange(at time.Time) string {
	local := at.In(s.zone)
	start, end := local.ZoneBounds()
	_, offset := local.Zone()
	if !start.IsZero() {
		_, before := start.Add(-1).In(s.zone).Zone()
		shift := time.Duration(offset-before) * time.Second
		switch {
		case shift > 0 && at.Equal(start) && !s.names(local):
			from := start.In(time.FixedZone("", before))
			return fmt.Sprintf("moved: the clocks skip from %s to %s",
				from.Format("15:04"), local.Format("15:04"))
		case shift < 0 && at.Before(start.Add(-shift)):
			return "the second time that the clocks show this"
		}
	}
	if !end.IsZero() {
		_, after := end.In(s.zone).Zone()
		shift := time.Duration(offset-after) * time.Second
		if shift > 0 && !at.Before(end.Add(-shift)) {
			if s.Next(at.Add(shift - 1)).Equal(at.Add(shift)) {
				return "the first time that the clocks show this"
			}
			return "the clocks show this twice: run the first time only"
		}
	}
	return ""
}

// names reports whether the fields name what the clocks show.
func (s *Schedule) names(local time.Time) bool {
	wall := time.Date(local.Year(), local.Month(), local.Day(),
		local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
	return s.parsed.Next(wall.Add(-1)).Equal(wall)
}
