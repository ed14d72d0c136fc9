package ma2h

import (
	"testing"
	"time"
)

// noRandom is a source of no randomness, so that a pause is the least.
type noRandom struct{}

func (noRandom) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// testPacer is one whose clock is moved by hand.
func testPacer(t *testing.T, most time.Duration) (*pacer, *stepClock) {
	t.Helper()
	clock := newStepClock()
	c, err := NewClient(Config{
		HubURL: "https://hub.test", Credential: Bearer("token"), Agent: Agent{ID: "a/b", Runtime: RuntimeOther}, Now: clock.Now, Rand: noRandom{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return newPacer(c, most), clock
}

// hold is one that ends after d, with an answer of the Hub or cut.
func (p *pacer) after(clock *stepClock, d time.Duration, end func()) {
	p.started()
	clock.Add(d)
	end()
}

func (p *pacer) wasCut() { p.failed(0, "was cut") }

// report: B024
func TestAHoldThatIsCutIsAskedForShorter(t *testing.T) {
	for _, row := range []struct{ most, at, want time.Duration }{
		{time.Minute, 40 * time.Second, 30 * time.Second},
		{time.Minute, 59 * time.Second, 44 * time.Second},
		{time.Minute, 60 * time.Second, time.Minute}, // it was no cut
		{time.Minute, 61 * time.Second, time.Minute},
		{time.Minute, time.Second, time.Second},
		{time.Minute, 1500 * time.Millisecond, time.Second},
		{time.Minute, 999 * time.Millisecond, time.Minute}, // it says nothing about holds
	} {
		p, clock := testPacer(t, row.most)
		p.after(clock, row.at, p.wasCut)
		if p.hold != row.want || p.asks() != row.want {
			t.Errorf("cut after %s: the next is %s", row.at, p.hold)
		}
	}
}

// report: B024
func TestAShortenedHoldGrowsAfterTwentyFullOnes(t *testing.T) {
	p, clock := testPacer(t, time.Minute)
	p.after(clock, 14*time.Second, p.wasCut)
	for _, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute} {
		if p.hold != want {
			t.Fatalf("the hold is %s, want %s", p.hold, want)
		}
		for range 19 {
			p.after(clock, p.hold, p.held)
		}
		if p.hold != want {
			t.Fatalf("after nineteen it is %s", p.hold)
		}
		p.after(clock, p.hold, p.held)
	}
	// One that is cut begins the count again.
	p.after(clock, 14*time.Second, p.wasCut)
	for range 19 {
		p.after(clock, p.hold, p.held)
	}
	p.after(clock, 8*time.Second, p.wasCut)
	p.after(clock, p.hold, p.held)
	if p.hold != 6*time.Second {
		t.Errorf("it is %s", p.hold)
	}
}

// report: B024
func TestASilenceIsFollowedByAShortAskAndHalvesTheHoldOnce(t *testing.T) {
	p, clock := testPacer(t, 45*time.Second)
	for range 3 {
		p.silenced()
		if p.asks() != time.Second || p.hold != 22*time.Second {
			t.Errorf("asks for %s, then %s", p.asks(), p.hold)
		}
	}
	// The short ask that is answered in time says nothing of a Hub that does
	// not hold.
	p.after(clock, time.Second, p.held)
	if p.asks() != 22*time.Second || p.next != 0 || p.early != 0 || p.full != 0 {
		t.Errorf("asks for %s after %s, %d early, %d full", p.asks(), p.next, p.early, p.full)
	}
	for range 10 {
		p.silenced()
		p.after(clock, time.Second, p.held)
	}
	if p.asks() != time.Second {
		t.Errorf("asks for %s", p.asks())
	}
}

// req: PUL-03
func TestAnAnswerIsEarlyWithinTwoSecondsOrItsHold(t *testing.T) {
	for _, row := range []struct {
		most, at time.Duration
		early    bool
	}{
		{time.Minute, 0, true},
		{time.Minute, 2*time.Second - 1, true},
		{time.Minute, 2 * time.Second, false},
		{time.Minute, 3 * time.Second, false},
		{time.Second, time.Second - 1, true},
		{time.Second, time.Second, false},
	} {
		p, clock := testPacer(t, row.most)
		p.after(clock, row.at, p.held)
		if (p.next > 0) != row.early || (p.early == 1) != row.early {
			t.Errorf("after %s of %s: pauses %s", row.at, row.most, p.next)
		}
	}
	p, clock := testPacer(t, time.Minute)
	for _, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 7500 * time.Millisecond, 7500 * time.Millisecond} {
		if p.after(clock, 0, p.held); p.next != want {
			t.Errorf("pauses %s, want %s", p.next, want)
		}
	}
	// One that was held begins the pauses anew.
	p.after(clock, time.Minute, p.held)
	if p.after(clock, 0, p.held); p.next != 500*time.Millisecond {
		t.Errorf("pauses %s", p.next)
	}
}
