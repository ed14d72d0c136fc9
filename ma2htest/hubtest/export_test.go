package hubtest

import (
	"context"
	"fmt"
	"runtime"
	"testing"
)

// Result is what became of a row.
type Result struct {
	Failed, Skipped bool
	Text            string
}

// Observe runs the suite without a test to fail, and returns what became of
// each row by its id.
func Observe(t testing.TB, target Target) map[string]Result {
	t.Helper()
	s, err := newSuite(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]Result)
	for _, row := range allRows() {
		rec := &record{ctx: t.Context()}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.run(rec, row)
		}()
		<-done
		out[row.id] = rec.Result
	}
	return out
}

// record is a reporter that notes.
type record struct {
	Result
	ctx context.Context
}

func (r *record) Helper()                  {}
func (r *record) Context() context.Context { return r.ctx }

func (r *record) Errorf(format string, args ...any) {
	r.Failed = true
	r.Text += fmt.Sprintf(format, args...) + "\n"
}

func (r *record) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *record) Skipf(format string, args ...any) {
	r.Skipped = true
	r.Text += fmt.Sprintf(format, args...) + "\n"
	runtime.Goexit()
}

// RowIDs are the rows in order; RowNames the names of their subtests.
func RowIDs() (ids []string) {
	for _, r := range allRows() {
		ids = append(ids, r.id)
	}
	return ids
}

func RowNames() (names []string) {
	for _, r := range allRows() {
		names = append(names, r.name())
	}
	return names
}

// Needs is what a row names as what it cannot do without.
func Needs(id string) (needs []string) {
	for _, r := range allRows() {
		for _, n := range r.needs {
			if r.id == id {
				needs = append(needs, n.what)
			}
		}
	}
	return needs
}

// What the suite reads and verifies with.
var (
	Read      = read
	Canonical = canonical
	Digest    = digestOf
	Same      = same
	Awkward   = awkward
)
