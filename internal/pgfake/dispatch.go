package pgfake

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/pgleader/pgleader/db"
)

// dispatch calls the method of queries after which sqlc has named the statement. sqlc numbers the
// parameters of a statement as it orders the fields of the method's Params.
func dispatch(
	ctx context.Context, queries any, query string, args []driver.NamedValue,
) (any, error) {
	name := nameOf(query)
	if _, ok := reflect.TypeFor[db.Querier]().MethodByName(name); !ok {
		return nil, fmt.Errorf("pgfake: %q is no statement of package db", query)
	}
	method := reflect.ValueOf(queries).MethodByName(name)
	if !method.IsValid() {
		return nil, fmt.Errorf("pgfake: %s is not supported in a transaction", name)
	}
	in := []reflect.Value{reflect.ValueOf(ctx)}
	if method.Type().NumIn() > 1 {
		arg := reflect.New(method.Type().In(1)).Elem()
		if err := fill(arg, args); err != nil {
			return nil, fmt.Errorf("pgfake: %s: %w", name, err)
		}
		in = append(in, arg)
	}
	out := method.Call(in)
	err, _ := out[1].Interface().(error)
	return out[0].Interface(), err
}

// nameOf returns the name in "-- name: AcquireLease :one", which begins each statement of sqlc's.
func nameOf(query string) string {
	rest, _ := strings.CutPrefix(query, "-- name: ")
	name, _, _ := strings.Cut(rest, " ")
	return name
}

// fill sets a method's argument, a Params or a plain value, to the parameters of a statement.
func fill(arg reflect.Value, args []driver.NamedValue) error {
	fields := columns(arg)
	if len(args) != len(fields) {
		return fmt.Errorf("%d parameters, want %d", len(args), len(fields))
	}
	for i, field := range fields {
		value := reflect.ValueOf(args[i].Value)
		switch {
		case value.IsValid() && value.Type().AssignableTo(field.Type()):
			field.Set(value)
		case value.IsValid() && value.CanInt() && field.CanInt():
			field.SetInt(value.Int())
		default:
			return fmt.Errorf("parameter %d is %T, want %v", i+1, args[i].Value, field.Type())
		}
	}
	return nil
}

// columns returns the fields of a row or a Params, also of a table that is embedded in a row, or a
// plain value as it is.
func columns(value reflect.Value) []reflect.Value {
	_, valuer := value.Interface().(driver.Valuer)
	if value.Kind() != reflect.Struct || valuer || value.Type() == reflect.TypeFor[time.Time]() {
		return []reflect.Value{value}
	}
	var fields []reflect.Value
	for _, field := range value.Fields() {
		fields = append(fields, columns(field)...)
	}
	return fields
}

// rows is a method's answer as the driver returns it.
type rows struct {
	width int
	left  [][]driver.Value
}

// rowsOf makes rows of what a method of db.Querier returns: one value, or a slice.
func rowsOf(answer any) (*rows, error) {
	value := reflect.ValueOf(answer)
	items := []reflect.Value{value}
	if value.Kind() == reflect.Slice {
		items = nil
		for i := range value.Len() {
			items = append(items, value.Index(i))
		}
	}
	found := &rows{}
	for _, item := range items {
		var row []driver.Value
		for _, column := range columns(item) {
			v, err := driver.DefaultParameterConverter.ConvertValue(column.Interface())
			if err != nil {
				return nil, fmt.Errorf("pgfake: answer %T: %w", answer, err)
			}
			row = append(row, v)
		}
		found.width = len(row)
		found.left = append(found.left, row)
	}
	return found, nil
}

// Columns returns names that nobody asks for, one for each column.
func (r *rows) Columns() []string { return make([]string, r.width) }

// Close ends the reading.
func (r *rows) Close() error { return nil }

// Next reads the next row.
func (r *rows) Next(row []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	copy(row, r.left[0])
	r.left = r.left[1:]
	return nil
}
