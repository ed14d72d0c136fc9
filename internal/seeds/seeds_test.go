package seeds_test

import (
	"testing"

	"github.com/ma2h/ma2h-go/internal/seeds"
)

// target is a fuzz target that notes what becomes of it.
type target struct {
	got    []any
	failed bool
}

func (t *target) Helper()               {}
func (t *target) Add(args ...any)       { t.got = append(t.got, args...) }
func (t *target) Fatalf(string, ...any) { t.failed = true }

func TestATargetFailsUnlessItsSeedsAreThoseItExpects(t *testing.T) {
	for _, row := range []struct {
		added, want int
		fails       bool
	}{
		{seeds.Least, seeds.Least, false},
		{seeds.Least + 5, seeds.Least + 5, false},
		{0, seeds.Least, true},
		{seeds.Least - 1, seeds.Least, true},
		{seeds.Least + 1, seeds.Least, true},
		{seeds.Least - 1, seeds.Least - 1, true},
		{0, 0, true},
	} {
		var f target
		c := seeds.For(&f)
		for i := range row.added {
			c.Add(i)
		}
		c.Counted(row.want)
		if f.failed != row.fails || len(f.got) != row.added {
			t.Errorf("%d of %d seeds: failed %t with %d handed on", row.added, row.want, f.failed, len(f.got))
		}
	}
	var _ seeds.Target = (*testing.F)(nil)
}
