package hubtest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/ma2htest/hubtest"
)

// breakage is a Hub that does one thing wrong, and the ids of the rows that must
// find it: these and no others.
type breakage struct {
	name    string
	options ma2htest.Options
	with    func(*bench)
	fails   string
	// may names rows that only fail if a race at this Hub goes one way.
	may string
	// hangs: they find it because something does not come.
	hangs bool
}

func breakages() (list []breakage) {
	for _, group := range [][]breakage{brokenAnswers, brokenSubmits, brokenKeys, brokenReads, brokenEnds, brokenReceipts, brokenMailboxes, brokenPushes} {
		list = append(list, group...)
	}
	return list
}

// observe runs the whole suite at a broken Hub, or with -short and under the race
// detector, where that takes minutes, the rows that must find it.
func observe(t *testing.T, broken breakage) map[string]hubtest.Result {
	t.Helper()
	run := func(patience time.Duration, which func(id string) bool) map[string]hubtest.Result {
		b := newBench(t, broken.options)
		b.target.Patience = patience
		if broken.with != nil {
			broken.with(b)
		}
		return hubtest.Observe(t, b.target, which)
	}
	finds := func(id string) bool { return slices.Contains(strings.Fields(broken.fails), id) }
	// A loaded machine must not make a row wait in vain, and a row that does so
	// must not take its time.
	const long, short = time.Minute, 300 * time.Millisecond
	few := raceDetector || testing.Short()
	switch {
	case few && broken.hangs:
		return run(short, finds)
	case few:
		return run(long, finds)
	case broken.hangs:
		results := run(long, func(id string) bool { return !finds(id) })
		maps.Copy(results, run(short, finds))
		return results
	}
	return run(long, func(string) bool { return true })
}

func failed(results map[string]hubtest.Result) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(results)) {
		if results[id].Failed {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestABrokenHubFailsTheRowsThatSaySoAndNoOthers(t *testing.T) {
	for _, broken := range breakages() {
		t.Run(broken.name, func(t *testing.T) {
			t.Parallel()
			results := observe(t, broken)
			got := failed(results)
			for _, id := range got {
				if !slices.Contains(strings.Fields(broken.fails+" "+broken.may), id) {
					t.Errorf("%s failed:\n%s", id, results[id].Text)
				}
			}
			for _, id := range strings.Fields(broken.fails) {
				if !slices.Contains(got, id) {
					t.Errorf("%s did not fail (skipped: %v) %s", id, results[id].Skipped, results[id].Text)
				}
			}
			if t.Failed() {
				t.Logf("what failed is %s", strings.Join(got, " "))
			}
		})
	}
}

// A row that no broken Hub fails would prove nothing.
func TestEveryRowFindsABrokenHub(t *testing.T) {
	found := make(map[string]bool)
	for _, b := range breakages() {
		for _, id := range strings.Fields(b.fails) {
			found[id] = true
		}
	}
	for _, id := range hubtest.RowIDs() {
		if !found[id] {
			t.Errorf("no broken Hub fails row %s", id)
		}
	}
}
