// Package words is how pgleader writes to the people who read it: instants, durations, names that
// somebody else chose, lines of prose, and hints. It knows neither leases nor databases.
package words

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Span prints a duration with the precision that a person wants.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Span(-d)
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	days, hours := d/(24*time.Hour), d%(24*time.Hour)/time.Hour
	return strconv.Itoa(int(days)) + "d" + strconv.Itoa(int(hours)) + "h"
}

// Instant prints a time as everything else in pgleader takes it: by RFC 3339, in UTC, to the
// millisecond. The zero time is "-".
func Instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// Slot prints the time of a slot with all its digits, so that it can be given to another command.
func Slot(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// SameSlot reports whether a time that somebody gave means a slot on record. That one has the
// database's precision: the library rounds up.
func SameSlot(onRecord, given time.Time) bool {
	return !onRecord.Before(given) && onRecord.Sub(given) < time.Microsecond
}

// Name makes a name from the database safe and clear on a terminal: one with control characters, or
// with what would be taken for a column's end, is quoted.
func Name(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// OneLine joins the lines of a text, and makes one space of several.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// briefest is how long a message may be in a table, in characters.
const briefest = 200

// Brief makes one line of a message, of a length that can be read.
func Brief(message string) string {
	line := []rune(OneLine(message))
	if len(line) > briefest {
		return string(line[:briefest]) + "…"
	}
	return string(line)
}

// width is where prose is folded.
const width = 100

// Folded breaks long lines of prose between words. Indented lines are commands to copy, and stay
// whole.
func Folded(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, " ") {
			b.WriteString(line)
			continue
		}
		column := 0
		for word := range strings.FieldsSeq(line) {
			n := utf8.RuneCountInString(word)
			switch {
			case column == 0:
			case column+1+n > width:
				b.WriteByte('\n')
				column = 0
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += n
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}
