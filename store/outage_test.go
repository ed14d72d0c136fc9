package store_test

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/storetest"
)

// counter is a callback handler on a store and the acts that it ran.
type counter struct {
	*ma2h.CallbackHandler
	mu   sync.Mutex
	acts map[string]int
}

func newCounter(t *testing.T, s ma2h.Store) *counter {
	t.Helper()
	c := &counter{acts: make(map[string]int)}
	v, err := ma2h.NewVerifier(ma2h.VerifierConfig{Keys: ma2h.Keys(ma2h.HMACKey(secret)), CallbackURL: callbackURL, AgentID: agentID, Replay: s})
	if err != nil {
		t.Fatal(err)
	}
	c.CallbackHandler, err = ma2h.NewCallbackHandler(ma2h.CallbackConfig{Verifier: v, Ledger: s, Handle: func(_ context.Context, r *ma2h.Response) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.acts[r.MessageID()]++
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *counter) push(t *testing.T, d decision) ma2h.Outcome {
	t.Helper()
	signature, err := d.sign()
	if err != nil {
		t.Fatal(err)
	}
	return c.Process(t.Context(), http.Header{"Ma2h-Signature": {signature}}, d.body)
}

// overRelay runs f with a store whose engine can be cut off.
func overRelay(t *testing.T, f func(t *testing.T, s everything, relay *storetest.Proxy)) {
	for _, engine := range []string{"postgres", "redis"} {
		t.Run(engine, func(t *testing.T) {
			address, name, _ := strings.Cut(engines[engine](t), " ")
			relay := storetest.NewProxy(t, address)
			s, closeStore, err := openStore(t.Context(), engine, relay.Address()+" "+name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = closeStore() })
			f(t, s, relay)
		})
	}
}

func TestWhileTheEngineIsAwayAPushIsToldToComeAgainAndNothingIsActedOn(t *testing.T) {
	overRelay(t, func(t *testing.T, s everything, relay *storetest.Proxy) {
		c := newCounter(t, s)
		d := newDecision(1)
		relay.Cut()
		out := c.push(t, d)
		if out.Status != http.StatusServiceUnavailable || out.RetryAfter == 0 || out.Acted || !errors.Is(out.Err, ma2h.ErrStoreUnavailable) || len(c.acts) != 0 {
			t.Fatalf("answer %+v, acts %v", out, c.acts)
		}
		relay.Restore()
		eventually(t, func() bool { return c.push(t, d).Status == http.StatusOK })
		if c.acts[d.message] != 1 {
			t.Errorf("acts %v", c.acts)
		}
	})
}

func TestAnEngineThatComesAndGoesActsOnEachDecisionOnce(t *testing.T) {
	overRelay(t, func(t *testing.T, s everything, relay *storetest.Proxy) {
		c := newCounter(t, s)
		over := make(chan struct{})
		var engine, pushes sync.WaitGroup
		engine.Go(func() {
			// It stays in the end, so that a slow machine gets there too.
			for range 60 {
				select {
				case <-over:
					return
				case <-time.After(time.Duration(10+mathrand.IntN(60)) * time.Millisecond):
					relay.Cut()
					time.Sleep(time.Duration(mathrand.IntN(30)) * time.Millisecond)
					relay.Restore()
				}
			}
		})
		const decisions, copies = 80, 3
		slots := make(chan struct{}, 24)
		for i := range decisions {
			d := newDecision(i)
			for range copies {
				slots <- struct{}{}
				pushes.Go(func() {
					defer func() { <-slots }()
					eventually(t, func() bool {
						out := c.push(t, d)
						if out.Status != http.StatusOK && out.Status != http.StatusServiceUnavailable {
							t.Errorf("answer %+v", out)
						}
						if errors.Is(out.Err, ma2h.ErrInDoubt) {
							t.Errorf("%s is in doubt, and nobody began it", d.message)
						}
						return out.Status == http.StatusOK
					})
				})
			}
		}
		pushes.Wait()
		close(over)
		engine.Wait()
		for message, n := range c.acts {
			if n != 1 {
				t.Errorf("%s was acted on %d times", message, n)
			}
		}
		if len(c.acts) != decisions {
			t.Errorf("%d decisions were acted on, not %d", len(c.acts), decisions)
		}
	})
}

// eventually tries until cond holds.
func eventually(t testing.TB, cond func() bool) {
	t.Helper()
	for begin := time.Now(); !cond(); time.Sleep(time.Duration(5+mathrand.IntN(20)) * time.Millisecond) {
		if time.Since(begin) > 40*time.Second {
			t.Error("no answer of 200 within 40s, with the engine there at the end")
			return
		}
	}
}
