package storetest

import (
	"testing"

	ma2h "github.com/ma2h/ma2h-go"
)

// The states of deliveries (§9.2).
func replay(t *testing.T, b Backend) {
	const key = "jti"
	b.run(t, []sentence{
		{"The first claim is fresh and every other is pending", func(t *testing.T, s *subject) {
			for i, want := range []ma2h.ReplayState{ma2h.Fresh, ma2h.Pending, ma2h.Pending} {
				if got := s.claim(t, key, long, long); got != want {
					t.Fatalf("claim %d is %d, not %d", i, got, want)
				}
			}
		}},
		{"A settled claim is seen", func(t *testing.T, s *subject) {
			s.claim(t, key, long, long)
			for range 2 {
				want(t, "SettleJTI", s.SettleJTI(t.Context(), key, true), nil)
				if got := s.claim(t, key, long, long); got != ma2h.Seen {
					t.Fatalf("the claim is %d, not seen", got)
				}
			}
		}},
		{"A forgotten claim is fresh again", func(t *testing.T, s *subject) {
			s.claim(t, key, long, long)
			want(t, "SettleJTI", s.SettleJTI(t.Context(), key, false), nil)
			if got := s.claim(t, key, long, long); got != ma2h.Fresh {
				t.Fatalf("the claim is %d, not fresh", got)
			}
		}},
		{"A claim without a lease is final at once", func(t *testing.T, s *subject) {
			for _, want := range []ma2h.ReplayState{ma2h.Fresh, ma2h.Seen} {
				if got := s.claim(t, key, 0, long); got != want {
					t.Fatalf("the claim is %d, not %d", got, want)
				}
			}
		}},
		{"Forgetting does not undo a final claim", func(t *testing.T, s *subject) {
			s.claim(t, key, 0, long)
			want(t, "SettleJTI", s.SettleJTI(t.Context(), key, false), nil)
			if got := s.claim(t, key, long, long); got != ma2h.Seen {
				t.Fatalf("the claim is %d, not seen", got)
			}
		}},
		{"Settling what is not there is no error and claims nothing", func(t *testing.T, s *subject) {
			for _, final := range []bool{true, false} {
				want(t, "SettleJTI", s.SettleJTI(t.Context(), key, final), nil)
			}
			if got := s.claim(t, key, long, long); got != ma2h.Fresh {
				t.Fatalf("the claim is %d, not fresh", got)
			}
		}},
		{"A lapsed lease counts as absent and not before", func(t *testing.T, s *subject) {
			passed := s.stopwatch()
			s.claim(t, key, lease, long)
			s.eventually(t, "a fresh claim", func() bool { return s.claim(t, key, long, long) == ma2h.Fresh })
			if got := passed(); got < lease {
				t.Fatalf("the lease of %s lapsed after %s", lease, got)
			}
		}},
		{"A late settle of a lapsed claim leaves the next one at least provisional", func(t *testing.T, s *subject) {
			s.claim(t, key, lease, long)
			s.eventually(t, "a fresh claim", func() bool { return s.claim(t, key, long, long) == ma2h.Fresh })
			want(t, "SettleJTI", s.SettleJTI(t.Context(), key, true), nil)
			want(t, "SettleJTI", s.SettleJTI(t.Context(), key, false), nil)
			if got := s.claim(t, key, long, long); got != ma2h.Seen {
				t.Fatalf("the claim is %d, not seen", got)
			}
		}},
		{"A final claim is kept to the end of its time and then forgotten", func(t *testing.T, s *subject) {
			const keep = 2 * lease
			passed := s.stopwatch()
			s.claim(t, key, 0, keep)
			s.eventually(t, "a fresh claim", func() bool { return s.claim(t, key, 0, keep) == ma2h.Fresh })
			if got := passed(); got < keep {
				t.Fatalf("what was to be kept for %s was forgotten after %s", keep, got)
			}
		}},
		{"A claim that is settled late is kept from when it was made", func(t *testing.T, s *subject) {
			const keep = 2 * lease
			passed := s.stopwatch()
			s.claim(t, key, lease, keep)
			want(t, "SettleJTI", s.SettleJTI(t.Context(), key, true), nil)
			s.eventually(t, "a fresh claim", func() bool { return s.claim(t, key, 0, keep) == ma2h.Fresh })
			if got := passed(); got < keep {
				t.Fatalf("what was to be kept for %s was forgotten after %s", keep, got)
			}
		}},
		{"Claims outlive a reopen", func(t *testing.T, s *subject) {
			if b.OneProcess {
				t.Skip("the store is in memory")
			}
			s.claim(t, key, 0, long)
			s.claim(t, "pending", long, long)
			s.Store = b.Open(t, s.address)
			if got := s.claim(t, key, 0, long); got != ma2h.Seen {
				t.Fatalf("the final claim is %d, not seen", got)
			}
			if got := s.claim(t, "pending", 0, long); got != ma2h.Pending {
				t.Fatalf("the provisional claim is %d, not pending", got)
			}
		}},
	})
}
