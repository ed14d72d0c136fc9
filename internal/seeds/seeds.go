// Package seeds counts what a fuzz target starts from, so that a table which
// has become empty, or a loop which no longer runs, fails the target. Only
// tests import it.
package seeds

// Least is how many seeds every target has.
const Least = 10

// Target is a *testing.F.
type Target interface {
	Helper()
	Add(args ...any)
	Fatalf(format string, args ...any)
}

// Corpus is the seeds of one target.
type Corpus struct {
	target Target
	added  int
}

// For returns the empty corpus of a target.
func For(f Target) *Corpus { return &Corpus{target: f} }

// Add gives the target a seed.
func (c *Corpus) Add(args ...any) {
	c.added++
	c.target.Add(args...)
}

// Counted fails the target unless exactly want seeds were added, which must be
// Least or more.
func (c *Corpus) Counted(want int) {
	c.target.Helper()
	if c.added != want || want < Least {
		c.target.Fatalf("%d seeds, want %d and at least %d", c.added, want, Least)
	}
}
