package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// A style is what a cell looks like on a terminal: an SGR parameter.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// A cell is one field of a table.
type cell struct {
	text  string
	style style
}

func text(s string) cell { return cell{text: shown(s)} }

func styled(s string, how style) cell { return cell{shown(s), how} }

// shown makes a name from the database safe and clear on a terminal: control characters, and what would be taken for a
// column's end, are quoted.
func shown(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// coloured reports whether f is a terminal whose user has nothing against colours (https://no-color.org).
func coloured(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// writeTable aligns the columns. The first row is the heading.
func writeTable(out *os.File, rows [][]cell) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	colour := coloured(out)
	for n, row := range rows {
		var line strings.Builder
		for i, c := range row {
			how := c.style
			if n == 0 {
				how = bold
			}
			if colour && how != plain {
				fmt.Fprintf(&line, "\x1b[%sm%s\x1b[0m", how, c.text)
			} else {
				line.WriteString(c.text)
			}
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
			}
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}

// writeJSON prints one value, indented.
func writeJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// folded breaks long lines of prose between words. Indented lines are commands to copy, and stay whole.
func folded(text string) string {
	const width = 100
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

// span prints a duration with the precision a person wants.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// stamp prints an instant as everything else in pgleader takes it: in UTC, by RFC 3339.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// slotStamp prints a slot with all its digits, so that it can be given back to 'pgleader rerun'.
func slotStamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// instant is a time in JSON: RFC 3339 in UTC, or null.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
