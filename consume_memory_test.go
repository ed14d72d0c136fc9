package ma2h

import (
	"context"
	"errors"
	"strconv"
	"testing"
)

func TestAProcessThatGaveUpOnTooManyDirectivesForgetsNone(t *testing.T) {
	var m consumerMemory
	for i := range maxRemembered {
		if first, err := m.letter(strconv.Itoa(i), true); !first || err != nil {
			t.Fatal(i, first, err)
		}
	}
	if first, err := m.letter("one more", true); first || !errors.Is(err, ErrStoreFull) || m.isDead("one more") {
		t.Errorf("one more: %t, %v", first, err)
	}
	if first, err := m.letter("0", true); first || err != nil || !m.isDead("0") {
		t.Errorf("one of them again: %t, %v", first, err)
	}
}

func TestADoubtThatWasResolvedMakesRoomAndADeathDoesNot(t *testing.T) {
	var m consumerMemory
	for id, dead := range map[string]bool{"doubt": false, "death": true} {
		if first, err := m.letter(id, dead); !first || err != nil || m.isDead(id) != dead {
			t.Errorf("%s: %t, %v", id, first, err)
		}
		if first, _ := m.letter(id, false); first || m.isDead(id) != dead {
			t.Errorf("%s is news twice, or was brought back to life", id)
		}
		m.done(id)
		if first, _ := m.letter(id, false); first == dead || m.isDead(id) != dead {
			t.Errorf("%s, once it is done: news %t", id, first)
		}
	}
	// A doubt may turn into a death.
	if first, _ := m.letter("doubt", true); first || !m.isDead("doubt") {
		t.Error("a doubt that failed for good lives on, or is news again")
	}
}

func TestAttemptsAreForgottenWithSuccessAndWithDeath(t *testing.T) {
	var m consumerMemory
	for _, end := range []func(){func() { m.done("a") }, func() { _, _ = m.letter("a", true) }} {
		if m.fail("a") != 1 || m.fail("a") != 2 || m.fail("b") < 1 {
			t.Error("attempts are not counted by directive")
		}
		end()
	}
	if n := m.fail("a"); n != 1 {
		t.Errorf("attempt %d", n)
	}
}

func TestReportsAreKeptUpToTheirBound(t *testing.T) {
	var m consumerMemory
	const half = maxRemembered / 2
	for i := range half {
		if !m.report(strconv.Itoa(i)) {
			t.Fatal(i, "is no news")
		}
	}
	// Nearly as many again, and all are still known.
	for i := range half - 1 {
		if !m.report("b" + strconv.Itoa(i)) {
			t.Fatal(i, "is no news")
		}
	}
	for _, known := range []string{strconv.Itoa(half - 1), "b0"} {
		if m.report(known) {
			t.Errorf("%s was forgotten early", known)
		}
	}
	for i := range 2 * half {
		m.report("c" + strconv.Itoa(i))
		if n := len(m.reported.young) + len(m.reported.old); n > maxRemembered {
			t.Fatalf("%d reports are kept", n)
		}
	}
	if !m.report("1") {
		t.Error("nothing is ever forgotten")
	}
}

// The last half of the bound is remembered to the report, and no more is.
func TestAReportIsForgottenAfterHalfTheBound(t *testing.T) {
	var m consumerMemory
	const half = maxRemembered / 2
	for i := range half - 1 {
		m.report("before " + strconv.Itoa(i))
	}
	m.report("this")
	for i := range half {
		m.report("after " + strconv.Itoa(i))
	}
	if _, known := m.reported.get("this"); !known {
		t.Error("it was forgotten early")
	}
	m.report("one more")
	if _, known := m.reported.get("this"); known {
		t.Error("it is remembered past the bound")
	}
}

func TestWhatIsDroppedIsDroppedHoweverOldItIs(t *testing.T) {
	var m consumerMemory
	m.fail("old")
	for i := range maxRemembered / 2 {
		m.fail(strconv.Itoa(i))
	}
	m.done("old")
	if n := m.fail("old"); n != 1 {
		t.Errorf("attempt %d after a success", n)
	}
}

func TestAShortenedAcknowledgmentGrowsAgain(t *testing.T) {
	a := newAcker(&Inbox{})
	for i := range 3 * maxAckBatch {
		if !a.add(strconv.Itoa(i), func() string { return "" }) || a.add(strconv.Itoa(i), func() string { return "" }) {
			t.Fatal(i)
		}
	}
	a.most = 1
	for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 1} {
		batch, _ := a.next()
		if len(batch) != want {
			t.Fatalf("a batch of %d, want %d", len(batch), want)
		}
		a.settle(batch, nil)
	}
	if batch, closed := a.next(); len(batch) != 0 || closed || len(a.pending) != 0 {
		t.Errorf("%d are left, %d pending", len(batch), len(a.pending))
	}
}

func TestABatchWithNewsIsNewsHoweverSoonItIsOver(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for range 100 {
		for _, news := range []bool{true, false} {
			b := newBatch(2)
			if news {
				b.isNews()
				b.isNews()
			}
			if got := b.wait(ended); got != news {
				t.Fatalf("stopped: %t, want %t", got, news)
			}
			if news {
				b.isNews()
			}
			b.over()
			b.over()
			if got := b.wait(t.Context()); got != news {
				t.Fatalf("over: %t, want %t", got, news)
			}
		}
	}
}

// What there is no room for is as if it had never come.
func TestAnAcknowledgmentThatDidNotFitMayComeAgain(t *testing.T) {
	a := newAcker(&Inbox{})
	none := func() string { return "" }
	for i := range maxPendingAcks {
		if !a.add(strconv.Itoa(i), none) {
			t.Fatal(i)
		}
	}
	if a.add("one more", none) {
		t.Error("it was taken past the bound")
	}
	batch, _ := a.next()
	a.settle(batch, nil)
	if !a.add("one more", none) || a.add("one more", none) {
		t.Error("it is not taken once there is room, or twice")
	}
}

func TestABatchThatIsRefusedAsAWholeIsHalvedAndStaysPending(t *testing.T) {
	a := newAcker(&Inbox{})
	for i := range 8 {
		a.add(strconv.Itoa(i), func() string { return "" })
	}
	batch, _ := a.next()
	a.settle(batch, &APIError{Status: 413})
	if len(a.queue) != 8 || len(a.pending) != 8 || a.most != 4 {
		t.Errorf("%d queued, %d pending, next %d", len(a.queue), len(a.pending), a.most)
	}
	// One that fails otherwise is given up, for the Hub delivers it again, and
	// makes no batch longer.
	batch, _ = a.next()
	a.settle(batch, ErrUnauthenticated)
	if len(batch) != 4 || len(a.queue) != 4 || len(a.pending) != 4 || a.most != 4 {
		t.Errorf("%d of %d queued, %d pending, next %d", len(batch), len(a.queue), len(a.pending), a.most)
	}
}

// GiveUpOnTooMany has the consumers of in remember as many directives that
// went to DeadLetter as they can.
func (in *Inbox) GiveUpOnTooMany() {
	for i := range maxRemembered {
		_, _ = in.memory.letter(strconv.Itoa(i), true)
	}
}

// Remembered is how many directives with failed attempts, and given to
// DeadLetter, the consumers of in remember.
func (in *Inbox) Remembered() (attempts, lettered int) {
	m := &in.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.failures.young) + len(m.failures.old), len(m.lettered)
}
