package storetest

import (
	"testing"

	ma2h "github.com/ma2h/ma2h-go"
)

// The states of acts (§13.4).
func ledger(t *testing.T, b Backend) {
	act := ma2h.Act{Key: "response\x00bot/a\x00msg_1", Resolution: "res_1"}
	other := ma2h.Act{Key: act.Key, Resolution: "res_2"}
	reserved := func(t *testing.T, s *subject, a ma2h.Act, takeDoubt bool, want ma2h.ActState) {
		t.Helper()
		if r := s.reserve(t, a, long, takeDoubt); r.State != want {
			t.Fatalf("Reserve: %v, not %v", r.State, want)
		}
	}
	b.run(t, []sentence{
		{"Nothing is known of an act that nobody claimed", func(t *testing.T, s *subject) {
			s.wantState(t, act, 0)
		}},
		{"Looking up changes nothing", func(t *testing.T, s *subject) {
			s.wantState(t, act, 0)
			s.mustClaim(t, act, long)
		}},
		{"The first to reserve has the claim and all others see it in flight", func(t *testing.T, s *subject) {
			s.mustClaim(t, act, long)
			s.wantState(t, act, ma2h.ActInFlight)
			reserved(t, s, act, false, ma2h.ActInFlight)
		}},
		{"An act in flight is not taken as one in doubt", func(t *testing.T, s *subject) {
			token := s.mustClaim(t, act, long)
			reserved(t, s, act, true, ma2h.ActInFlight)
			want(t, "Commit", s.Commit(t.Context(), act, token), nil)
		}},
		{"What is committed is done for everybody", func(t *testing.T, s *subject) {
			token := s.mustClaim(t, act, long)
			want(t, "Commit", s.Commit(t.Context(), act, token), nil)
			s.wantState(t, act, ma2h.ActDone)
			reserved(t, s, act, false, ma2h.ActDone)
			reserved(t, s, act, true, ma2h.ActDone)
		}},
		{"A commit whose answer was lost may be repeated", func(t *testing.T, s *subject) {
			token := s.mustClaim(t, act, long)
			for range 3 {
				want(t, "Commit", s.Commit(t.Context(), act, token), nil)
			}
			s.wantState(t, act, ma2h.ActDone)
		}},
		{"What is done is neither released nor doubted", func(t *testing.T, s *subject) {
			token := s.mustClaim(t, act, long)
			want(t, "Commit", s.Commit(t.Context(), act, token), nil)
			want(t, "Release", s.Release(t.Context(), act, token), ma2h.ErrLeaseLost)
			want(t, "Doubt", s.Doubt(t.Context(), act, token), ma2h.ErrLeaseLost)
			s.wantState(t, act, ma2h.ActDone)
		}},
		{"What is released was never claimed", func(t *testing.T, s *subject) {
			token := s.mustClaim(t, act, long)
			for range 2 {
				want(t, "Release", s.Release(t.Context(), act, token), nil)
			}
			s.wantState(t, act, 0)
			want(t, "Commit", s.Commit(t.Context(), act, token), ma2h.ErrLeaseLost)
			if s.mustClaim(t, other, long) == token {
				t.Fatal("two claims have one token")
			}
		}},
		{"A release does not reach the next claim", func(t *testing.T, s *subject) {
			old := s.mustClaim(t, act, long)
			want(t, "Release", s.Release(t.Context(), act, old), nil)
			token := s.mustClaim(t, act, long)
			want(t, "Release", s.Release(t.Context(), act, old), ma2h.ErrLeaseLost)
			s.wantState(t, act, ma2h.ActInFlight)
			want(t, "Commit", s.Commit(t.Context(), act, token), nil)
		}},
		{"A doubt ends the lease at once and may be repeated", func(t *testing.T, s *subject) {
			token := s.mustClaim(t, act, long)
			for range 2 {
				want(t, "Doubt", s.Doubt(t.Context(), act, token), nil)
				s.wantState(t, act, ma2h.ActInDoubt)
			}
			want(t, "Commit", s.Commit(t.Context(), act, token), ma2h.ErrLeaseLost)
			want(t, "Release", s.Release(t.Context(), act, token), ma2h.ErrLeaseLost)
			s.wantState(t, act, ma2h.ActInDoubt)
		}},
		{"A lease that lapses leaves the act in doubt and not before", func(t *testing.T, s *subject) {
			passed := s.stopwatch()
			s.inDoubt(t, act)
			if got := passed(); got < lease {
				t.Fatalf("the lease of %s lapsed after %s", lease, got)
			}
		}},
		{"An act in doubt is neither free nor done", func(t *testing.T, s *subject) {
			s.inDoubt(t, act)
			reserved(t, s, act, false, ma2h.ActInDoubt)
			s.wantState(t, act, ma2h.ActInDoubt)
		}},
		{"A holder whose lease lapsed can neither commit nor release", func(t *testing.T, s *subject) {
			token := s.inDoubt(t, act)
			want(t, "Commit", s.Commit(t.Context(), act, token), ma2h.ErrLeaseLost)
			want(t, "Release", s.Release(t.Context(), act, token), ma2h.ErrLeaseLost)
			want(t, "Doubt", s.Doubt(t.Context(), act, token), nil)
			s.wantState(t, act, ma2h.ActInDoubt)
		}},
		{"Whoever takes a doubt fences the old holder out", func(t *testing.T, s *subject) {
			old := s.inDoubt(t, act)
			r := s.reserve(t, act, long, true)
			if r.State != ma2h.ActClaimed || r.Token == old {
				t.Fatalf("Reserve: %v, token renewed: %t", r.State, r.Token != old)
			}
			want(t, "Commit", s.Commit(t.Context(), act, old), ma2h.ErrLeaseLost)
			want(t, "Release", s.Release(t.Context(), act, old), ma2h.ErrLeaseLost)
			want(t, "Doubt", s.Doubt(t.Context(), act, old), ma2h.ErrLeaseLost)
			s.wantState(t, act, ma2h.ActInFlight)
			want(t, "Commit", s.Commit(t.Context(), act, r.Token), nil)
		}},
		{"A token that was never given out holds nothing", func(t *testing.T, s *subject) {
			token := s.mustClaim(t, act, long)
			for _, forged := range []ma2h.Token{0, -1, token + 1} {
				want(t, "Commit", s.Commit(t.Context(), act, forged), ma2h.ErrLeaseLost)
				want(t, "Release", s.Release(t.Context(), act, forged), ma2h.ErrLeaseLost)
				want(t, "Doubt", s.Doubt(t.Context(), act, forged), ma2h.ErrLeaseLost)
			}
			s.wantState(t, act, ma2h.ActInFlight)
		}},
		{"A second resolution of a message is a conflict in every state", func(t *testing.T, s *subject) {
			conflict := func(state string) {
				t.Helper()
				for _, take := range []bool{false, true} {
					if r := s.reserve(t, other, long, take); r.State != ma2h.ActConflict {
						t.Fatalf("%s: Reserve: %v, not a conflict", state, r.State)
					}
				}
				s.wantState(t, other, ma2h.ActConflict)
			}
			token := s.mustClaim(t, act, long)
			conflict("in flight")
			want(t, "Commit", s.Commit(t.Context(), other, token), ma2h.ErrLeaseLost)
			want(t, "Release", s.Release(t.Context(), other, token), ma2h.ErrLeaseLost)
			want(t, "Doubt", s.Doubt(t.Context(), other, token), ma2h.ErrLeaseLost)
			want(t, "Doubt", s.Doubt(t.Context(), act, token), nil)
			conflict("in doubt")
			r := s.reserve(t, act, long, true)
			want(t, "Commit", s.Commit(t.Context(), act, r.Token), nil)
			conflict("done")
		}},
		{"Acts outlive a reopen", func(t *testing.T, s *subject) {
			if b.OneProcess {
				t.Skip("the store is in memory")
			}
			done, flying := ma2h.Act{Key: "done"}, ma2h.Act{Key: "flying"}
			want(t, "Commit", s.Commit(t.Context(), done, s.mustClaim(t, done, long)), nil)
			token := s.mustClaim(t, flying, long)
			s.Store = b.Open(t, s.address)
			s.wantState(t, done, ma2h.ActDone)
			s.wantState(t, flying, ma2h.ActInFlight)
			want(t, "Commit", s.Commit(t.Context(), flying, token), nil)
		}},
		{"An act is remembered for the retention and then forgotten", func(t *testing.T, s *subject) {
			if b.Advance == nil || b.Retention == 0 {
				t.Skip("needs Backend.Advance and Retention")
			}
			doubtful := ma2h.Act{Key: "doubtful"}
			s.inDoubt(t, doubtful)
			want(t, "Commit", s.Commit(t.Context(), act, s.mustClaim(t, act, long)), nil)
			s.advance(b.Retention - 10*lease)
			s.wantState(t, act, ma2h.ActDone)
			s.wantState(t, doubtful, ma2h.ActInDoubt)
			s.advance(11 * lease)
			s.wantState(t, act, 0)
			s.wantState(t, doubtful, 0)
		}},
	})
}
