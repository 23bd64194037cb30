package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
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

func text(s string) cell { return cell{text: words.Name(s)} }

func styled(s string, how style) cell { return cell{words.Name(s), how} }

// coloured reports whether f is a terminal whose user has nothing against colours
// (https://no-color.org).
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

// writeJSONLine prints one value on one line.
func writeJSONLine(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// jsonName is a state in JSON.
func jsonName[T ~string](state T) string { return strings.ReplaceAll(string(state), " ", "_") }

// jsonTime is a time in JSON: RFC 3339 in UTC, or null.
func jsonTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
