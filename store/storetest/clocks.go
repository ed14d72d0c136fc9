package storetest

import (
	"testing"
	"testing/synctest"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
)

// The store's clock counts, not that of its clients.
func clocks(t *testing.T, b Backend) {
	if b.OneProcess {
		t.Skip("the store's clock is that of its only process")
	}
	for name, offset := range map[string]time.Duration{
		"A client a quarter century behind changes nothing": 0,
		"A client decades ahead changes nothing":            60 * 365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) { otherClock(t, b, offset) })
	}
}

// otherClock runs a client in a bubble whose time starts in the year 2000,
// plus offset, beside one whose clock is right.
func otherClock(t *testing.T, b Backend, offset time.Duration) {
	s := open(t, b)
	mine, theirs, lapsed := ma2h.Act{Key: "mine"}, ma2h.Act{Key: "theirs"}, ma2h.Act{Key: "lapsed"}
	s.mustClaim(t, mine, long)
	s.inDoubt(t, lapsed)
	s.claim(t, "mine", 0, long)
	s.claim(t, "gone", 0, lease)
	s.eventually(t, "a fresh claim", func() bool { return s.claim(t, "gone", lease, lease) == ma2h.Fresh })

	var token ma2h.Token
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(offset)
		other := &subject{Store: b.Open(t, s.address), b: b, address: s.address}
		other.wantState(t, mine, ma2h.ActInFlight)
		other.wantState(t, lapsed, ma2h.ActInDoubt)
		if r := other.reserve(t, mine, long, true); r.State != ma2h.ActInFlight {
			t.Errorf("the other clock reserves what is in flight: %v", r.State)
		}
		token = other.mustClaim(t, theirs, long)
		if got := other.claim(t, "mine", long, long); got != ma2h.Seen {
			t.Errorf("the other clock sees a kept claim as %d", got)
		}
		if got := other.claim(t, "theirs", long, long); got != ma2h.Fresh {
			t.Errorf("the other clock's claim is %d", got)
		}
	})
	if t.Failed() {
		return
	}
	s.wantState(t, theirs, ma2h.ActInFlight)
	if got := s.claim(t, "theirs", long, long); got != ma2h.Pending {
		t.Errorf("the other clock's claim is %d here, not pending", got)
	}
	want(t, "Commit", s.Commit(t.Context(), theirs, token), nil)
}
