package ma2htest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

const callbackURL = "https://bot.example/ma2h/resume"

var epoch = time.Date(2026, 6, 4, 12, 0, 0, 0, time.UTC)

// pushed is the other side of the Hub: the library that this one is for.
type pushed struct {
	t      *testing.T
	hub    *ma2htest.Hub
	client *ma2h.Client

	mu   sync.Mutex
	acts []*ma2h.Response
	fail func(n int) error // of the nth call of the handler, from 1
}

func newPushed(t *testing.T, hub *ma2htest.Hub) *pushed {
	t.Helper()
	cfg := hub.Config(bot)
	cfg.AllowInsecureLoopback = true
	c, err := ma2h.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &pushed{t: t, hub: hub, client: c}
}

func (a *pushed) act(_ context.Context, r *ma2h.Response) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acts = append(a.acts, r)
	if a.fail != nil {
		return a.fail(len(a.acts))
	}
	return nil
}

func (a *pushed) acted() []*ma2h.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.acts)
}

// keys are what a receiver of the Hub holds: its keys of one algorithm.
func keys(hub *ma2htest.Hub, alg string) []ma2h.Key {
	var out []ma2h.Key
	for _, k := range hub.Keys() {
		switch {
		case k.Alg() != alg:
		case alg == types.AlgEd25519:
			out = append(out, ma2h.Ed25519Key(k.Public()))
		default:
			out = append(out, ma2h.HMACKey(k.Secret()))
		}
	}
	return out
}

// handler is a callback with those keys; edit may change what it is made of.
func (a *pushed) handler(url string, ring ma2h.KeyRing, edit func(*ma2h.VerifierConfig, *ma2h.CallbackConfig)) *ma2h.CallbackHandler {
	a.t.Helper()
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{Now: a.hub.Now})
	if err != nil {
		a.t.Fatal(err)
	}
	vc := ma2h.VerifierConfig{Keys: ring, CallbackURL: url, AgentID: bot, Replay: store, Now: a.hub.Now}
	cc := ma2h.CallbackConfig{Ledger: store, SingleReplica: true, Handle: a.act}
	if edit != nil {
		edit(&vc, &cc)
	}
	if cc.Verifier, err = ma2h.NewVerifier(vc); err != nil {
		a.t.Fatal(err)
	}
	h, err := ma2h.NewCallbackHandler(cc)
	if err != nil {
		a.t.Fatal(err)
	}
	return h
}

func (a *pushed) ask(key string, callback *ma2h.Callback) string {
	a.t.Helper()
	ack, err := a.client.Ask(a.t.Context(), question(key, callback))
	if err != nil {
		a.t.Fatal(err)
	}
	return ack.ID
}

func question(key string, callback *ma2h.Callback) ma2h.Ask {
	return ma2h.Ask{
		Title: "Ship 1.4?", IdempotencyKey: key, AllowedResolvers: []string{alice}, Callback: callback,
		Request: ma2h.Select(ma2h.Option{Value: "ship", Label: "Ship"}, ma2h.Option{Value: "hold", Label: "Hold"}),
		State:   types.Raw(`{"sealed":"blob"}`),
	}
}

func answer(t *testing.T, hub *ma2htest.Hub, id, value string) {
	t.Helper()
	if err := hub.Answer(id, value, ma2htest.By(alice)); err != nil {
		t.Fatal(err)
	}
}

