// Package mutant holds the hooks that internal/mutate puts into copies of the
// sources. No other package imports it.
//
// Each hook stands for one or two mutants with numbers of their own. A test
// binary of such copies runs unchanged, unless MA2H_MUTANT names the mutant
// that is to be active. If MA2H_REACH names a file, each mutant that would have
// changed a value in this run is written to it, once: only such a run can tell
// the mutant from the original.
package mutant

import (
	"cmp"
	"os"
	"strconv"
	"sync/atomic"
)

// Variables of the environment, and the most mutants of one run.
const (
	Active = "MA2H_MUTANT"
	Reach  = "MA2H_REACH"
	Most   = 1 << 16
)

var (
	active, _ = strconv.Atoi(os.Getenv(Active))
	record    = openReach()
	reached   [Most]atomic.Bool
)

func openReach() *os.File {
	name := os.Getenv(Reach)
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	return f
}

// hit reports whether a mutant that makes a difference here is the active one.
func hit(id int) bool {
	if record != nil && !reached[id].Swap(true) {
		_, _ = record.WriteString(strconv.Itoa(id) + "\n")
	}
	return id == active
}

// Bool is x; mutant id makes it true, id+1 false.
func Bool[T ~bool](id int, x T) T {
	if x {
		return T(!hit(id + 1))
	}
	return T(hit(id))
}

// Compare is a op b; mutant id takes in or leaves out the case of equality.
func Compare[T cmp.Ordered](id int, a T, op string, b T) bool {
	was, is := a < b, a <= b
	switch op {
	case "<=":
		was, is = is, was
	case ">":
		was, is = a > b, a >= b
	case ">=":
		was, is = a >= b, a > b
	}
	if was != is && hit(id) {
		return is
	}
	return was
}

// Bound is Compare with a bound that is a constant; mutant id+1 moves it by one
// the other way than id does.
func Bound[T integer](id int, a T, op string, b T) bool {
	was := Compare(id, a, op, b)
	var is bool
	switch op {
	case "<":
		is = a < b-1
	case "<=":
		is = a <= b+1
	case ">":
		is = a > b+1
	case ">=":
		is = a >= b-1
	}
	if was != is && hit(id+1) {
		return is
	}
	return was
}

type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Min is min(a, b); mutant id makes it a, id+1 b.
func Min[T cmp.Ordered](id int, a, b T) T { return either(id, min(a, b), a, b) }

// Max is max(a, b); mutant id makes it a, id+1 b.
func Max[T cmp.Ordered](id int, a, b T) T { return either(id, max(a, b), a, b) }

func either[T cmp.Ordered](id int, was, a, b T) T {
	switch {
	case was != a && hit(id):
		return a
	case was != b && hit(id+1):
		return b
	}
	return was
}

// Keep is whether a statement is kept; mutant id drops it.
func Keep(id int) bool { return !hit(id) }

// Err is err; mutant id makes it nil.
func Err(id int, err error) error {
	if err != nil && hit(id) {
		return nil
	}
	return err
}

// Chan is c; mutant id makes it nil, from which nothing ever comes.
func Chan[T any](id int, c <-chan T) <-chan T {
	if c != nil && hit(id) {
		return nil
	}
	return c
}
