package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A table is printed as Markdown.
type table struct {
	title   string
	note    string
	columns []string
	lines   [][]string
}

func (t *table) add(cells ...string) { t.lines = append(t.lines, cells) }

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "\n### %s\n\n", t.title)
	if t.note != "" {
		fmt.Fprintf(w, "%s\n\n", wrapped(t.note))
	}
	fmt.Fprintf(w, "| %s |\n|%s\n",
		strings.Join(t.columns, " | "), strings.Repeat("---|", len(t.columns)))
	for _, line := range t.lines {
		fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
	}
}

// wrapped breaks prose into lines of at most 100 columns, as documents have them.
func wrapped(prose string) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(prose) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line+" "+word) > 100:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}

// number prints three significant digits or more, and what was not measured as a dash.
func number(f *float64) string {
	switch {
	case f == nil:
		return "–"
	case *f == float64(int64(*f)), *f >= 100:
		return strconv.FormatFloat(*f, 'f', 0, 64)
	case *f >= 10:
		return strconv.FormatFloat(*f, 'f', 1, 64)
	}
	return strconv.FormatFloat(*f, 'f', 2, 64)
}

func num(f float64) string { return number(&f) }

func ms(d time.Duration) string { return num(float64(d) / float64(time.Millisecond)) }

// millis prints a row's microseconds as milliseconds.
func millis(us *float64) string {
	if us == nil {
		return "–"
	}
	return num(*us / 1000)
}
