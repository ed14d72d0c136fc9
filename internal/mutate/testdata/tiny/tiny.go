// Package tiny has checks that its tests see to, and some that they do not.
package tiny

import "errors"

var errBound = errors.New("out of bounds")

// Most is tested at its bound, one past it and far past it.
func Most(s string) error {
	if len(s) > 3 {
		return errBound
	}
	return nil
}

// Least is tested far from its bound only.
func Least(n int) bool { return n >= 10 }

// Both has an operand that is never false, which no test misses.
func Both(a, b bool) bool { return a && (b || !a) }

// Named is a switch with a tag, and a statement that no test misses.
func Named(s string) (n int) {
	switch s {
	case "one", "eins":
		n = 1
		log++
	default:
		n = min(len(s), 5)
	}
	return n
}

// First waits for one of two.
func First(a, b chan int) int {
	select {
	case n := <-a:
		return n
	case n, ok := <-b:
		if !ok {
			return -1
		}
		return n
	}
}

// Checked passes on what a call says.
func Checked(s string) (int, error) { return len(s), Most(s) }

// Never is not called.
func Never() bool { return log == 0 }

var log int
