package ma2htest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// fakeTB stands for a test that may fail.
type fakeTB struct {
	testing.TB
	message string
}

type failNow struct{}

func (f *fakeTB) Helper() {}
func (f *fakeTB) Fatalf(format string, args ...any) {
	f.message = format
	panic(failNow{})
}
func (f *fakeTB) Fatal(args ...any) { f.Fatalf("fatal") }

func failed(fn func(testing.TB)) (fails bool) {
	tb := &fakeTB{}
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(failNow); !ok {
				panic(p)
			}
			fails = true
		}
	}()
	fn(tb)
	return false
}

func TestRequireFailsWhenTheHubSawSomethingElse(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	for name, tt := range map[string]struct {
		right, wrong func(testing.TB)
	}{
		"messages": {func(t testing.TB) { hub.RequireMessages(t, 1) }, func(t testing.TB) { hub.RequireMessages(t, 2) }},
		"status":   {func(t testing.TB) { hub.RequireStatus(t, id, types.StatusOpen) }, func(t testing.TB) { hub.RequireStatus(t, id, types.StatusAnswered) }},
		"unknown":  {func(t testing.TB) {}, func(t testing.TB) { hub.RequireStatus(t, "msg_x", types.StatusOpen) }},
		"requests": {func(t testing.TB) { hub.RequireRequests(t, "", 1) }, func(t testing.TB) { hub.RequireRequests(t, Pull, 1) }},
		"delivery": {func(t testing.TB) { hub.RequireDelivery(t, id, "") }, func(t testing.TB) { hub.RequireDelivery(t, id, types.Acknowledged) }},
	} {
		if failed(tt.right) || !failed(tt.wrong) {
			t.Errorf("%s", name)
		}
	}
	hub.ForgetRequests()
	hub.RequireRequests(t, "", 0)
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, o := range []Options{
		{Version: "0.1"}, {Version: "0.5"}, {Version: "1.0"}, {PathPrefix: "hub"}, {PathPrefix: "/hub/"}, {PathPrefix: "/"},
		{KeyTTL: -1}, {MaxHold: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
		if !failed(func(t testing.TB) { NewHub(t, o) }) {
			t.Errorf("NewHub took %+v", o)
		}
	}
	if !failed(func(t testing.TB) { NewHub(t, Options{}, Options{}) }) {
		t.Error("NewHub took two Options")
	}
	if o, err := (Options{MaxHold: time.Hour}).withDefaults(); err != nil || o.MaxHold != time.Minute || o.KeyTTL != 24*time.Hour {
		t.Errorf("%+v %v", o, err)
	}
}

// req: FH-01
func TestASeedRepeatsTheIDsAndNoSeedDoesNot(t *testing.T) {
	ids := func(seed uint64) []string {
		hub := NewHub(t, Options{Seed: seed, Start: start})
		w := memory(t, hub)
		return []string{hub.Token(bot), hub.APIKey(bot), hub.OwnerToken(), w.submit(ask("k1")), w.submit(ask("k2"))}
	}
	if !slices.Equal(ids(7), ids(7)) {
		t.Error("one seed, two sequences")
	}
	if slices.Equal(ids(7), ids(8)) || slices.Equal(ids(0), ids(0)) {
		t.Error("two sequences are equal")
	}
	all := slices.Sorted(slices.Values(append(ids(0), ids(7)...)))
	if len(slices.Compact(all)) != 10 {
		t.Error("an id came twice")
	}
}

// req: FH-01
func TestAStandingClockMovesOnlyByAdvance(t *testing.T) {
	hub := NewHub(t, Options{Start: start.In(time.FixedZone("x", 3600))})
	if now := hub.Now(); !now.Equal(start) || now.Location() != time.UTC {
		t.Fatal(now)
	}
	hub.Advance(time.Hour)
	hub.Advance(-time.Hour)
	hub.Advance(0)
	if now := hub.Now(); !now.Equal(start.Add(time.Hour)) {
		t.Fatal(now)
	}
}

func TestAFollowingClockAddsWhatAdvanceSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		began := time.Now()
		hub.Advance(24 * time.Hour)
		time.Sleep(time.Minute)
		if got := hub.Now().Sub(began); got != 24*time.Hour+time.Minute {
			t.Fatal(got)
		}
	})
}

