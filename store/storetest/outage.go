package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
)

// An engine that is away is no reason to act, and comes back.
func outage(t *testing.T, b Backend) {
	if b.Outage == nil {
		t.Skip("needs Backend.Outage")
	}
	b.run(t, []sentence{
		{"While the engine is away nothing is claimed and afterwards all goes on", func(t *testing.T, s *subject) {
			held, fresh := ma2h.Act{Key: "held"}, ma2h.Act{Key: "fresh"}
			token := s.mustClaim(t, held, long)
			s.claim(t, "held", long, long)
			end := b.Outage(t, s.address)
			box, _ := s.Store.(ma2h.Outbox)
			var asked sync.WaitGroup
			asked.Go(func() {
				r, err := s.Reserve(t.Context(), fresh, long, false)
				away(t, "Reserve", err)
				if r != (ma2h.Reservation{}) {
					t.Errorf("Reserve gave %v beside its error", r)
				}
			})
			asked.Go(func() {
				state, err := s.ClaimJTI(t.Context(), "fresh", long, long)
				away(t, "ClaimJTI", err)
				if state != 0 {
					t.Errorf("ClaimJTI gave %d beside its error", state)
				}
			})
			asked.Go(func() { away(t, "SettleJTI", s.SettleJTI(t.Context(), "held", true)) })
			asked.Go(func() { away(t, "Commit", s.Commit(t.Context(), held, token)) })
			if box != nil {
				asked.Go(func() {
					_, err := box.PutSubmit(t.Context(), ma2h.SubmitKey{AgentID: "a", Key: "k"}, []byte("body"))
					away(t, "PutSubmit", err)
				})
			}
			asked.Wait()
			end()
			s.eventually(t, "a commit", func() bool { return s.Commit(t.Context(), held, token) == nil })
			s.eventually(t, "an act that is done", func() bool {
				state, err := s.Lookup(t.Context(), held)
				return err == nil && state == ma2h.ActDone
			})
			s.eventually(t, "a claim of an act", func() bool {
				r, err := s.Reserve(t.Context(), fresh, long, false)
				return err == nil && r.State == ma2h.ActClaimed
			})
			s.eventually(t, "a claim of a delivery", func() bool {
				state, err := s.ClaimJTI(t.Context(), "fresh", long, long)
				return err == nil && state == ma2h.Fresh
			})
			s.eventually(t, "a settled claim", func() bool { return s.SettleJTI(t.Context(), "held", true) == nil })
			if got := s.claim(t, "held", long, long); got != ma2h.Seen {
				t.Fatalf("the claim is %d, not seen", got)
			}
		}},
		{"An engine that dies in the middle doubles no claim and loses none", func(t *testing.T, s *subject) {
			dying(t, b, s)
		}},
	})
}

// away wants the one error of a store that could not be asked.
func away(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, ma2h.ErrStoreUnavailable) || errors.Is(err, ma2h.ErrLeaseLost) || errors.Is(err, ma2h.ErrStoreFull) {
		t.Errorf("%s: %v, not unavailable", what, err)
	}
}

// dying has contenders on two handles try until each act is somebody's, while
// the engine comes and goes. A claim whose answer was lost must come free
// again, since nobody acts under it, and must not be given out twice.
func dying(t *testing.T, b Backend, s *subject) {
	const acts, each = 60, 3
	handles := []ma2h.Store{s.Store, b.Open(t, s.address)}
	over := make(chan struct{})
	var engine, done sync.WaitGroup
	engine.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Duration(20+rand.IntN(60)) * time.Millisecond):
			}
			end := b.Outage(t, s.address)
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			end()
		}
	})
	var mu sync.Mutex
	claimed := make([]int, acts)
	deadline := time.Now().Add(patience)
	for i := range acts {
		act := ma2h.Act{Key: fmt.Sprint("act", i)}
		for k := range each {
			h := handles[k%len(handles)]
			done.Go(func() {
				for time.Now().Before(deadline) {
					r, err := h.Reserve(t.Context(), act, long, false)
					switch {
					case err != nil:
						if !errors.Is(err, ma2h.ErrStoreUnavailable) {
							t.Errorf("Reserve: %v", err)
						}
					case r.State == ma2h.ActClaimed:
						mu.Lock()
						claimed[i]++
						mu.Unlock()
						for time.Now().Before(deadline) {
							if err := h.Commit(t.Context(), act, r.Token); err == nil {
								return
							} else if !errors.Is(err, ma2h.ErrStoreUnavailable) {
								t.Errorf("Commit: %v", err)
								return
							}
						}
					case r.State == ma2h.ActDone:
						return
					case r.State != ma2h.ActInFlight:
						t.Errorf("Reserve: %v", r.State)
						return
					}
					time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
				}
			})
		}
	}
	done.Wait()
	close(over)
	engine.Wait()
	for i, n := range claimed {
		if n != 1 {
			t.Errorf("act %d was claimed %d times", i, n)
		}
		s.eventually(t, "an act that is done", func() bool {
			state, err := s.Lookup(t.Context(), ma2h.Act{Key: fmt.Sprint("act", i)})
			return err == nil && state == ma2h.ActDone
		})
	}
}
