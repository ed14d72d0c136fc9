// Package storetest states what a store owes as a test suite, for the stores of
// this module and for yours:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Backend{New: newDatabase, Open: openStore})
//	}
//
// Each subtest is a sentence of the contract. A store that is a ma2h.Outbox
// too is held to that as well. To contend from many processes the suite runs
// the test binary again; the copy opens the same address and nothing else.
package storetest

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
)

// Backend says how the suite gets at a store. New and Open are required; a nil
// hook skips the subtests that need it.
type Backend struct {
	// New makes an empty backing store, such as a schema or a file, and
	// returns what Open needs to find it. It goes away with the test.
	New func(t testing.TB) (address string)
	// Open returns a new handle on a backing store, in this process or in
	// another. It is closed with the test.
	Open func(t testing.TB, address string) ma2h.Store
	// OneProcess says that the store lives in the memory of a process, and all
	// its handles are one.
	OneProcess bool
	// Advance moves the store's clock. Nil: the clock is real, and the suite
	// waits for leases of a fraction of a second.
	Advance func(address string, d time.Duration)
	// Retention is that of the store. It is looked at where there is Advance.
	Retention time.Duration
	// Outage takes the engine away from all handles; end brings it back.
	Outage func(t testing.TB, address string) (end func())
	// Entries counts what is physically kept.
	Entries func(t testing.TB, address string) int
	// Dump returns everything that is kept, as the engine keeps it.
	Dump func(t testing.TB, address string) []byte
}

// lease is long enough to act in on a slow machine and short enough to wait
// for.
const lease = 250 * time.Millisecond

// long is a lease that no test outlives.
const long = time.Hour

// patience is how long something that must happen may take.
const patience = 30 * time.Second

// Run runs the suite.
func Run(t *testing.T, b Backend) {
	if isWorker(t) {
		work(t, b)
		return
	}
	groups := []struct {
		name string
		test func(*testing.T, Backend)
	}{
		{"Deliveries", replay}, {"Acts", ledger}, {"Keys", keys}, {"Contexts", contexts},
		{"Contention", contention}, {"Clocks", clocks}, {"Cleaning", cleaning}, {"Outage", outage}, {"Outbox", outbox},
		{"Content", content},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) { g.test(t, b) })
	}
}

// sentence is one subtest on a store of its own.
type sentence struct {
	name string
	test func(t *testing.T, s *subject)
}

// subject is a handle on an empty backing store.
type subject struct {
	ma2h.Store
	b       Backend
	address string
	passed  time.Duration // what Advance added
}

func open(t testing.TB, b Backend) *subject {
	t.Helper()
	address := b.New(t)
	return &subject{Store: b.Open(t, address), b: b, address: address}
}

func (b Backend) run(t *testing.T, sentences []sentence) {
	for _, s := range sentences {
		t.Run(s.name, func(t *testing.T) { s.test(t, open(t, b)) })
	}
}

// eventually lets the store's time pass until cond holds.
func (s *subject) eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for begin := time.Now(); ; {
		if cond() {
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("%s did not come about", what)
		}
		if s.b.Advance != nil {
			s.advance(10 * time.Millisecond)
			continue
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *subject) advance(d time.Duration) {
	s.passed += d
	s.b.Advance(s.address, d)
}

// stopwatch measures the store's time from now: what has passed for sure.
func (s *subject) stopwatch() func() time.Duration {
	begin, passed := time.Now(), s.passed
	return func() time.Duration {
		if s.b.Advance != nil {
			return s.passed - passed
		}
		return time.Since(begin)
	}
}

func (s *subject) claim(t testing.TB, key string, lease, keep time.Duration) ma2h.ReplayState {
	t.Helper()
	state, err := s.ClaimJTI(t.Context(), key, lease, keep)
	if err != nil {
		t.Fatalf("ClaimJTI: %v", err)
	}
	return state
}

func (s *subject) reserve(t testing.TB, act ma2h.Act, lease time.Duration, takeDoubt bool) ma2h.Reservation {
	t.Helper()
	r, err := s.Reserve(t.Context(), act, lease, takeDoubt)
	if err != nil {
		t.Fatalf("Reserve: %v", err)
	}
	if (r.State == ma2h.ActClaimed) != (r.Token != 0) {
		t.Fatalf("Reserve gave %v with token %d", r.State, r.Token)
	}
	return r
}

func (s *subject) mustClaim(t testing.TB, act ma2h.Act, lease time.Duration) ma2h.Token {
	t.Helper()
	r := s.reserve(t, act, lease, false)
	if r.State != ma2h.ActClaimed {
		t.Fatalf("Reserve: %v, not claimed", r.State)
	}
	return r.Token
}

func (s *subject) wantState(t testing.TB, act ma2h.Act, want ma2h.ActState) {
	t.Helper()
	got, err := s.Lookup(t.Context(), act)
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	if got != want {
		t.Fatalf("the act is %v, not %v", got, want)
	}
}

// inDoubt leaves act with a lapsed lease and returns the lost token.
func (s *subject) inDoubt(t testing.TB, act ma2h.Act) ma2h.Token {
	t.Helper()
	token := s.mustClaim(t, act, lease)
	s.eventually(t, "a lapsed lease", func() bool {
		state, err := s.Lookup(t.Context(), act)
		return err == nil && state == ma2h.ActInDoubt
	})
	return token
}

func want(t testing.TB, what string, err, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) || sentinel == nil && err != nil {
		t.Fatalf("%s: %v, not %v", what, err, sentinel)
	}
}

// Server returns the address of a server that tests may use, from the
// environment or the default. If nobody listens there the test is skipped, or
// fails where MA2H_TEST_REQUIRE_SERVERS is 1.
func Server(t testing.TB, env, standard string) string {
	t.Helper()
	address := os.Getenv(env)
	if address == "" {
		address = standard
	}
	if err := dial(address); err != nil {
		text := fmt.Sprintf("no server at %s=%s: %v", env, address, err)
		if os.Getenv("MA2H_TEST_REQUIRE_SERVERS") == "1" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	return address
}
