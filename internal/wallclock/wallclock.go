// Package wallclock deceives an elector about the time of day, for which its own tests have a seam
// and the API, on purpose, none.
//
// A Go program reads the clock without the C library, so it can't be deceived from outside, and
// setting the machine's clock would deceive the database too.
package wallclock

import (
	"errors"
	"fmt"
	"reflect"
	"time"
	"unsafe"
)

// Set makes wall the clock of an elector that nobody uses yet. It looks for a field of the name
// wall and of wall's type: in the struct to which elector points, and then in the structs of the
// same package that this one has or points to. It returns an error unless there is exactly one.
func Set(elector any, wall func() time.Time) error {
	root := reflect.ValueOf(elector)
	if root.Kind() != reflect.Pointer || root.IsNil() || root.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("wallclock: want a pointer to an elector, not %T", elector)
	}
	if wall == nil {
		return errors.New("wallclock: want a clock, not nil")
	}
	found := find(root.Elem(), make(map[unsafe.Pointer]bool))
	if len(found) != 1 {
		return fmt.Errorf("wallclock: %T has %d fields wall func() time.Time in this package: "+
			"if the clock was renamed or moved, look for it there", elector, len(found))
	}
	*(*func() time.Time)(found[0]) = wall
	return nil
}

// find returns where the clocks are in the struct and below. It goes nowhere twice.
func find(in reflect.Value, seen map[unsafe.Pointer]bool) []unsafe.Pointer {
	var found []unsafe.Pointer
	for i := range in.NumField() {
		field := in.Field(i)
		if in.Type().Field(i).Name == "wall" && field.Type() == reflect.TypeFor[func() time.Time]() {
			found = append(found, unsafe.Pointer(field.UnsafeAddr()))
			continue
		}
		if field.Kind() == reflect.Pointer {
			if field.IsNil() || seen[field.UnsafePointer()] {
				continue
			}
			seen[field.UnsafePointer()] = true
			field = field.Elem()
		}
		// Structs of others may be in use: reading them would be a data race.
		if field.Kind() == reflect.Struct && field.Type().PkgPath() == in.Type().PkgPath() {
			found = append(found, find(field, seen)...)
		}
	}
	return found
}
