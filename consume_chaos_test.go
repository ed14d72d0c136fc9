package ma2h_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "modernc.org/sqlite"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/store/sqlstore"
	"github.com/ma2h/ma2h-go/types"
)

// The counts of a chaos run.
const (
	chaosDirectives = 10_000
)

// plug is what a process hangs on: pulled, nothing that it does has an effect
// any more.
type plug struct {
	mu   sync.RWMutex
	dead bool
}

var errDead = errors.New("the process is dead")

func (p *plug) pull() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

// do runs an effect unless the process is dead.
func (p *plug) do(f func() error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.dead {
		return errDead
	}
	return f()
}

func (p *plug) alive() error { return p.do(func() error { return nil }) }

func (p *plug) wire(rt http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if err := p.alive(); err != nil {
			return nil, err
		}
		resp, err := rt.RoundTrip(r)
		if dead := p.alive(); dead != nil {
			if err == nil {
				_ = resp.Body.Close()
			}
			return nil, dead
		}
		return resp, err
	})
}

// plugged is a store as one process reaches it.
type plugged struct {
	ma2h.Store
	plug *plug
}

func (s plugged) ClaimJTI(ctx context.Context, key string, lease, keep time.Duration) (state ma2h.ReplayState, err error) {
	err = s.plug.do(func() error { state, err = s.Store.ClaimJTI(ctx, key, lease, keep); return err })
	return state, err
}

func (s plugged) SettleJTI(ctx context.Context, key string, final bool) error {
	return s.plug.do(func() error { return s.Store.SettleJTI(ctx, key, final) })
}

func (s plugged) Lookup(ctx context.Context, act ma2h.Act) (state ma2h.ActState, err error) {
	err = s.plug.do(func() error { state, err = s.Store.Lookup(ctx, act); return err })
	return state, err
}

func (s plugged) Reserve(ctx context.Context, act ma2h.Act, lease time.Duration, doubt bool) (res ma2h.Reservation, err error) {
	err = s.plug.do(func() error { res, err = s.Store.Reserve(ctx, act, lease, doubt); return err })
	return res, err
}

func (s plugged) Commit(ctx context.Context, act ma2h.Act, token ma2h.Token) error {
	return s.plug.do(func() error { return s.Store.Commit(ctx, act, token) })
}

func (s plugged) Release(ctx context.Context, act ma2h.Act, token ma2h.Token) error {
	return s.plug.do(func() error { return s.Store.Release(ctx, act, token) })
}

func (s plugged) Doubt(ctx context.Context, act ma2h.Act, token ma2h.Token) error {
	return s.plug.do(func() error { return s.Store.Doubt(ctx, act, token) })
}

// chaos is a Hub, a durable store and the world in which directives have their
// effects, which outlive the processes that come and go.
type chaos struct {
	hub   *ma2htest.Hub
	store ma2h.Store
	rand  *rand.Rand // of the goroutine that starts processes
	lease time.Duration

	mu       sync.Mutex
	dice     *rand.Rand // of handlers
	calm     bool
	poison   map[string]bool // fails at each attempt
	effects  map[string]int
	attempts int
	buried   map[string]error // the last word of a live process
	rejected int
}

func (c *chaos) handle(p *plug) func(context.Context, *ma2h.Directive) error {
	return func(ctx context.Context, d *ma2h.Directive) error {
		c.mu.Lock()
		c.attempts++
		roll, slow := c.dice.IntN(100), time.Duration(c.dice.IntN(1500))*time.Millisecond
		if c.calm && roll < 40 {
			roll = 99
		}
		poison := c.poison[d.ID()]
		c.mu.Unlock()
		if roll%4 == 0 {
			select {
			case <-time.After(slow):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		switch {
		case poison, roll < 15:
			return errors.New("the deploy system is down")
		case roll < 18:
			panic("the deploy system is gone")
		case roll == 18:
			return fmt.Errorf("no answer: %w", ma2h.ErrOutcomeUnknown)
		}
		return p.do(func() error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.effects[d.ID()]++
			return nil
		})
	}
}

// process is one life of the consumer. It ends by a signal or by a crash.
func (c *chaos) process(t *testing.T, life time.Duration, crash bool) {
	p := &plug{}
	cfg := c.hub.Config(asker)
	cfg.HTTPClient = &http.Client{Transport: p.wire(c.hub.Transport())}
	client := connect(t, cfg)
	store := plugged{c.store, p}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{DirectiveKeys: ma2h.Keys(ma2h.HMACKey(c.hub.SigningSecret())), AgentID: asker, Replay: store})
	mustNot(t, err)
	inbox, err := ma2h.NewInbox(ma2h.InboxConfig{Client: client, Verifier: verifier, Ledger: store})
	mustNot(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := inbox.Consume(ctx, c.handle(p), ma2h.ConsumeOptions{
			Authorize: ma2h.AllowFrom(alice), Concurrency: 1 + c.rand.IntN(64), MaxAttempts: 3, Lease: c.lease,
			OnReject: func(context.Context, *ma2h.RejectedError) error {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.rejected++
				return nil
			},
			DeadLetter: func(_ context.Context, d *ma2h.Directive, err error) {
				_ = p.do(func() error {
					c.mu.Lock()
					defer c.mu.Unlock()
					c.buried[d.ID()] = err
					return nil
				})
			},
		})
		if p.alive() == nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Consume: %v", err)
		}
	}()
	time.Sleep(life)
	if crash {
		p.pull()
	}
	cancel()
	<-done
}

