package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// The oracle watches a zone's clock run, and asks it for nothing but what it shows at an instant.
// It remembers each local time that was shown, so it sees for itself what is skipped and what
// repeated. Nothing of it is shared with InZone: no bounds of periods, and no Next of a schedule.

// oracleGrain is how often the oracle looks at the clock, in seconds. All the patterns but one fit
// it.
const oracleGrain = 30

// oracleYears are the zones to watch, each in years with changes of its own kind. Clocks are set by
// quarters, half an hour, two or three hours, at midnight, or by a day. Laws change, and some years
// are beyond the listed changes.
func oracleYears() map[string][]int {
	return map[string][]int{
		"Africa/Cairo":         {2010, 2014, 2023},
		"Africa/Casablanca":    {2012, 2018, 2026},
		"Africa/El_Aaiun":      {2015, 2027},
		"Africa/Juba":          {2021},
		"Africa/Monrovia":      {1972},
		"Africa/Windhoek":      {2017},
		"America/Asuncion":     {2010, 2024},
		"America/Caracas":      {2007, 2016},
		"America/Havana":       {2011, 2026},
		"America/New_York":     {2007, 2026, 2041},
		"America/Nuuk":         {2023, 2024},
		"America/Santiago":     {2015, 2026, 2041},
		"America/Sao_Paulo":    {2018},
		"America/Scoresbysund": {2024},
		"America/St_Johns":     {1988, 2006, 2026},
		"Antarctica/Casey":     {2010, 2018},
		"Antarctica/Troll":     {2026, 2041},
		"Asia/Amman":           {2012, 2022},
		"Asia/Beirut":          {2026},
		"Asia/Gaza":            {2011, 2026},
		"Asia/Kathmandu":       {1985, 1986},
		"Asia/Pyongyang":       {2015, 2018},
		"Asia/Tehran":          {1977, 2022},
		"Atlantic/Azores":      {1992, 2026},
		"Australia/Lord_Howe":  {1981, 2026, 2041},
		"Australia/Sydney":     {2026, 2041},
		"Europe/Berlin":        {1947, 2026, 2041},
		"Europe/Dublin":        {1971, 2026},
		"Europe/Volgograd":     {2018, 2020},
		"Pacific/Apia":         {2011, 2020},
		"Pacific/Chatham":      {2026, 2041},
		"Pacific/Fakaofo":      {2011},
		"Pacific/Kiritimati":   {1994, 1995},
		"Pacific/Kwajalein":    {1993},
		"Pacific/Norfolk":      {2015, 2026},
	}
}

func TestInZoneAgreesWithAClockThatIsWatched(t *testing.T) {
	t.Parallel()
	for name, years := range oracleYears() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			changes := 0
			for _, year := range years {
				for _, c := range changesIn(zone, year) {
					changes++
					agrees(t, zone, c)
				}
			}
			if changes == 0 {
				t.Errorf("no clock was changed in the years %v", years)
			}
		})
	}
}

// Beyond the changes that its file lists, Go takes the end of a leap year for one, a day too early.
func TestInZoneAgreesWithAClockThatIsWatchedWhenALeapYearEnds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"America/New_York", "Australia/Sydney", "Pacific/Chatham"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, day := range []int{30, 31, 32} {
			at := time.Date(2040, 12, day, 0, 0, 0, 0, time.UTC)
			agrees(t, zone, change{at.Unix(), offsetAt(zone, at.Unix()), offsetAt(zone, at.Unix())})
		}
	}
}

// A change is an instant at which clocks are set, and their offsets before and then, in seconds.
type change struct{ at, before, after int64 }

// shift returns by how much the clocks are set.
func (c change) shift() int64 { return max(c.before-c.after, c.after-c.before) }

func (c change) String() string {
	return fmt.Sprintf("%s (%+d s)", time.Unix(c.at, 0).UTC().Format(time.RFC3339), c.after-c.before)
}

func offsetAt(zone *time.Location, at int64) int64 {
	_, offset := time.Unix(at, 0).In(zone).Zone()
	return int64(offset)
}