// req: FH-07 FH-15 RPL-04 RPL-05 AMB-13
func TestAHandlerActsOnceHoweverAPushComes(t *testing.T) {
	unreachable := errors.New("not now")
	for _, tc := range []struct {
		name     string
		faults   []ma2htest.Fault
		fail     func(n int) error
		statuses []int // in order of the attempts; a duplicate's two may change places
		acts     int
	}{
		{"as it should", nil, nil, []int{200}, 1},
		{"in two copies at once", []ma2htest.Fault{ma2htest.DuplicatePush(1)}, nil, nil, 1},
		{"replayed", []ma2htest.Fault{ma2htest.Replay(1)}, nil, []int{200, 200}, 1},
		{"with its answer lost", []ma2htest.Fault{ma2htest.LoseAck(3).On(ma2htest.PushCallback)}, nil, []int{0, 0, 0, 200}, 1},
		{"resent to the byte after a lost answer", []ma2htest.Fault{ma2htest.LoseAck(1).On(ma2htest.PushCallback), ma2htest.IdenticalResend(0)}, nil, []int{0, 200}, 1},
		{"signed anew after a failed act", nil, func(n int) error { return map[bool]error{true: unreachable}[n < 3] }, []int{503, 503, 200}, 3},
		{"resent to the byte after a failed act", []ma2htest.Fault{ma2htest.IdenticalResend(0)}, func(n int) error { return map[bool]error{true: unreachable}[n < 3] }, []int{503, 503, 200}, 3},
	} {
		for _, alg := range []string{types.AlgHMACSHA256, types.AlgEd25519} {
			t.Run(tc.name+" "+alg, func(t *testing.T) {
				hub := ma2htest.NewHub(t, ma2htest.Options{Start: epoch, SigningAlg: alg})
				a := newPushed(t, hub)
				a.fail = tc.fail
				hub.ServeCallback(callbackURL, a.handler(callbackURL, ma2h.Keys(keys(hub, alg)...), nil))
				hub.Fault(tc.faults...)
				id := a.ask("k", ma2h.PushTo(callbackURL))
				answer(t, hub, id, "hold")
				hub.Advance(time.Hour)
				acts := a.acted()
				if len(acts) != tc.acts || !acts[len(acts)-1].Answered("hold") || acts[0].Pulled() {
					t.Fatalf("acted %d times, want %d", len(acts), tc.acts)
				}
				pushes := hub.Pushes(id)
				for i, want := range tc.statuses {
					if len(pushes) != len(tc.statuses) || pushes[i].Status != want {
						t.Fatalf("attempt %d of %d was answered %d, want %d", i+1, len(pushes), pushes[i].Status, want)
					}
				}
				identical := len(pushes) > 1 && pushes[0].Header.Get("MA2H-Signature") == pushes[1].Header.Get("MA2H-Signature")
				if want := len(tc.faults) > 0 && (tc.name == "replayed" || len(tc.faults) == 2 || tc.fail != nil); identical != want {
					t.Fatalf("same bytes: %t, want %t", identical, want)
				}
				hub.RequireDelivery(t, id, types.DeliveredToAgent)
			})
		}
	}
}

// req: FH-15 VER-01
func TestEveryFaultOfAPushIsSeenByItsReceiver(t *testing.T) {
	for _, tc := range []struct {
		name   string
		fault  ma2htest.Fault
		status int
		err    error // of a Verifier; nil for genuine
	}{
		{"tampered", ma2htest.TamperPayload(1), 401, ma2h.ErrSignature},
		{"an unknown key", ma2htest.WrongKey(1), 401, ma2h.ErrSignature},
		{"the older key, retired here", ma2htest.OlderKey(1), 401, ma2h.ErrSignature},
		{"a corrupt signature", ma2htest.CorruptSignature(1), 401, ma2h.ErrSignature},
		{"no signature", ma2htest.DropSignature(1), 401, ma2h.ErrSignature},
		{"121 s old", ma2htest.SkewedT(1, -121*time.Second), 401, ma2h.ErrStale},
		{"121 s ahead", ma2htest.SkewedT(1, 121*time.Second), 401, ma2h.ErrStale},
		{"120 s old", ma2htest.SkewedT(1, -120*time.Second), 200, nil},
		{"120 s ahead", ma2htest.SkewedT(1, 120*time.Second), 200, nil},
		{"as of 0.2", ma2htest.SignAsVersion02(1), 400, ma2h.ErrUnboundPayload},
		{"none that fits an ask", ma2htest.NullResolvedAtAsClock(1), 200, nil},
		{"none", ma2htest.Status(503, 1).On(ma2htest.Submit).After(99), 200, nil},
	} {
		for _, alg := range []string{types.AlgHMACSHA256, types.AlgEd25519} {
			t.Run(tc.name+" "+alg, func(t *testing.T) {
				hub := ma2htest.NewHub(t, ma2htest.Options{Start: epoch, SigningAlg: alg})
				hub.RotateKeys()
				a := newPushed(t, hub)
				ring := ma2h.Keys(keys(hub, alg)[0])
				hub.ServeCallback(callbackURL, a.handler(callbackURL, ring, nil))
				hub.Fault(tc.fault)
				id := a.ask("k", ma2h.PushTo(callbackURL))
				answer(t, hub, id, "hold")
				hub.Advance(0)
				pushes := hub.Pushes(id)
				if len(pushes) != 1 || pushes[0].Status != tc.status {
					t.Fatalf("%d attempts, answered %d, want %d", len(pushes), pushes[0].Status, tc.status)
				}
				if got, want := len(a.acted()), tc.status/200%2; got != want {
					t.Fatalf("acted %d times, want %d", got, want)
				}
				store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
				if err != nil {
					t.Fatal(err)
				}
				v, err := ma2h.NewVerifier(ma2h.VerifierConfig{Keys: ring, CallbackURL: callbackURL, AgentID: bot, Replay: store, Now: hub.Now})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := v.Response(t.Context(), pushes[0].Header, pushes[0].Body); !errors.Is(err, tc.err) {
					t.Fatalf("verified as %v, want %v", err, tc.err)
				}
				// A 4xx is final, and the answer is still to be had.
				hub.Advance(24 * time.Hour)
				hub.RequirePushes(t, id, 1)
				m, err := a.client.Message(t.Context(), id)
				if err != nil || !m.Response.Answered("hold") {
					t.Fatalf("pulled %v (%v)", m, err)
				}
			})
		}
	}
}