func (c *chaos) key(id string) ma2h.Act {
	return ma2h.Act{Key: "directive\x00" + asker + "\x00" + id}
}

// settled says why a directive has not come to its end yet, or nothing.
func (c *chaos) settled(t *testing.T, d ma2htest.DirectiveSnapshot) string {
	state, err := c.store.Lookup(t.Context(), c.key(d.ID))
	mustNot(t, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	acked := d.Delivery.State == types.Acknowledged
	switch {
	case c.effects[d.ID] > 1:
		t.Fatalf("%s was acted on %d times", d.ID, c.effects[d.ID])
	case acked && state != ma2h.ActDone:
		t.Fatalf("%s is acknowledged and its act is %v", d.ID, state)
	case state == ma2h.ActDone && c.effects[d.ID] != 1:
		t.Fatalf("%s is committed and was acted on %d times", d.ID, c.effects[d.ID])
	case acked:
		return ""
	case state == ma2h.ActInDoubt && c.buried[d.ID] != nil:
		return ""
	case c.poison[d.ID] && state == 0 && c.buried[d.ID] != nil && c.effects[d.ID] == 0:
		return ""
	}
	return fmt.Sprintf("%s is %s, its act %v, %d effects, buried: %v", d.ID, d.Delivery.State, state, c.effects[d.ID], c.buried[d.ID])
}

func (c *chaos) open(t *testing.T) (open []string) {
	for _, d := range c.hub.Directives(asker) {
		if why := c.settled(t, d); why != "" {
			open = append(open, why)
		}
	}
	return open
}

func runChaos(t *testing.T, n int, seed uint64, lease time.Duration, store ma2h.Store) {
	hub := ma2htest.NewHub(t, ma2htest.Options{KeepRequests: -1, Capability: func(c *types.Capability) { c.Inbound.VisibilityTimeoutSeconds = 5 }})
	c := &chaos{
		hub: hub, store: store, rand: rand.New(rand.NewPCG(seed, 1)), dice: rand.New(rand.NewPCG(seed, 2)), lease: lease,
		poison: make(map[string]bool), effects: make(map[string]int), buried: make(map[string]error),
	}
	few := func(f ma2htest.Fault) ma2htest.Chance { return ma2htest.Chance{Weight: 2, Fault: f} }
	hub.Fault(
		ma2htest.RandomFaults(seed, 60,
			few(ma2htest.ResetBefore(1)), few(ma2htest.ResetAfter(1)), few(ma2htest.TornBody(1, 300)), few(ma2htest.CorruptJSON(1)),
			few(ma2htest.Status(500, 1)), few(ma2htest.Status(503, 1, ma2htest.RetryAfter("2"))), few(ma2htest.Status(429, 1, ma2htest.RetryAfter("1"))),
			few(ma2htest.EarlyReturn(1)), few(ma2htest.DuplicateEntry(1)), few(ma2htest.ReorderEntries(1)), few(ma2htest.ExpireLease(1)),
			few(ma2htest.CorruptDirectiveSignature(1)), few(ma2htest.WrongAddressee(1)), few(ma2htest.InjectMember(1, "action", `{}`)),
			few(ma2htest.InjectMember(1, "body", `"and the backups"`)), few(ma2htest.ReplayedDirective(1)),
			few(ma2htest.UnknownEntryKind(1)), few(ma2htest.MalformedRow(1)), few(ma2htest.SkewedDirectiveT(1, 5*time.Minute)),
		).On(ma2htest.Drain),
		ma2htest.RandomFaults(seed+1, 10,
			few(ma2htest.LoseInboxAck(1)), few(ma2htest.ResetBefore(1)), few(ma2htest.TornBody(1, 5)), few(ma2htest.CorruptJSON(1)),
			few(ma2htest.Status(503, 1)), few(ma2htest.Status(429, 1, ma2htest.RetryAfter("3"))), few(ma2htest.Status(422, 1)), few(ma2htest.Status(400, 1)),
		).On(ma2htest.InboxAck),
	)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		pace := rand.New(rand.NewPCG(seed, 3))
		for i := range n {
			id, err := hub.SendDirective(asker, ma2htest.DirectiveDraft{From: alice, Title: fmt.Sprintf("pause deploy %d", i)})
			if err != nil {
				t.Error(err)
				return
			}
			if i%200 == 7 {
				c.mu.Lock()
				c.poison[id] = true
				c.mu.Unlock()
			}
			if pace.IntN(100) == 0 {
				time.Sleep(time.Duration(pace.IntN(4000)) * time.Millisecond)
			}
		}
	}()
	lives, crashes := 0, 0
	for {
		crash := c.rand.IntN(2) == 0
		c.process(t, time.Duration(500+c.rand.IntN(12_000))*time.Millisecond, crash)
		if lives++; crash {
			crashes++
		}
		select {
		case <-sent:
		default:
			continue
		}
		if left := len(c.open(t)); left <= n/10 {
			break
		}
	}
	// Then the world is well again, and nothing may be left.
	hub.Heal()
	c.mu.Lock()
	c.calm = true
	c.mu.Unlock()
	var open []string
	for range 10_000 {
		c.process(t, 2*time.Minute, false)
		if open = c.open(t); len(open) == 0 {
			break
		}
	}
	if len(open) > 0 {
		t.Fatalf("%d directives did not come to an end:\n%s", len(open), open[0])
	}
	acked, doubtful := 0, 0
	for _, d := range hub.Directives(asker) {
		if d.Delivery.State == types.Acknowledged {
			acked++
		} else if !c.poison[d.ID] {
			doubtful++
		}
	}
	t.Logf("%d directives, %d lives, %d crashes: %d attempts, %d rejections, %d acknowledged, %d in doubt, %d poisoned",
		n, lives, crashes, c.attempts, c.rejected, acked, doubtful, len(c.poison))
	// How much goes wrong depends on how fast the machine is; that something does,
	// and that most goes well, does not.
	if lives < 2 || crashes+doubtful+c.rejected == 0 || acked < n/2 {
		t.Error("the run was too calm to show anything")
	}
}

