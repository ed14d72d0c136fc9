package ma2h_test

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// resumeRig is a question at a Hub and the runs that come back to it.
type resumeRig struct {
	*hubRig
	binding Binding
}

type plan struct {
	Step string `json:"step"`
}

func newResumeRig(t testing.TB, opts ma2htest.Options) *resumeRig {
	return &resumeRig{hubRig: newHubRig(t, opts), binding: Bind(trustAgent, "k")}
}

func (r *resumeRig) sealer(t testing.TB, id string, fill byte) *Sealer {
	t.Helper()
	s, err := NewSealer(SealerConfig{AgentID: trustAgent, Keys: []SealKey{SealKeyRaw(id, SealKeyBytes(fill))}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// question asks with sealed state and returns the handle that survives.
func (r *resumeRig) question(t testing.TB) string {
	t.Helper()
	sealed, err := r.sealer(t, "k1", 1).Seal(plan{"deploy"}, r.binding)
	if err != nil {
		t.Fatal(err)
	}
	ack, err := r.client.Ask(t.Context(), Ask{
		Title: "Ship?", IdempotencyKey: "k", AllowedResolvers: []string{"human:alice"}, State: sealed,
		Request: Select(Option{Value: "ship", Label: "Ship"}, Option{Value: "hold", Label: "Hold"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ack.Handle().String()
}

// run is one process: it has the handle, and what change gives it.
type resumeRun struct {
	*Resumer
	acts int
	act  func(context.Context, *Response) error
}

func (r *resumeRig) newRun(t testing.TB, runID string, change func(*ResumeConfig)) *resumeRun {
	t.Helper()
	u := &resumeRun{}
	cfg := ResumeConfig{
		Client: trustClient(t, r.hub, func(c *Config) { c.Agent.RunID = runID }),
		Act: func(ctx context.Context, resp *Response) error {
			u.acts++
			if u.act != nil {
				return u.act(ctx, resp)
			}
			return nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if u.Resumer, err = NewResumer(cfg); err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *resumeRun) from(t testing.TB, handle string) error {
	t.Helper()
	h, err := ParseHandle(handle)
	if err != nil {
		t.Fatal(err)
	}
	_, err = u.Resume(t.Context(), h)
	return err
}

// req: STA-10 PUL-10 SUB-16
// report: B033 B117
func TestASecondRunResumesFromNothingButItsHandle(t *testing.T) {
	r := newResumeRig(t, ma2htest.Options{})
	handle := r.question(t)
	u := r.newRun(t, "run-2.1", func(c *ResumeConfig) { c.Ledger = r.store })
	u.act = func(_ context.Context, resp *Response) error {
		var p plan
		if err := r.sealer(t, "k1", 1).Open(resp.State(), &p, r.binding); err != nil || p.Step != "deploy" || !resp.Answered("ship") || !resp.By("human:alice") {
			t.Errorf("the run gets %v, %v, %v", resp, p, err)
		}
		return nil
	}
	if err := u.from(t, handle); !errors.Is(err, ErrOpen) || u.acts != 0 || r.store.diary() != nil {
		t.Errorf("while it is open: %v, %d acts", err, u.acts)
	}
	h, _ := ParseHandle(handle)
	r.answer(t, h.MessageID, "ship")
	if err := u.from(t, handle); err != nil || u.acts != 1 {
		t.Errorf("once it is answered: %v, %d acts", err, u.acts)
	}
	if err := u.from(t, handle); !errors.Is(err, ErrAlreadyActed) || u.acts != 1 {
		t.Errorf("again: %v, %d acts", err, u.acts)
	}
	r.hub.RequireDelivery(t, h.MessageID, types.Acknowledged)
	for name, h := range map[string]Handle{"another agent's": {MessageID: h.MessageID, AgentID: "other/bot"}, "no agent's": {MessageID: h.MessageID}} {
		before := len(r.hub.Requests())
		if _, err := u.Resume(t.Context(), h); !errors.Is(err, ErrAddressee) || len(r.hub.Requests()) != before {
			t.Errorf("%s handle: %v", name, err)
		}
	}
	if _, err := u.Resume(t.Context(), Handle{MessageID: "msg_unknown", AgentID: trustAgent}); !errors.Is(err, ErrNotFound) || u.acts != 1 {
		t.Errorf("an unknown message: %v", err)
	}
}

// req: STA-09 AMB-33
func TestASecondRunKeepsTheOrder(t *testing.T) {
	r := newResumeRig(t, ma2htest.Options{})
	h, _ := ParseHandle(r.question(t))
	r.answer(t, h.MessageID, "ship")
	body := r.push(t, h.MessageID, nil)
	say := func(s string) { _ = r.store.note(s) }
	v := trustVerifier(t, r.store, func(c *VerifierConfig) {
		c.Now = time.Now
		c.Keys = KeysFunc(func(context.Context) ([]Key, error) { say("verify"); return []Key{HMACKey(trustSecret)}, nil })
	})
	u := r.newRun(t, "run-2.1", func(c *ResumeConfig) {
		c.Verifier, c.Ledger = v, r.store
		c.Client = trustClient(t, r.hub, func(c *Config) {
			c.HTTPClient = &http.Client{Transport: hubTrip(func(q *http.Request) (*http.Response, error) {
				say(q.Method)
				return r.hub.Transport().RoundTrip(q)
			})}
		})
	})
	if _, err := u.Configured().Client.Capabilities(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.act = func(_ context.Context, resp *Response) error {
		say("open")
		defer say("act")
		return r.sealer(t, "k1", 1).Open(resp.State(), &plan{}, r.binding)
	}
	r.store.diary()
	head := hubSigner{}.header(t, "response", body, time.Now().Unix(), "j")
	resp, err := u.Deliver(t.Context(), Delivery{MessageID: h.MessageID, Header: head, Body: []byte(body)})
	if err != nil || resp.Pulled() {
		t.Fatal(resp, err)
	}
	if d := fmt.Sprint(r.store.diary()); d != "[verify Lookup ClaimJTI Reserve open act Commit SettleJTI true GET POST]" {
		t.Errorf("the order is %s", d)
	}
}

type hubTrip func(*http.Request) (*http.Response, error)

func (f hubTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// report: B118
func TestADeliveryThatIsMissingLateOrForgedIsPulled(t *testing.T) {
	for _, row := range []struct {
		name   string
		make   func(r *resumeRig, id, body string) Delivery
		pulled bool
		want   error
	}{
		{"a genuine one", func(_ *resumeRig, id, body string) Delivery {
			return Delivery{id, hubSigner{}.header(t, "response", body, time.Now().Unix(), "j"), []byte(body)}
		}, false, nil},
		{"a genuine one without an id beside it", func(_ *resumeRig, _, body string) Delivery {
			return Delivery{"", hubSigner{}.header(t, "response", body, time.Now().Unix(), "j"), []byte(body)}
		}, false, nil},
		{"an id alone", func(_ *resumeRig, id, _ string) Delivery { return Delivery{MessageID: id} }, true, nil},
		{"one without a header", func(_ *resumeRig, id, body string) Delivery { return Delivery{MessageID: id, Body: []byte(body)} }, true, nil},
		{"one without header and id", func(_ *resumeRig, _, body string) Delivery { return Delivery{Body: []byte(body)} }, true, nil},
		{"one that is late", func(_ *resumeRig, id, body string) Delivery {
			return Delivery{id, hubSigner{}.header(t, "response", body, time.Now().Unix()-3600, "j"), []byte(body)}
		}, true, nil},
		{"one that is forged", func(_ *resumeRig, id, body string) Delivery {
			forged := strings.Replace(body, `"ship"`, `"hold"`, 1)
			return Delivery{id, hubSigner{}.header(t, "response", body, time.Now().Unix(), "j"), []byte(forged)}
		}, true, nil},
		{"one that is cut", func(_ *resumeRig, id, body string) Delivery {
			return Delivery{id, hubSigner{}.header(t, "response", body, time.Now().Unix(), "j"), []byte(body[:50])}
		}, true, nil},
		{"one of 0.2", func(_ *resumeRig, id, body string) Delivery {
			old := strings.Replace(strings.Replace(body, `"0.3"`, `"0.2"`, 1), `"ship"`, `"hold"`, 1)
			return Delivery{id, hubSigner{}.header(t, "response", old, time.Now().Unix(), "j"), []byte(old)}
		}, true, nil},
		{"a genuine one of another message", func(r *resumeRig, id, body string) Delivery {
			other := strings.Replace(strings.ReplaceAll(body, id, "msg_other"), `"ship"`, `"hold"`, 1)
			return Delivery{id, hubSigner{}.header(t, "response", other, time.Now().Unix(), "j"), []byte(other)}
		}, true, nil},
		{"nothing at all", func(*resumeRig, string, string) Delivery { return Delivery{} }, false, ErrMalformed},
		{"bytes without an id", func(*resumeRig, string, string) Delivery { return Delivery{Body: []byte("null and void")} }, false, ErrMalformed},
		{"a forged one of a message that is not there", func(_ *resumeRig, id, body string) Delivery {
			return Delivery{Body: []byte(strings.ReplaceAll(body, id, "msg_unknown"))}
		}, false, ErrNotFound},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newResumeRig(t, ma2htest.Options{})
			h, _ := ParseHandle(r.question(t))
			v := trustVerifier(t, r.store, func(c *VerifierConfig) { c.Now, c.AllowUnboundPayload = time.Now, true })
			u := r.newRun(t, "run-2.1", func(c *ResumeConfig) { c.Verifier, c.Ledger = v, r.store })
			r.answer(t, h.MessageID, "ship")
			body := r.push(t, h.MessageID, nil)
			var got *Response
			u.act = func(_ context.Context, resp *Response) error { got = resp; return nil }
			resp, err := u.Deliver(t.Context(), row.make(r, h.MessageID, body))
			if row.want != nil {
				if !errors.Is(err, row.want) || u.acts != 0 || r.store.diary() != nil {
					t.Errorf("%v, %d acts", err, u.acts)
				}
				return
			}
			if err != nil || u.acts != 1 || got != resp || !resp.Answered("ship") || !resp.By("human:alice") || resp.Pulled() != row.pulled || resp.MessageID() != h.MessageID {
				t.Fatalf("%v, %d acts on %v", err, u.acts, resp)
			}
			if _, err := u.Deliver(t.Context(), row.make(r, h.MessageID, body)); !errors.Is(err, ErrAlreadyActed) || u.acts != 1 {
				t.Errorf("again: %v, %d acts", err, u.acts)
			}
		})
	}
}

func TestADeliveryOfAMessageThatIsOpenIsNotActedOn(t *testing.T) {
	r := newResumeRig(t, ma2htest.Options{})
	h, _ := ParseHandle(r.question(t))
	for _, ledger := range []Ledger{r.store, nil} {
		u := r.newRun(t, "run-2.1", func(c *ResumeConfig) { c.Ledger = ledger })
		for _, d := range []Delivery{{MessageID: h.MessageID}, {MessageID: h.MessageID, Body: []byte(trustBody), Header: trustHead(t, "j")}} {
			if _, err := u.Deliver(t.Context(), d); !errors.Is(err, ErrOpen) || u.acts != 0 {
				t.Errorf("%v, %d acts", err, u.acts)
			}
		}
	}
	r.hub.RequireRequests(t, ma2htest.Ack, 0)
	if d := r.store.diary(); d != nil {
		t.Errorf("store calls %v", d)
	}
}

// req: STA-08 STA-01
// report: B105 B106
func TestAStateThatDoesNotOpenIsNotActedOnAndNotRecorded(t *testing.T) {
	r := newResumeRig(t, ma2htest.Options{})
	handle := r.question(t)
	h, _ := ParseHandle(handle)
	r.answer(t, h.MessageID, "ship")
	u := r.newRun(t, "run-2.1", func(c *ResumeConfig) { c.Ledger = r.store })
	effects := 0
	with := func(s *Sealer, b Binding) func(context.Context, *Response) error {
		return func(_ context.Context, resp *Response) error {
			if err := s.Open(resp.State(), &plan{}, b); err != nil {
				return err
			}
			effects++
			return nil
		}
	}
	for _, row := range []struct {
		sealer  *Sealer
		binding Binding
		want    error
	}{
		{r.sealer(t, "k2", 1), r.binding, ErrSealKeyUnknown},
		{r.sealer(t, "k1", 2), r.binding, ErrSealKey},
		{r.sealer(t, "k1", 1), Bind(trustAgent, "another question"), ErrSealBinding},
	} {
		u.act = with(row.sealer, row.binding)
		r.store.diary()
		if err := u.from(t, handle); !errors.Is(err, row.want) || effects != 0 {
			t.Errorf("%v, want %v", err, row.want)
		}
		if d := fmt.Sprint(r.store.diary()); d != "[Lookup Reserve Release]" {
			t.Errorf("store calls %s", d)
		}
	}
	r.hub.RequireRequests(t, ma2htest.Ack, 0)
	u.act = with(r.sealer(t, "k1", 1), r.binding)
	if err := u.from(t, handle); err != nil || effects != 1 {
		t.Errorf("with the right key: %v", err)
	}
}

// req: STA-10
// report: B105
func TestOpenComesBeforeAnythingIsSpent(t *testing.T) {
	for name, ledger := range map[string]bool{"with a Ledger": true, "on a clean runner": false} {
		t.Run(name, func(t *testing.T) {
			r := newResumeRig(t, ma2htest.Options{})
			handle := r.question(t)
			h, _ := ParseHandle(handle)
			r.answer(t, h.MessageID, "ship")
			var p plan
			opened := 0
			opening := func(s *Sealer) func(context.Context, *Response) error {
				return func(_ context.Context, resp *Response) error {
					opened++
					return s.Open(resp.State(), &p, r.binding)
				}
			}
			run := func(open func(context.Context, *Response) error) (*resumeRun, error) {
				u := r.newRun(t, "100.1", func(c *ResumeConfig) {
					if c.Open = open; ledger {
						c.Ledger = r.store
					}
				})
				u.act = func(context.Context, *Response) error {
					if p.Step != "deploy" {
						t.Errorf("acting on %+v", p)
					}
					return nil
				}
				return u, u.from(t, handle)
			}
			for _, row := range []struct {
				open func(context.Context, *Response) error
				want error
			}{
				{opening(r.sealer(t, "k2", 1)), ErrSealKeyUnknown},
				{opening(r.sealer(t, "k1", 2)), ErrSealKey},
				{func(context.Context, *Response) error { panic("CANARY") }, ErrActPanicked},
			} {
				r.store.diary()
				if u, err := run(row.open); !errors.Is(err, row.want) || u.acts != 0 {
					t.Errorf("%v, %d acts, want %v", err, u.acts, row.want)
				}
				if d, want := fmt.Sprint(r.store.diary()), map[bool]string{true: "[Lookup Reserve Release]", false: "[]"}[ledger]; d != want {
					t.Errorf("store calls %s, want %s", d, want)
				}
				r.hub.RequireRequests(t, ma2htest.Ack, 0)
			}
			opened = 0
			if u, err := run(opening(r.sealer(t, "k1", 1))); err != nil || u.acts != 1 || opened != 1 {
				t.Errorf("with the right key: %v, %d acts, opened %d times", err, u.acts, opened)
			}
			r.hub.RequireRequests(t, ma2htest.Ack, 1)
		})
	}
}

// Without a store, the acknowledgment decides.
//
// report: B099
func TestOnACleanRunnerTheFirstAcknowledgmentDecidesWhoActs(t *testing.T) {
	r := newResumeRig(t, ma2htest.Options{})
	handle := r.question(t)
	h, _ := ParseHandle(handle)
	r.answer(t, h.MessageID, "ship")
	first := r.newRun(t, "100.1", func(c *ResumeConfig) { c.Note = func(*Response) string { return "deploying" } })
	first.act = func(context.Context, *Response) error {
		r.hub.RequireDelivery(t, h.MessageID, types.Acknowledged)
		return nil
	}
	if err := first.from(t, handle); err != nil || first.acts != 1 {
		t.Fatalf("the first run: %v, %d acts", err, first.acts)
	}
	m, err := r.client.Message(t.Context(), h.MessageID)
	if err != nil || !strings.HasPrefix(m.Wire.Delivery.Ack.Note, "[ma2h-claim 100.1 ") || !strings.HasSuffix(m.Wire.Delivery.Ack.Note, "] deploying") {
		t.Errorf("the human reads %q", m.Wire.Delivery.Ack.Note)
	}
	for runID, want := range map[string]error{"101.1": ErrAlreadyActed, "100.1": ErrInDoubt, "100.2": ErrInDoubt, "100": ErrInDoubt, "1001.1": ErrAlreadyActed, "10.1": ErrAlreadyActed} {
		later := r.newRun(t, runID, nil)
		if err := later.from(t, handle); !errors.Is(err, want) || later.acts != 0 {
			t.Errorf("run %s: %v, %d acts", runID, err, later.acts)
		}
	}
	// Each asked before it spoke: the Hub has one acknowledgment to show.
	r.hub.RequireRequests(t, ma2htest.Ack, 1)
}

// report: B099 B111
func TestARunThatDiesBetweenItsClaimAndItsActIsSeenAsSuch(t *testing.T) {
	for _, policy := range []Doubt{LeaveInDoubt, ActAgain, TakeAsDone} {
		r := newResumeRig(t, ma2htest.Options{})
		handle := r.question(t)
		h, _ := ParseHandle(handle)
		r.answer(t, h.MessageID, "ship")
		dying := r.newRun(t, "100.1", nil)
		dying.act = func(context.Context, *Response) error { runtime.Goexit(); return nil }
		done := make(chan struct{})
		go func() { defer close(done); _ = dying.from(t, handle) }()
		<-done
		if dying.acts != 1 {
			t.Fatal("the run did not get to its act")
		}
		again := r.newRun(t, "100.2", func(c *ResumeConfig) {
			c.InDoubt = func(_ context.Context, a Act) (Doubt, error) {
				if a.MessageID() != h.MessageID {
					t.Errorf("the policy is asked about %v", a)
				}
				return policy, nil
			}
		})
		err := again.from(t, handle)
		want := map[Doubt]error{LeaveInDoubt: ErrInDoubt, TakeAsDone: ErrAlreadyActed}[policy]
		if !errors.Is(err, want) || again.acts != map[Doubt]int{ActAgain: 1}[policy] {
			t.Errorf("policy %d: %v, %d acts", policy, err, again.acts)
		}
		other := r.newRun(t, "101.1", nil)
		if err := other.from(t, handle); !errors.Is(err, ErrAlreadyActed) || other.acts != 0 {
			t.Errorf("another run: %v, %d acts", err, other.acts)
		}
	}
}

func TestOnACleanRunnerAnActThatFailsIsSeenAndNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, act := range map[string]func(context.Context, *Response) error{
			"fails":   func(context.Context, *Response) error { return errors.New("no") },
			"panics":  func(context.Context, *Response) error { panic("CANARY") },
			"unknown": func(context.Context, *Response) error { return ErrOutcomeUnknown },
		} {
			r := newResumeRig(t, ma2htest.Options{})
			handle := r.question(t)
			h, _ := ParseHandle(handle)
			r.answer(t, h.MessageID, "ship")
			u := r.newRun(t, "100.1", nil)
			u.act = act
			begin := time.Now()
			err := u.from(t, handle)
			if !errors.Is(err, ErrOutcomeUnknown) || u.acts != 1 || time.Since(begin) != 0 || strings.Contains(err.Error(), "CANARY") {
				t.Errorf("an act that %s: %v after %s", name, err, time.Since(begin))
			}
			if name == "panics" && !errors.Is(err, ErrActPanicked) {
				t.Errorf("%v lost its cause", err)
			}
			again := r.newRun(t, "100.2", nil)
			if err := again.from(t, handle); !errors.Is(err, ErrInDoubt) || again.acts != 0 {
				t.Errorf("the run again: %v, %d acts", err, again.acts)
			}
		}
	})
}

// req: DISC-02
func TestOnACleanRunnerAHubWithoutAcknowledgmentsActsOnNothing(t *testing.T) {
	for _, opts := range []ma2htest.Options{{Version: "0.3"}, {Capability: func(c *types.Capability) { c.Ack = nil }}} {
		r := newResumeRig(t, opts)
		handle := r.question(t)
		h, _ := ParseHandle(handle)
		r.answer(t, h.MessageID, "ship")
		u := r.newRun(t, "100.1", nil)
		if err := u.from(t, handle); !errors.Is(err, ErrUnsupported) || u.acts != 0 {
			t.Errorf("%v, %d acts", err, u.acts)
		}
		r.hub.RequireRequests(t, ma2htest.Ack, 0)
		// With a store of its own it acts, and its silence is no fault.
		u = r.newRun(t, "100.1", func(c *ResumeConfig) { c.Ledger = r.store })
		if err := u.from(t, handle); err != nil || u.acts != 1 {
			t.Errorf("with a Ledger: %v, %d acts", err, u.acts)
		}
	}
}

func TestOnACleanRunnerAClaimThatFailsActsOnNothing(t *testing.T) {
	r := newResumeRig(t, ma2htest.Options{})
	handle := r.question(t)
	h, _ := ParseHandle(handle)
	r.answer(t, h.MessageID, "ship")
	u := r.newRun(t, "100.1", nil)
	for _, f := range []ma2htest.Fault{ma2htest.Status(403, 1).On(ma2htest.Ack), ma2htest.Status(409, 1).On(ma2htest.Ack), ma2htest.Status(404, 1).On(ma2htest.Pull).After(1)} {
		r.hub.Fault(f)
		if err := u.from(t, handle); err == nil || u.acts != 0 {
			t.Errorf("%v, %d acts", err, u.acts)
		}
		r.hub.Heal()
	}
	noRand := r.newRun(t, "100.1", func(c *ResumeConfig) {
		c.Client = trustClient(t, r.hub, func(c *Config) { c.Rand = brokenReader{}; c.Agent.RunID = "100.1" })
	})
	if err := noRand.from(t, handle); !errors.Is(err, io.ErrUnexpectedEOF) || noRand.acts != 0 {
		t.Errorf("without randomness: %v", err)
	}
	if err := u.from(t, handle); err != nil || u.acts != 1 {
		t.Errorf("once it works: %v", err)
	}
}

// A push that verified, of a decision that is not the one on record, is not
// claimed: the Hub's own answer counts.
//
// req: RES-10
func TestOnACleanRunnerTheHubsOwnAnswerCounts(t *testing.T) {
	r := newResumeRig(t, ma2htest.Options{})
	h, _ := ParseHandle(r.question(t))
	r.answer(t, h.MessageID, "ship")
	body := r.push(t, h.MessageID, func(w *types.Response) { w.ResolutionID = "res_other" })
	v := trustVerifier(t, openReplay{}, func(c *VerifierConfig) { c.Now = time.Now })
	u := r.newRun(t, "100.1", func(c *ResumeConfig) { c.Verifier = v })
	head := hubSigner{}.header(t, "response", body, time.Now().Unix(), "j")
	if _, err := u.Deliver(t.Context(), Delivery{h.MessageID, head, []byte(body)}); !errors.Is(err, ErrSecondResolution) || u.acts != 0 {
		t.Errorf("%v, %d acts", err, u.acts)
	}
	r.hub.RequireRequests(t, ma2htest.Ack, 0)
	body = r.push(t, h.MessageID, nil)
	head = hubSigner{}.header(t, "response", body, time.Now().Unix(), "k")
	if _, err := u.Deliver(t.Context(), Delivery{h.MessageID, head, []byte(body)}); err != nil || u.acts != 1 {
		t.Errorf("the one on record: %v, %d acts", err, u.acts)
	}
}

// noteHub changes the notes that a Hub keeps.
type noteHub struct {
	inner http.RoundTripper
	keep  func(before, sent string) string
	note  string
}

func (n *noteHub) RoundTrip(q *http.Request) (*http.Response, error) {
	isAck := strings.HasSuffix(q.URL.Path, "/ack")
	if isAck {
		b, err := io.ReadAll(q.Body)
		if err != nil {
			return nil, err
		}
		var sent types.AckRequest
		if err := stdjson.Unmarshal(b, &sent); err != nil {
			return nil, err
		}
		n.note = n.keep(n.note, sent.Note)
		q = q.Clone(q.Context())
		q.Body = io.NopCloser(bytes.NewReader(b))
	}
	resp, err := n.inner.RoundTrip(q)
	if err != nil || resp.StatusCode != 200 {
		return resp, err
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := stdjson.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	ack, _ := m["delivery"].(map[string]any)
	ack, _ = ack["ack"].(map[string]any)
	if isAck {
		ack = m
	}
	if ack != nil {
		ack["note"] = n.note
		if n.note == "" {
			delete(ack, "note")
		}
	}
	b, err = stdjson.Marshal(m)
	resp.Body = io.NopCloser(bytes.NewReader(b))
	resp.ContentLength = int64(len(b))
	resp.Header.Set("Content-Length", fmt.Sprint(len(b)))
	return resp, err
}

func TestAHubThatAltersNotesNeverLeadsToTwoActs(t *testing.T) {
	first := func(before, sent string) string {
		if before == "" {
			return sent
		}
		return before
	}
	for _, row := range []struct {
		name  string
		keep  func(before, sent string) string
		acts  int   // of the first run
		first error // of the first run
		other error // of another one
	}{
		{"keeps the first", first, 1, nil, ErrAlreadyActed},
		{"keeps the last", func(_, sent string) string { return sent }, 1, nil, ErrAlreadyActed},
		{"puts them together", func(before, sent string) string { return before + sent }, 1, nil, ErrAlreadyActed},
		{"puts them together in reverse", func(before, sent string) string { return sent + before }, 1, nil, ErrAlreadyActed},
		{"adds to them", func(before, sent string) string { return first(before, "Agent says: "+sent+" (received)") }, 1, nil, ErrAlreadyActed},
		{"escapes them", func(before, sent string) string { return first(before, strings.ReplaceAll(sent, "<", "&lt;")) }, 1, nil, ErrAlreadyActed},
		{"puts them in capitals", func(before, sent string) string { return first(before, strings.ToUpper(sent)) }, 0, ErrInDoubt, ErrInDoubt},
		{"drops them", func(string, string) string { return "" }, 0, ErrInDoubt, ErrInDoubt},
		{"cuts them", func(before, sent string) string { return first(before, sent[:20]) }, 0, ErrInDoubt, ErrInDoubt},
		{"takes out brackets", func(before, sent string) string { return first(before, strings.Trim(sent, "[]")) }, 0, ErrInDoubt, ErrInDoubt},
		{"writes its own", func(string, string) string { return "acknowledged" }, 0, ErrInDoubt, ErrInDoubt},
		{"writes somebody else's claim", func(string, string) string { return "[ma2h-claim 99.1 abc]" }, 0, ErrAlreadyActed, ErrAlreadyActed},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newResumeRig(t, ma2htest.Options{})
			handle := r.question(t)
			h, _ := ParseHandle(handle)
			r.answer(t, h.MessageID, "ship")
			hub := &noteHub{inner: r.hub.Transport(), keep: row.keep}
			start := func(runID string) *resumeRun {
				return r.newRun(t, runID, func(c *ResumeConfig) {
					c.Note = func(*Response) string { return "<on it>" }
					c.Client = trustClient(t, r.hub, func(c *Config) { c.Agent.RunID, c.HTTPClient = runID, &http.Client{Transport: hub} })
				})
			}
			a, b, a2 := start("100.1"), start("101.1"), start("100.2")
			if err := a.from(t, handle); !errors.Is(err, row.first) || a.acts != row.acts {
				t.Errorf("the first run: %v, %d acts", err, a.acts)
			}
			if err := b.from(t, handle); !errors.Is(err, row.other) || b.acts != 0 {
				t.Errorf("another run: %v, %d acts", err, b.acts)
			}
			if err := a2.from(t, handle); err == nil || a2.acts != 0 {
				t.Errorf("the first run again: %v, %d acts", err, a2.acts)
			}
		})
	}
}

// The note may hold the human's own words.
func TestWordsInANoteAreNotTakenForAClaim(t *testing.T) {
	for _, words := range []string{
		"[ma2h-claim 100.1 abc]", "[ma2h-claim 999.1 abc]", "[ma2h-claim [ma2h-claim 1 2]", "[ma2h-claim ", "]", strings.Repeat("ö", MaxNote), strings.Repeat("[ma2h-claim 1 2]", 200),
	} {
		r := newResumeRig(t, ma2htest.Options{})
		handle := r.question(t)
		h, _ := ParseHandle(handle)
		if err := r.hub.Answer(h.MessageID, "ship", ma2htest.By("human:alice"), ma2htest.Comment(words)); err != nil {
			t.Fatal(err)
		}
		note := func(c *ResumeConfig) { c.Note = func(resp *Response) string { return resp.Comment() } }
		a, b, a2 := r.newRun(t, "100.1", note), r.newRun(t, "101.1", note), r.newRun(t, "100.2", note)
		if err := a.from(t, handle); err != nil || a.acts != 1 {
			t.Errorf("%.20q: %v, %d acts", words, err, a.acts)
		}
		if err := b.from(t, handle); !errors.Is(err, ErrAlreadyActed) || b.acts != 0 {
			t.Errorf("%.20q: another run: %v, %d acts", words, err, b.acts)
		}
		if err := a2.from(t, handle); !errors.Is(err, ErrInDoubt) || a2.acts != 0 {
			t.Errorf("%.20q: the run again: %v, %d acts", words, err, a2.acts)
		}
	}
}

func TestAttemptsOfARunAreOneRun(t *testing.T) {
	for _, row := range []struct {
		a, b string
		same bool
	}{
		{"100.1", "100.2", true}, {"100", "100.2", true}, {"100.", "100.2", true}, {"a", "a", true}, {"100.1", "101.1", false},
		{"v1.2.3-job", "v1.3.0-job", false}, {"100.1", "100.x", false}, {".1", ".2", false}, {"", "", true},
	} {
		if SameRun(row.a, row.b) != row.same || SameRun(row.b, row.a) != row.same {
			t.Errorf("%q and %q", row.a, row.b)
		}
	}
	if got := ClaimName("a b/c]\n[ö.1_-"); got != "a-b-c----.1_-" {
		t.Errorf("the claim names %q", got)
	}
}

func TestARunAcknowledgesWhatAnEarlierOneDidAndCouldNotSay(t *testing.T) {
	r := newResumeRig(t, ma2htest.Options{})
	handle := r.question(t)
	h, _ := ParseHandle(handle)
	r.answer(t, h.MessageID, "ship")
	r.hub.Fault(ma2htest.Status(403, 1).On(ma2htest.Ack))
	u := r.newRun(t, "100.1", func(c *ResumeConfig) { c.Ledger = r.store; c.Note = func(*Response) string { return "done" } })
	if err := u.from(t, handle); err != nil || u.acts != 1 {
		t.Errorf("an acknowledgment that fails undoes nothing: %v", err)
	}
	r.hub.RequireDelivery(t, h.MessageID, types.DeliveredToAgent)
	if err := u.from(t, handle); !errors.Is(err, ErrAlreadyActed) || u.acts != 1 {
		t.Errorf("%v", err)
	}
	r.hub.RequireDelivery(t, h.MessageID, types.Acknowledged)
	r.hub.RequireRequests(t, ma2htest.Ack, 2)

	// A note that is too long is cut, and not the acknowledgment.
	r = newResumeRig(t, ma2htest.Options{})
	handle = r.question(t)
	h, _ = ParseHandle(handle)
	r.answer(t, h.MessageID, "ship")
	u = r.newRun(t, "100.1", func(c *ResumeConfig) {
		c.Ledger = r.store
		c.Note = func(*Response) string { return strings.Repeat("x", MaxNote-1) + "öö" }
	})
	if err := u.from(t, handle); err != nil {
		t.Errorf("%v", err)
	}
	m, err := r.client.Message(t.Context(), h.MessageID)
	if err != nil || m.Wire.Delivery.Ack == nil || m.Wire.Delivery.Ack.Note != strings.Repeat("x", MaxNote-1) {
		t.Errorf("the note on record is not the beginning of the long one: %v", err)
	}

	// An act that failed is not acknowledged.
	r = newResumeRig(t, ma2htest.Options{})
	handle = r.question(t)
	h, _ = ParseHandle(handle)
	r.answer(t, h.MessageID, "ship")
	u = r.newRun(t, "100.1", func(c *ResumeConfig) { c.Ledger = r.store })
	for _, e := range []error{errors.New("no"), ErrAlreadyActed} {
		u.act = func(context.Context, *Response) error { return e }
		if err := u.from(t, handle); !errors.Is(err, e) {
			t.Errorf("%v", err)
		}
	}
	r.hub.RequireRequests(t, ma2htest.Ack, 0)
}

// Open comes before the claim where the claim cannot be taken back, and within
// it where it can.
//
// req: STA-08 STA-09
// report: B099 B105
func TestAStateIsOpenedBeforeAnythingIsSpent(t *testing.T) {
	for _, ledger := range []bool{true, false} {
		r := newResumeRig(t, ma2htest.Options{})
		handle := r.question(t)
		h, _ := ParseHandle(handle)
		r.answer(t, h.MessageID, "ship")
		var failure error
		var steps []string
		u := r.newRun(t, "100.1", func(c *ResumeConfig) {
			if ledger {
				c.Ledger = r.store
			}
			c.Open = func(_ context.Context, resp *Response) error {
				if !resp.Answered("ship") {
					t.Errorf("opens %v", resp)
				}
				steps = append(steps, "open")
				return failure
			}
		})
		u.act = func(context.Context, *Response) error { steps = append(steps, "act"); return nil }
		for _, failure = range []error{ErrSealTampered, ErrAlreadyActed} {
			steps = nil
			if err := u.from(t, handle); !errors.Is(err, failure) || fmt.Sprint(steps) != "[open]" {
				t.Errorf("ledger %t: %v, steps %v", ledger, err, steps)
			}
			r.hub.RequireRequests(t, ma2htest.Ack, 0)
		}
		if d := fmt.Sprint(r.store.diary()); ledger && d != "[Lookup Reserve Release Lookup Reserve Release]" || !ledger && d != "[]" {
			t.Errorf("ledger %t: store calls %s", ledger, d)
		}
		failure, steps = nil, nil
		if err := u.from(t, handle); err != nil || fmt.Sprint(steps) != "[open act]" {
			t.Errorf("ledger %t: %v, steps %v", ledger, err, steps)
		}
		r.hub.RequireRequests(t, ma2htest.Ack, 1)
	}
}

// req: PUL-10
func TestANotifyHasNothingToResumeFrom(t *testing.T) {
	r := newResumeRig(t, ma2htest.Options{})
	ack, err := r.client.Notify(t.Context(), Notify{Title: "Digest", IdempotencyKey: "n"})
	if err != nil {
		t.Fatal(err)
	}
	u := r.newRun(t, "100.1", func(c *ResumeConfig) { c.Ledger = r.store })
	if err := u.from(t, ack.Handle().String()); !errors.Is(err, ErrNoAnswer) || u.acts != 0 || r.store.diary() != nil {
		t.Errorf("%v, %d acts", err, u.acts)
	}
}

func TestARunHasTheLeaseAndTheLoggerThatItIsGiven(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{0: DefaultLease, time.Minute: time.Minute} {
		r := newResumeRig(t, ma2htest.Options{})
		handle := r.question(t)
		h, _ := ParseHandle(handle)
		r.answer(t, h.MessageID, "ship")
		log := &syncBuffer{}
		u := r.newRun(t, "100.1", func(c *ResumeConfig) {
			c.Ledger, c.Lease, c.Logger = r.store, lease, slog.New(slog.NewTextHandler(log, nil))
			c.Verifier = trustVerifier(t, r.store)
		})
		u.act = func(ctx context.Context, _ *Response) error {
			end, _ := ctx.Deadline()
			if left := time.Until(end); left > want || left < want*8/10 {
				t.Errorf("lease %s: the act has %s", lease, left)
			}
			return nil
		}
		// A body that is not believed is worth a line, none is not.
		for i, body := range []string{"", "x"} {
			if _, err := u.Deliver(t.Context(), Delivery{MessageID: h.MessageID, Body: []byte(body)}); i == 0 && err != nil || u.acts != 1 {
				t.Errorf("%v, %d acts", err, u.acts)
			}
			if said := strings.Contains(log.String(), "delivery not taken"); said != (body != "") {
				t.Errorf("a body of %q: the log says %s", body, log)
			}
		}
	}
}

func TestADeliveryPrintsItsIDAndItsSize(t *testing.T) {
	d := Delivery{MessageID: "msg_1", Header: http.Header{"Canary": {"canary"}}, Body: []byte("canary")}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, d); got != "Delivery{message=msg_1 bytes=6}" {
			t.Errorf("%s prints %s", verb, got)
		}
	}
	if got := d.LogValue().String(); got != "Delivery{message=msg_1 bytes=6}" {
		t.Errorf("logged as %s", got)
	}
}

func TestAResponseThatWasWaitedForIsActedOnOnce(t *testing.T) {
	r := newResumeRig(t, ma2htest.Options{})
	h, _ := ParseHandle(r.question(t))
	r.answer(t, h.MessageID, "ship")
	resp, err := r.client.Wait(t.Context(), h.MessageID)
	if err != nil {
		t.Fatal(err)
	}
	u := r.newRun(t, "100.1", func(c *ResumeConfig) { c.Ledger = r.store })
	if err := u.Response(t.Context(), resp); err != nil || u.acts != 1 {
		t.Errorf("%v, %d acts", err, u.acts)
	}
	if err := u.Response(t.Context(), resp); !errors.Is(err, ErrAlreadyActed) || u.acts != 1 {
		t.Errorf("%v, %d acts", err, u.acts)
	}
	r.store.diary()
	for _, none := range []*Response{nil, {}} {
		if err := u.Response(t.Context(), none); !errors.Is(err, ErrUnboundPayload) || u.acts != 1 || r.store.diary() != nil {
			t.Errorf("no Response: %v", err)
		}
	}
}

func TestAResumerRefusesABadConfiguration(t *testing.T) {
	client := trustClient(t, ma2htest.NewHub(t), nil)
	act := func(context.Context, *Response) error { return nil }
	other := trustVerifier(t, openReplay{}, func(c *VerifierConfig) { c.AgentID = "other/bot" })
	for _, row := range []struct {
		field string
		cfg   ResumeConfig
	}{
		{"Client", ResumeConfig{Act: act}},
		{"Act", ResumeConfig{Client: client}},
		{"Verifier", ResumeConfig{Client: client, Act: act, Verifier: other}},
		{"Lease", ResumeConfig{Client: client, Act: act, Lease: time.Second - 1}},
		{"Lease", ResumeConfig{Client: client, Act: act, Lease: -time.Second}},
	} {
		r, err := NewResumer(row.cfg)
		if fe, ok := errors.AsType[*types.FieldError](err); !ok || r != nil || fe.Field != "ResumeConfig."+row.field {
			t.Errorf("%s: %v", row.field, err)
		}
	}
	if _, err := NewResumer(ResumeConfig{Client: client, Act: act, Lease: time.Second, Verifier: trustVerifier(t, openReplay{})}); err != nil {
		t.Error(err)
	}
}