// changesIn finds the changes of a year by looking every few hours, and closer where something
// changed.
func changesIn(zone *time.Location, year int) (changes []change) {
	at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	until := time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for ; at < until; at += 6 * 3600 {
		before, after := at, at+6*3600
		if offsetAt(zone, before) == offsetAt(zone, after) {
			continue
		}
		for after-before > 1 {
			if middle := (before + after) / 2; offsetAt(zone, middle) == offsetAt(zone, at) {
				before = middle
			} else {
				after = middle
			}
		}
		changes = append(changes, change{after, offsetAt(zone, before), offsetAt(zone, after)})
	}
	return changes
}

// agrees compares InZone with the oracle around a change, for many patterns.
func agrees(t *testing.T, zone *time.Location, c change) {
	t.Helper()
	day := watch(zone, c.at-28*3600, c.at+28*3600, oracleGrain)
	for _, p := range patternsAround(c) {
		p.agrees(t, zone, c, day)
	}
	around := c.shift() + 3600
	near := watch(zone, c.at-around, c.at+around, oracleGrain)
	for _, every := range []int64{30, 60, 15 * 60, 20 * 60, 30 * 60, 3600, 2 * 3600} {
		pattern{every: every}.agrees(t, zone, c, near)
	}
	pattern{every: 3600, first: 45 * 60}.agrees(t, zone, c, near)
	if c.shift() <= 3600 {
		around = c.shift() + 60
		pattern{every: 1}.agrees(t, zone, c, watch(zone, c.at-around, c.at+around, 1))
	}
}

// agrees follows the pattern in its zone while the clock was watched, and then begins anywhere.
func (p pattern) agrees(t *testing.T, zone *time.Location, c change, clock []moment) {
	t.Helper()
	want := p.comes(clock)
	schedule := InZone(p, zone)
	next := func(at int64) int64 { return schedule.Next(time.Unix(at, 0)).Unix() }
	from, until := clock[0].at, clock[len(clock)-1].at
	var got []int64
	for at := next(from - 1); at <= until; at = next(at) {
		got = append(got, at)
		if len(got) > len(want) {
			break
		}
	}
	if !slices.Equal(got, want) {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		t.Errorf("%+v around %v came %d times, want %d; from number %d on at %v, want %v",
			p, c, len(got), len(want), i, inZone(zone, got[i:]), inZone(zone, want[i:]))
		return
	}
	for at := from; at <= until; at += 7*60 + 13 {
		i, found := slices.BinarySearch(want, at)
		if found {
			i++
		}
		if i < len(want) && next(at) != want[i] {
			t.Errorf("%+v around %v: after %v it comes at %v, want %v", p, c,
				inZone(zone, []int64{at}), inZone(zone, []int64{next(at)}), inZone(zone, want[i:i+1]))
			return
		}
	}
}

// inZone shows a few instants.
func inZone(zone *time.Location, instants []int64) (texts []string) {
	for _, at := range instants[:min(3, len(instants))] {
		texts = append(texts, time.Unix(at, 0).In(zone).Format("2006-01-02 15:04:05 -07:00"))
	}
	return texts
}

// A moment is what a clock shows at an instant, in seconds since 1970 of its own time.
type moment struct {
	at, shows int64
	skipped   int64 // by how much the clock has just been set forward
	again     int64 // by how much it was set back, if it shows this time not for the first time
	grain     int64
}

// watch looks at a clock again and again.
func watch(zone *time.Location, from, until, grain int64) (clock []moment) {
	before := map[int64]bool{}
	var back int64
	for at := from; at <= until; at += grain {
		m := moment{at: at, shows: at + offsetAt(zone, at), grain: grain}
		if len(clock) > 0 {
			ahead := m.shows - clock[len(clock)-1].shows - grain
			m.skipped = max(ahead, 0)
			back = max(back, -ahead)
		}
		if before[m.shows] {
			m.again = back
		}
		before[m.shows] = true
		clock = append(clock, m)
	}
	return clock
}

// comes returns at which moments the pattern comes, by the words of InZone's contract.
func (p pattern) comes(clock []moment) (instants []int64) {
	for _, m := range clock {
		hit := p.has(m.shows) && (m.again == 0 || p.every > 0 && p.every <= m.again)
		for skipped := m.shows - m.skipped; skipped < m.shows; skipped += m.grain {
			hit = hit || p.has(skipped)
		}
		if hit {
			instants = append(instants, m.at)
		}
	}
	return instants
}