// Ten thousand directives through every fault there is, with handlers that
// fail and processes that come and go on one ledger.
//
// req: INB-11 INB-12 INB-13 INB-14 INB-19
// report: B084 B087 B090
func TestUnderRandomFaultsEachDirectiveIsActedOnOnceAndAcknowledgedWhenCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
		mustNot(t, err)
		runChaos(t, chaosDirectives, 1, 10*time.Second, struct{ ma2h.Store }{store})
	})
}

// The same on a file. Its clock is the machine's, so that leases last in real
// time while the rest of the bubble runs ahead.
//
// req: INB-11 INB-12 INB-13 INB-14 INB-19
func TestUnderRandomFaultsTheSameHoldsOnALedgerInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	synctest.Test(t, func(t *testing.T) {
		// The processes of this run share the machine's fate, and the file need
		// not outlive a power cut.
		dsn := (&url.URL{Scheme: "file", Path: path}).String() + "?" + url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(OFF)"}}.Encode()
		db, err := sql.Open("sqlite", dsn)
		mustNot(t, err)
		defer db.Close()
		db.SetMaxOpenConns(1)
		store, err := sqlstore.New(db, sqlstore.Config{Dialect: sqlstore.SQLite, Timeout: time.Hour})
		mustNot(t, err)
		mustNot(t, store.Migrate(t.Context()))
		n := chaosDirectives
		if raceEnabled { // the database is in Go, too, and ten times as slow then
			n /= 10
		}
		runChaos(t, n, 2, 2*time.Second, store)
	})
}
