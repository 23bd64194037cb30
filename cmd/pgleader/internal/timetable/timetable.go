// Package timetable reads what people write about when a job is due: time fields as in crontab,
// time zones, instants, and what is to become of slots that do not go as planned.
//
// Whatever is written is honoured or refused. Nothing that was written is replaced by a default:
// what is to have its default is left out.
package timetable

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a scratch image has no zones

	cron "github.com/netresearch/go-cron"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/schedule"
)

// DefaultZone is the time zone of a schedule that names none.
const DefaultZone = "UTC"

// A Schedule is the time fields of a crontab line, in a time zone.
type Schedule struct {
	fields string
	parsed cron.Schedule // the fields, without a zone
	zone   *time.Location
	inZone schedule.Schedule
}

// Parse reads the time fields of a crontab line. It refuses fields that never come.
func Parse(fields string, zone *time.Location) (*Schedule, error) {
	parsed, err := parseFields(fields)
	if err != nil {
		return nil, err
	}
	s := &Schedule{fields, parsed, zone, schedule.InZone(parsed, zone)}
	if now := time.Now(); !s.Next(now).After(now) {
		return nil, words.WithHint(fmt.Errorf("schedule %q never comes", fields),
			"look for a day that its month does not have")
	}
	return s, nil
}

// Next returns the first instant after another, or the zero time if there is none.
func (s *Schedule) Next(after time.Time) time.Time { return s.inZone.Next(after) }

// Same reports whether the other schedule was written in the same way.
func (s *Schedule) Same(other *Schedule) bool {
	return s.fields == other.fields && s.zone.String() == other.zone.String()
}

// Newest is the last instant up to now, or the zero time if that is more than a few days old.
func (s *Schedule) Newest(now time.Time) time.Time {
	const oldest = 7 * 24 * time.Hour
	var last time.Time
	// In growing steps, so that a schedule of every second does not take a million of them.
	for back := time.Minute; last.IsZero() && back < oldest; back *= 4 {
		for at := s.Next(now.Add(-back)); !at.IsZero() && !at.After(now); at = s.Next(at) {
			last = at
		}
	}
	return last
}

var crontabLine = cron.MustNewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom |
	cron.Month | cron.Dow | cron.Descriptor)

// parseFields refuses what says when by other means than times.
func parseFields(fields string) (cron.Schedule, error) {
	const form = "write five fields, as in crontab: minute hour day month weekday; " +
		"see https://crontab.guru"
	switch trimmed := strings.TrimSpace(fields); {
	case trimmed == "":
		return nil, words.WithHint(errors.New("the schedule is empty"), form)
	case strings.HasPrefix(trimmed, "TZ=") || strings.HasPrefix(trimmed, "CRON_TZ="):
		return nil, words.WithHint(fmt.Errorf("schedule %q names a time zone", fields),
			"give the zone apart, by --tz or time_zone")
	case strings.HasPrefix(trimmed, "@every"), strings.HasPrefix(trimmed, "@reboot"):
		// Every host would count from another moment.
		return nil, words.WithHint(
			fmt.Errorf("schedule %q has no times of its own, which all hosts share", fields),
			"write */5 * * * * for every five minutes")
	}
	parsed, err := crontabLine.Parse(fields)
	if err != nil {
		return nil, words.WithHint(fmt.Errorf("schedule %q: %w", fields, err), form)
	}
	return parsed, nil
}

// ParseZone reads the name of a time zone. It refuses that of the host: hosts may differ.
func ParseZone(name string) (*time.Location, error) {
	switch {
	case name == "":
		return nil, words.WithHint(errors.New("the time zone is empty"),
			"name it, such as Europe/Paris, or leave it out for %s", DefaultZone)
	case strings.EqualFold(name, "local"):
		return nil, words.WithHint(
			errors.New("time zone \"local\" means another one on every host"),
			"name it, such as Europe/Paris")
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, words.WithHint(fmt.Errorf("unknown time zone %q", name), "write a name of the "+
			"IANA database, such as Europe/Paris, America/New_York or UTC")
	}
	return location, nil
}

// ParseInstant reads the time of a slot, in RFC 3339.
func ParseInstant(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, words.WithHint(fmt.Errorf("slot %q is not a time", text),
			"write it with its offset, such as 2026-11-29T02:00:00Z or 2026-11-29T03:00:00+01:00")
	}
	return at, nil
}
