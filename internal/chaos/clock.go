//go:build unix

package main

import (
	"reflect"
	"time"
	"unsafe"

	"github.com/pgleader/pgleader/leader"
)

// injectClock replaces the wall clock of an elector, for which its own tests have a seam and the API, on purpose, none.
// A Go program reads the clock without the C library, so it can't be deceived from outside, and setting the machine's
// would deceive the database too.
func injectClock(e *leader.Elector, wall func() time.Time) {
	field := reflect.ValueOf(e).Elem().FieldByName("wall")
	*(*func() time.Time)(unsafe.Pointer(field.UnsafeAddr())) = wall
}