// req: FH-15
func TestATamperedPushIsGenuineButForOneMember(t *testing.T) {
	hub := ma2htest.NewHub(t, ma2htest.Options{Start: epoch})
	a := newPushed(t, hub)
	hub.Fault(ma2htest.TamperPayload(1))
	id := a.ask("k", ma2h.PushTo(callbackURL))
	hub.ServeCallback(callbackURL, http.NotFoundHandler())
	answer(t, hub, id, "hold")
	hub.Advance(0)
	var got types.Response
	if err := types.Decode(hub.Pushes(id)[0].Body, &got); err != nil || got.Validate() != nil {
		t.Fatal(err)
	}
	if string(got.Response.Value) != `"ship"` || got.Response.Actor != alice || got.InReplyTo != id {
		t.Fatalf("%s", got.Response.Value)
	}
}

// req: AMB-03
func TestATaskResultWithoutDetailIsSignedWithNullAndByFaultWithTheClock(t *testing.T) {
	for _, clock := range []bool{false, true} {
		hub := ma2htest.NewHub(t, ma2htest.Options{Start: epoch})
		a := newPushed(t, hub)
		hub.ServeCallback(callbackURL, a.handler(callbackURL, ma2h.Keys(keys(hub, types.AlgHMACSHA256)...), nil))
		if clock {
			hub.Fault(ma2htest.NullResolvedAtAsClock(0))
		}
		ack, err := a.client.Task(t.Context(), ma2h.Task{
			Title: "Rotate", IdempotencyKey: "k", Action: ma2h.Action{Instructions: "Rotate the key."},
			AllowedResolvers: []string{alice}, Callback: ma2h.PushTo(callbackURL),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := hub.Complete(ack.ID); err != nil {
			t.Fatal(err)
		}
		hub.Advance(time.Minute)
		acted, p := len(a.acted()), hub.Pushes(ack.ID)[0]
		if !clock && (acted != 1 || p.Status != 200) {
			t.Fatalf("null: acted %d times, answered %d", acted, p.Status)
		}
		if clock && (acted != 0 || p.Status != 503 || p.Fault != "NullResolvedAtAsClock") {
			t.Fatalf("clock: acted %d times, answered %d", acted, p.Status)
		}
	}
}

// req: AMB-13 RPL-01
func TestAnIdenticalResendIsTooOldAfterTheWindow(t *testing.T) {
	hub := ma2htest.NewHub(t, ma2htest.Options{Start: epoch})
	a := newPushed(t, hub)
	hub.ServeCallback(callbackURL, a.handler(callbackURL, ma2h.Keys(keys(hub, types.AlgHMACSHA256)...), nil))
	hub.Fault(ma2htest.Status(503, 7).On(ma2htest.PushCallback), ma2htest.IdenticalResend(0))
	id := a.ask("k", ma2h.PushTo(callbackURL))
	answer(t, hub, id, "hold")
	hub.Advance(time.Hour)
	hub.RequirePushes(t, id, 8)
	if p := hub.Pushes(id)[7]; p.Status != 401 || len(a.acted()) != 0 {
		t.Fatalf("after 127 s: %d, acted %d times", p.Status, len(a.acted()))
	}
}

// req: FH-15
// report: B112
func TestThePushMayComeBeforeThe202(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := ma2htest.NewHub(t)
		a := newPushed(t, hub)
		hub.ServeCallback(callbackURL, a.handler(callbackURL, ma2h.Keys(keys(hub, types.AlgHMACSHA256)...), nil))
		hub.Fault(ma2htest.PushBefore202(1))
		if plain := a.ask("plain", nil); plain == "" {
			t.Fatal("an ask without push is held back")
		}
		if _, err := hub.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() {
			m, err := hub.Next(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			synctest.Wait()
			requests := hub.Requests()
			if last := requests[len(requests)-1]; last.Endpoint != ma2htest.Submit || last.Status != 0 || last.Fault != "PushBefore202" {
				t.Errorf("the 202 came before the answer: %+v", last)
			}
			answer(t, hub, m.ID, "hold")
		}()
		id := a.ask("k", ma2h.PushTo(callbackURL))
		if got := a.acted(); len(got) != 1 || got[0].MessageID() != id {
			t.Fatalf("acted %d times before the 202", len(got))
		}
		r, err := a.client.Wait(t.Context(), id)
		if err != nil || !r.Answered("hold") {
			t.Fatalf("%v, %v", r, err)
		}
	})
}

// req: FH-07
func TestAHandlerBehindASocketActsOnce(t *testing.T) {
	hub := ma2htest.NewHub(t, ma2htest.Options{Start: epoch, AllowLoopbackCallbacks: true})
	a := newPushed(t, hub)
	a.fail = func(n int) error { return map[bool]error{true: errors.New("not now")}[n == 1] }
	var h http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
	defer server.Close()
	url := server.URL + "/ma2h/resume"
	h = a.handler(url, ma2h.Keys(keys(hub, types.AlgHMACSHA256)...), nil)
	hub.Fault(ma2htest.DuplicatePush(1).After(1))
	id := a.ask("k", ma2h.PushTo(url))
	answer(t, hub, id, "ship")
	hub.Advance(time.Hour)
	if got := a.acted(); len(got) != 2 || !got[1].Answered("ship") {
		t.Fatalf("the handler ran %d times", len(got))
	}
	if p := hub.Pushes(id); len(p) < 3 || p[0].Status != 503 || p[1].Attempt != 2 || p[2].Attempt != 2 {
		t.Fatalf("%d attempts", len(p))
	}
	hub.RequireDelivery(t, id, types.DeliveredToAgent)
}

// req: FH-07
func TestAnAgentThatAcknowledgesIsFollowedInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := ma2htest.NewHub(t)
		a := newPushed(t, hub)
		h := a.handler(callbackURL, ma2h.Keys(keys(hub, types.AlgHMACSHA256)...), func(_ *ma2h.VerifierConfig, c *ma2h.CallbackConfig) {
			c.Client = a.client
			c.Acknowledge = func(*ma2h.Response) string { return "on it" }
		})
		hub.ServeCallback(callbackURL, h)
		hub.Fault(ma2htest.Status(502, 4).On(ma2htest.PushCallback))
		id := a.ask("k", ma2h.PushTo(callbackURL))
		answer(t, hub, id, "ship")
		time.Sleep(time.Minute)
		synctest.Wait()
		hub.RequirePushes(t, id, 5)
		hub.RequireDelivery(t, id, types.Acknowledged)
		if err := h.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