func TestAdvanceFiresInOrderAndAtTheirTimes(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	var fired []string
	at := func(name string, d time.Duration) func(time.Time) {
		return func(now time.Time) {
			fired = append(fired, name)
			if !now.Equal(start.Add(d)) {
				t.Errorf("%s fired at %v", name, now)
			}
		}
	}
	hub.lock()
	hub.clock.after(start.Add(2*time.Second), at("two", 2*time.Second))
	hub.clock.after(start.Add(time.Second), func(now time.Time) {
		at("one", time.Second)(now)
		hub.clock.after(now.Add(500*time.Millisecond), at("one and a half", 1500*time.Millisecond))
	})
	stopped := hub.clock.after(start.Add(time.Second), at("stopped", 0))
	hub.clock.after(start.Add(3*time.Second), at("three", 3*time.Second))
	hub.clock.stop(stopped)
	hub.clock.stop(stopped)
	hub.clock.stop(nil)
	hub.unlock()
	hub.Advance(2 * time.Second)
	if want := []string{"one", "one and a half", "two"}; !slices.Equal(fired, want) {
		t.Fatal(fired)
	}
}

func TestNextHandsOutEachMessageOnce(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	first := w.submit(ask("k1"))
	var wg sync.WaitGroup
	for _, want := range []string{first, ""} {
		s, err := hub.Next(t.Context())
		if err != nil || want != "" && s.ID != want {
			t.Fatal(s.ID, err)
		}
		if want != "" {
			wg.Go(func() { w.submit(ask("k2")) })
		}
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hub.Next(ctx); !isError(err, context.Canceled) {
		t.Fatal(err)
	}
	hub.Close()
	if _, err := hub.Next(t.Context()); err == nil {
		t.Fatal("Next waits on a closed Hub")
	}
	if err := hub.AwaitHold(t.Context(), first); err == nil {
		t.Fatal("AwaitHold waits on a closed Hub")
	}
}

func TestCloseEndsEveryHoldAndLeavesNoGoroutine(t *testing.T) {
	for name, via := range map[string]func(testing.TB, *Hub) *wire{"memory": memory, "tls": overTLS} {
		hub, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := via(t, hub)
		id := w.submit(ask("k1", fields{"expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)}))
		hub.Fault(Hang(1).On(Cancel))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := w.try(t.Context(), "GET", "/v1/messages/"+id+"?wait=60", ""); err == nil {
					t.Errorf("%s: a hold outlived the Hub", name)
				}
			})
		}
		wg.Go(func() {
			if _, err := w.try(t.Context(), "POST", "/v1/messages/"+id+"/cancel", ""); err == nil {
				t.Errorf("%s: a hang outlived the Hub", name)
			}
		})
		if err := hub.watch(t.Context(), func() bool { return hub.messages[id].holds == 20 }); err != nil {
			t.Fatal(err)
		}
		hub.Close()
		hub.Close()
		wg.Wait()
		w.http.CloseIdleConnections()
		if left := goroutinesOf("ma2htest.(*Hub)"); left != "" {
			t.Errorf("%s: %s", name, left)
		}
		if _, err := w.try(t.Context(), "GET", "/.well-known/ma2h", ""); err == nil {
			t.Errorf("%s: a closed Hub answers", name)
		}
		if hub.Now().IsZero() || len(hub.Messages()) != 1 {
			t.Errorf("%s: a closed Hub cannot be read", name)
		}
	}
}

// goroutinesOf returns the stacks that run code of the name, once they had
// every chance to end.
func goroutinesOf(name string) string {
	var left string
	for range 100_000 {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		left = ""
		for i, stack := range strings.Split(string(buf), "\n\n") {
			if i > 0 && strings.Contains(stack, name) {
				left += stack + "\n"
			}
		}
		if left == "" {
			return ""
		}
		runtime.Gosched()
	}
	return left
}

// req: TEL-01
func TestAHubPrintsNoSecretWhateverTheVerb(t *testing.T) {
	hub := NewHub(t)
	secrets := []string{hub.Token(bot), hub.APIKey(bot), hub.OwnerToken(), hub.SigningSecret()}
	for _, v := range []any{hub, struct{ Hub *Hub }{hub}, []*Hub{hub}, map[string]*Hub{"a": hub}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, v)
			for _, s := range secrets {
				if strings.Contains(text, s) {
					t.Errorf("%s of a %T shows a secret", verb, v)
				}
			}
		}
	}
	if got := fmt.Sprint(hub); got != "ma2htest.Hub(0.4)" {
		t.Error(got)
	}
}
