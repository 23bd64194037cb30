package cronfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
)

// A rawFile is the file as it is written. Each value stays a node until it is known which job's it
// is: then it can be told from one that is left out, and an error can say where it is.
type rawFile struct {
	TimeZone yaml.Node         `yaml:"time_zone"` // of the jobs that name none
	Jobs     map[string]rawJob `yaml:"jobs"`
}

type rawJob struct {
	Schedule yaml.Node `yaml:"schedule"`
	TimeZone yaml.Node `yaml:"time_zone"`
	Command  yaml.Node `yaml:"command"`
	Dir      yaml.Node `yaml:"dir"`
	Env      yaml.Node `yaml:"env"`

	Grace        yaml.Node `yaml:"grace"`
	CatchUp      yaml.Node `yaml:"catch_up"`
	Attempts     yaml.Node `yaml:"attempts"`
	RepeatFailed yaml.Node `yaml:"repeat_failed"`
	Keep         yaml.Node `yaml:"keep"`
}

const format = "see 'pgleader cron --help' for the format"

// decode refuses fields that it does not know, fields that come twice, and a second document.
func decode(text []byte) (*rawFile, error) {
	var raw rawFile
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&raw); err != nil && !errors.Is(err, io.EOF) {
		return nil, &Error{Err: words.WithHint(errors.New(plainly(err)), format)}
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, &Error{Err: errors.New("it has more than one YAML document")}
	}
	if len(raw.Jobs) == 0 {
		return nil, &Error{Err: words.WithHint(errors.New("it has no jobs"), format)}
	}
	return &raw, nil
}

// plainly says what the decoder says, without the names of types.
func plainly(err error) string {
	return strings.NewReplacer(
		"yaml: ", "", "unmarshal errors: ", "",
		"map[string]cronfile.rawJob", "the jobs", "cronfile.rawFile", "the jobs",
		"cronfile.rawJob", "a job",
	).Replace(words.OneLine(err.Error()))
}

// A field is one value of the file.
type field struct {
	job, name string
	node      yaml.Node
}

// given reports whether the file has it.
func (f field) given() bool { return f.node.Kind != 0 }

// empty reports whether nothing is written behind the name.
func (f field) empty() bool { return f.value().ShortTag() == "!!null" }

// text reads a text, which must not be empty, into what has the default.
func (f field) text(into *string) error {
	if !f.given() {
		return nil
	}
	var text string
	if err := f.decode(&text, "want a text"); err != nil {
		return err
	}
	if text == "" {
		return f.refuse("is empty; leave it out for the default")
	}
	*into = text
	return nil
}

// duration reads a duration into what has the default.
func (f field) duration(into *time.Duration) error {
	return f.decode(into, "want a duration such as 90s or 1h30m")
}

// number reads a whole number into what has the default. YAML's decoder would cut 1.5 to 1.
func (f field) number(into *int) error {
	const want = "want a number"
	if f.given() && !f.empty() && f.value().ShortTag() != "!!int" {
		return f.refuse("is %s, %s", f.shown(), want)
	}
	return f.decode(into, want)
}

// decode reads the value, if it is given, into what has the default. Want says what it has to be.
func (f field) decode(into any, want string) error {
	if !f.given() {
		return nil
	}
	if f.empty() {
		return f.refuse("has no value; leave it out for the default")
	}
	if err := f.value().Decode(into); err != nil {
		return f.refuse("is %s, %s", f.shown(), want)
	}
	return nil
}

// value is the node, or what it is an alias of.
func (f field) value() *yaml.Node {
	if f.node.Kind == yaml.AliasNode {
		return f.node.Alias
	}
	return &f.node
}

// shown is the value in a message.
func (f field) shown() string {
	switch f.value().Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return words.Name(f.value().Value)
	}
}

// refuse says what is wrong with the value, behind the field's name.
func (f field) refuse(problem string, args ...any) *Error {
	return f.wrap(errors.New(f.name + " " + fmt.Sprintf(problem, args...)))
}

// wrap says where an error is that names the field by itself.
func (f field) wrap(err error) *Error {
	return &Error{Line: f.node.Line, Job: f.job, Field: f.name, Err: err}
}
