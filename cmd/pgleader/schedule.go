package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a scratch image has no zones

	cron "github.com/netresearch/go-cron"

	"github.com/pgleader/pgleader/leader"
)

var crontabLine = cron.MustNewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// parseSchedule makes a schedule of a crontab's time fields, in a zone. It refuses one that never comes.
func parseSchedule(spec, zone string) (leader.Schedule, *time.Location, error) {
	location, err := parseZone(zone)
	if err != nil {
		return nil, nil, err
	}
	const form = "write five fields, as in crontab: minute hour day month weekday; see https://crontab.guru"
	switch trimmed := strings.TrimSpace(spec); {
	case trimmed == "":
		return nil, nil, hint(errors.New("the schedule is empty"), form)
	case strings.HasPrefix(trimmed, "TZ=") || strings.HasPrefix(trimmed, "CRON_TZ="):
		return nil, nil, hint(fmt.Errorf("schedule %q names a time zone", spec), "give the zone apart, by --tz or time_zone")
	case strings.HasPrefix(trimmed, "@every"), strings.HasPrefix(trimmed, "@reboot"):
		// Every host would count from another moment.
		return nil, nil, hint(fmt.Errorf("schedule %q has no times of its own, which all hosts share", spec), "write */5 * * * * for every five minutes")
	}
	parsed, err := crontabLine.Parse(spec)
	if err != nil {
		return nil, nil, hint(fmt.Errorf("schedule %q: %w", spec, err), form)
	}
	schedule := leader.InZone(parsed, location)
	if now := time.Now(); !schedule.Next(now).After(now) {
		return nil, nil, hint(fmt.Errorf("schedule %q never comes", spec), "look for a day that its month does not have")
	}
	return schedule, location, nil
}

// parseZone takes the empty name for UTC, not for the zone of the host: hosts may differ.
func parseZone(name string) (*time.Location, error) {
	if strings.EqualFold(name, "local") {
		return nil, hint(errors.New("time zone \"local\" means another one on every host"), "name it, such as Europe/Paris")
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, hint(fmt.Errorf("unknown time zone %q", name), "write a name of the IANA database, such as Europe/Paris, America/New_York or UTC")
	}
	return location, nil
}

// parseSlot takes an instant of a schedule.
func parseSlot(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, hint(fmt.Errorf("slot %q is not a time", text), "write it with its offset, such as 2026-11-29T02:00:00Z or 2026-11-29T03:00:00+01:00")
	}
	return at, nil
}
