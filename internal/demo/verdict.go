package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// A promise is what the library says, and what was seen.
type promise struct {
	what     string
	took     string
	promised string
	kept     bool
}

type verdict []promise

// within judges a promise about a time.
func (v *verdict) within(what string, took, limit time.Duration, terms string) {
	*v = append(*v, promise{
		what:     what,
		took:     seconds(took),
		promised: fmt.Sprintf("%s, %s", seconds(limit), terms),
		kept:     took <= limit,
	})
}

// never is within for something that did not happen as long as anybody waited.
func (v *verdict) never(what string, limit time.Duration, terms string) {
	v.holds(what, "never", fmt.Sprintf("%s, %s", seconds(limit), terms), false)
}

// holds judges a promise of another kind.
func (v *verdict) holds(what, took, promised string, kept bool) {
	*v = append(*v, promise{what, took, promised, kept})
}

// kept reports whether there were promises and all were kept.
func (v verdict) kept() bool {
	for _, p := range v {
		if !p.kept {
			return false
		}
	}
	return len(v) > 0
}

// write prints the table.
func (v verdict) write(out io.Writer) {
	if len(v) == 0 {
		return
	}
	text := []byte("WHAT HAPPENED\tTOOK\tPROMISED\tVERDICT\n")
	broken := 0
	for _, p := range v {
		mark := "ok"
		if !p.kept {
			mark = "BROKEN"
			broken++
		}
		text = fmt.Appendf(text, "%s\t%s\t%s\t%s\n", p.what, p.took, p.promised, mark)
	}
	if broken > 0 {
		text = fmt.Appendf(text, "\n%d of %d promises BROKEN\n", broken, len(v))
	} else {
		text = fmt.Appendf(text, "\n%d promises, all kept\n", len(v))
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = table.Write(append([]byte("\n"), text...))
	_ = table.Flush()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }
