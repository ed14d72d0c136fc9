package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// report: B111
// req: HND-07
func TestAnActOfUnknownOutcomeIsInDoubtUntilAPolicyDecides(t *testing.T) {
	policyDown := errors.New("cannot tell")
	for _, row := range []struct {
		name    string
		policy  func(context.Context, Act) (Doubt, error)
		status  int
		acts    int // beside the one of unknown outcome
		reason  error
		settled string
	}{
		{"no policy", nil, 503, 0, ErrInDoubt, "[Lookup ClaimJTI Reserve SettleJTI false]"},
		{"leave it", func(context.Context, Act) (Doubt, error) { return LeaveInDoubt, nil }, 503, 0, ErrInDoubt, "[Lookup ClaimJTI Reserve SettleJTI false]"},
		{"act again", func(context.Context, Act) (Doubt, error) { return ActAgain, nil }, 200, 1, nil, "[Lookup ClaimJTI Reserve Reserve Commit SettleJTI true]"},
		{"take it as done", func(context.Context, Act) (Doubt, error) { return TakeAsDone, nil }, 200, 0, ErrAlreadyActed, "[Lookup ClaimJTI Reserve Reserve Commit SettleJTI true]"},
		{"a decision that there is not", func(context.Context, Act) (Doubt, error) { return 7, nil }, 503, 0, ErrInDoubt, "[Lookup ClaimJTI Reserve SettleJTI false]"},
		{"a policy that fails", func(context.Context, Act) (Doubt, error) { return ActAgain, policyDown }, 503, 0, ErrInDoubt, "[Lookup ClaimJTI Reserve SettleJTI false]"},
		{"a policy that fails as if it were done", func(context.Context, Act) (Doubt, error) { return TakeAsDone, ErrAlreadyActed }, 503, 0, ErrInDoubt, "[Lookup ClaimJTI Reserve SettleJTI false]"},
		{"a policy that fails as if it were malformed", func(context.Context, Act) (Doubt, error) { return TakeAsDone, ErrMalformed }, 503, 0, ErrInDoubt, "[Lookup ClaimJTI Reserve SettleJTI false]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var asked []string
			r := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) {
				if row.policy != nil {
					c.InDoubt = func(ctx context.Context, a Act) (Doubt, error) {
						asked = append(asked, a.MessageID()+" "+a.Resolution)
						return row.policy(ctx, a)
					}
				}
			})
			r.act = func(context.Context, *Response) error { return fmt.Errorf("timed out: %w", ErrOutcomeUnknown) }
			out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody))
			if out.Status != 503 || !errors.Is(out.Err, ErrOutcomeUnknown) || errors.Is(out.Err, ErrStoreUnavailable) || len(r.acts()) != 1 {
				t.Fatalf("the act itself: %v", out)
			}
			if d := fmt.Sprint(r.store.diary()); d != "[Lookup ClaimJTI Reserve Doubt SettleJTI false]" {
				t.Errorf("store calls %s", d)
			}
			r.act = nil
			out = r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody))
			if out.Status != row.status || len(r.acts()) != 1+row.acts || row.reason != nil && !errors.Is(out.Err, row.reason) {
				t.Errorf("%v %v, %d acts", out, out.Err, len(r.acts()))
			}
			if d := fmt.Sprint(r.store.diary()); d != row.settled {
				t.Errorf("store calls %s, want %s", d, row.settled)
			}
			if row.policy != nil && !slices.Equal(asked, []string{"msg_01HZXASK0001 res_01HZXR3SOLVE"}) {
				t.Errorf("the policy was asked about %v", asked)
			}
			// A delivery that stays in doubt says so each time, and never acts.
			for range 3 {
				out = r.Process(t.Context(), trustHead(t, "k"), []byte(trustBody))
				if out.Status != row.status || len(r.acts()) != 1+row.acts {
					t.Errorf("later: %v, %d acts", out, len(r.acts()))
				}
			}
		})
	}
}

// A copy of the same bytes may be acted on between the look and the claim.
//
// req: HND-04
// report: B081
func TestACopyThatWasActedOnMeanwhileIsDone(t *testing.T) {
	for name, row := range map[string]struct {
		acted  bool
		failed error
		status int
		reason error
	}{
		"acted on":        {true, nil, 200, ErrAlreadyActed},
		"not acted on":    {false, nil, 401, ErrReplay},
		"nobody can tell": {false, errors.New("down"), 503, ErrStoreUnavailable},
	} {
		r := newCallbackRig(t)
		r.store.before["ClaimJTI"] = func() { // the other process, on the same stores
			ctx, act := context.Background(), ActOf(pushed(t, trustBody), trustAgent)
			if st, err := r.store.Store.ClaimJTI(ctx, "jti\x00Keys\x00"+trustAgent+"\x00j", 0, time.Minute); st != Fresh || err != nil {
				t.Error(st, err)
			}
			if row.acted {
				if err := r.store.Store.Commit(ctx, act, reserve(t, r.store, act)); err != nil {
					t.Error(err)
				}
			}
			r.store.fail["Lookup"] = row.failed
		}
		out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody))
		if out.Status != row.status || !errors.Is(out.Err, row.reason) || len(r.acts()) != 0 {
			t.Errorf("%s: %v %v", name, out, out.Err)
		}
		if d := fmt.Sprint(r.store.diary()); d != "[Lookup ClaimJTI Lookup]" {
			t.Errorf("%s: store calls %s", name, d)
		}
	}
}

func TestTwoThatTakeOverOneDoubtActOnce(t *testing.T) {
	r := newCallbackRig(t)
	act := ActOf(pushed(t, trustBody), trustAgent)
	reserve(t, r.store, act)
	r.clock.Add(time.Minute)
	policy := func(context.Context, Act) (Doubt, error) {
		// While this one thinks, another has decided and is at it.
		if res, err := r.store.Store.Reserve(t.Context(), act, time.Minute, true); err != nil || res.State != ActClaimed {
			t.Fatal(res, err)
		}
		return ActAgain, nil
	}
	acts := 0
	err := r.RunWith(t.Context(), policy, act, func(context.Context) error { acts++; return nil })
	if !errors.Is(err, ErrInFlight) || acts != 0 {
		t.Errorf("%v, %d acts", err, acts)
	}
	// Nor is it recorded as done while the other is at it.
	r.clock.Add(time.Minute)
	r.store.diary()
	err = r.RunWith(t.Context(), func(ctx context.Context, a Act) (Doubt, error) {
		_, err := policy(ctx, a)
		return TakeAsDone, err
	}, act, func(context.Context) error { acts++; return nil })
	if d := fmt.Sprint(r.store.diary()); !errors.Is(err, ErrInFlight) || acts != 0 || d != "[Lookup Reserve Reserve]" {
		t.Errorf("%v, %d acts, store calls %s", err, acts, d)
	}
}

// A store that fails while a doubt is resolved leaves it as it was.
//
// report: B111
func TestADoubtThatCouldNotBeResolvedStays(t *testing.T) {
	for _, row := range []struct {
		method string
		doubt  Doubt
	}{{"Reserve", ActAgain}, {"Reserve", TakeAsDone}, {"Commit", TakeAsDone}} {
		r := newCallbackRig(t)
		act := ActOf(pushed(t, trustBody), trustAgent)
		reserve(t, r.store, act)
		r.clock.Add(time.Minute)
		acts := 0
		run := func(ctx context.Context, failure error) error {
			defer r.store.failing(row.method, nil)
			return r.RunWith(ctx, func(context.Context, Act) (Doubt, error) {
				r.store.failing(row.method, failure)
				return row.doubt, nil
			}, act, func(context.Context) error { acts++; return nil })
		}
		if err := run(t.Context(), errors.New("down")); !errors.Is(err, ErrStoreUnavailable) || acts != 0 {
			t.Errorf("%s: %v, %d acts", row.method, err, acts)
		}
		r.clock.Add(DefaultLease)
		want := map[Doubt]error{TakeAsDone: ErrAlreadyActed}[row.doubt]
		if err := run(t.Context(), nil); !errors.Is(err, want) || (err == nil) != (acts == 1) {
			t.Errorf("%s, once it is back: %v, %d acts", row.method, err, acts)
		}
	}
}

// hanging is a store that answers when its caller has given up.
type hanging struct {
	Ledger
	method string
}

func (hanging) Lookup(context.Context, Act) (ActState, error) { return 0, nil }

func (h hanging) Reserve(ctx context.Context, act Act, lease time.Duration, takeDoubt bool) (Reservation, error) {
	if h.method == "Reserve" {
		<-ctx.Done()
		return Reservation{}, ctx.Err()
	}
	return Reservation{State: ActClaimed, Token: 1}, nil
}

func (h hanging) Commit(ctx context.Context, _ Act, _ Token) error {
	<-ctx.Done()
	return ctx.Err()
}

// Only a Hub that hangs up has its push reserved without it.
func TestAPullThatIsGivenUpIsGivenUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin, acts := time.Now(), 0
		err := RunOn(ctx, hanging{method: "Reserve"}, Act{Key: "k"}, func(context.Context) error { acts++; return nil })
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second || acts != 0 {
			t.Errorf("%v after %s, %d acts", err, time.Since(begin), acts)
		}
	})
}

func TestAnActIsRecordedForSoLongAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		err := RunOn(t.Context(), hanging{method: "Commit"}, Act{Key: "k"}, func(context.Context) error { return nil })
		if !errors.Is(err, ErrOutcomeUnknown) || time.Since(begin) != SettleTime {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

// What a ledger keeps must be found by every later release.
func TestTheKeyOfAnActStaysAsItIs(t *testing.T) {
	a64 := strings.Repeat("a", 64)
	for key, want := range map[string]string{
		ActKey("response", a64, "m"):      "response\x00" + a64 + "\x00m",
		ActKey("directive", a64+"a", "m"): "directive\x00sha256:635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0\x00m",
	} {
		if key != want {
			t.Errorf("%q, not %q", key, want)
		}
		if id := (Act{Key: key}).MessageID(); id != "m" {
			t.Errorf("the message of %q is %q", key, id)
		}
	}
	for _, key := range []string{"k", "response\x00a", ""} {
		if id := (Act{Key: key}).MessageID(); id != key {
			t.Errorf("the message of %q is %q", key, id)
		}
	}
}

// The lease of an act begins with its claim, however long the policy looked for
// what the earlier one did.
func TestAPolicyOnDoubtTakesNothingOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCallbackRig(t)
		act := ActOf(pushed(t, trustBody), trustAgent)
		reserve(t, r.store, act)
		r.clock.Add(time.Minute)
		policy := func(context.Context, Act) (Doubt, error) {
			time.Sleep(SettleTime / 2)
			return ActAgain, nil
		}
		err := r.RunWith(t.Context(), policy, act, func(ctx context.Context) error {
			if until, _ := ctx.Deadline(); time.Until(until) != DefaultLease*9/10 {
				t.Errorf("the act has %s", time.Until(until))
			}
			return ctx.Err()
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// What was done and could not be written down is never done again by itself.
//
// report: B111
func TestAnActThatCouldNotBeRecordedIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			name   string
			fail   error
			tries  int
			during time.Duration // how long the act takes
		}{
			{"the store is down", errors.New("down"), 4, 0},
			{"the lease is lost", ErrLeaseLost, 1, 0},
			{"the act outlasts its lease", nil, 1, DefaultLease},
		} {
			r := newCallbackRig(t)
			r.act = func(context.Context, *Response) error { r.clock.Add(row.during); return nil }
			r.store.failing("Commit", row.fail)
			begin := time.Now()
			out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody))
			if out.Status != 503 || out.Acted || !errors.Is(out.Err, ErrOutcomeUnknown) || time.Since(begin) > SettleTime {
				t.Errorf("%s: %v %v after %s", row.name, out, out.Err, time.Since(begin))
			}
			d := r.store.diary()
			if commits := strings.Count(fmt.Sprint(d), "Commit"); commits != row.tries || d[len(d)-1] != "SettleJTI false" {
				t.Errorf("%s: store calls %v", row.name, d)
			}
			r.store.failing("Commit", nil)
			r.act = nil
			r.clock.Add(DefaultLease)
			now := r.clock.Now().Unix()
			for range 3 {
				out = r.Process(t.Context(), hubSigner{}.header(t, "response", trustBody, now, "k"), []byte(trustBody))
				if out.Status != 503 || !errors.Is(out.Err, ErrInDoubt) || len(r.acts()) != 1 {
					t.Errorf("%s, later: %v %v", row.name, out, out.Err)
				}
			}
		}
	})
}

func TestAStoreThatComesBackWhileAnActIsRecordedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCallbackRig(t)
		r.store.failing("Commit", errors.New("down"))
		go func() {
			time.Sleep(300 * time.Millisecond)
			r.store.failing("Commit", nil)
		}()
		if out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody)); out.Status != 200 || !out.Acted {
			t.Errorf("%v %v", out, out.Err)
		}
		// The same for a claim that is given back.
		r = newCallbackRig(t)
		r.act = func(context.Context, *Response) error { return errors.New("no") }
		r.store.failing("Release", errors.New("down"))
		go func() {
			time.Sleep(300 * time.Millisecond)
			r.store.failing("Release", nil)
		}()
		if out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody)); out.Status != 503 || errors.Is(out.Err, ErrStoreUnavailable) {
			t.Errorf("%v %v", out, out.Err)
		}
		r.act = nil
		if out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody)); out.Status != 200 {
			t.Errorf("the resend: %v %v", out, out.Err)
		}
		// One that stays down ends the claim in doubt, and says so.
		for method, failure := range map[string]error{"Release": errors.New("no"), "Doubt": ErrOutcomeUnknown} {
			r = newCallbackRig(t)
			r.act = func(context.Context, *Response) error { return failure }
			r.store.failing(method, errors.New("down"))
			out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody))
			if out.Status != 503 || !errors.Is(out.Err, ErrStoreUnavailable) || !errors.Is(out.Err, failure) {
				t.Errorf("%s: %v %v", method, out, out.Err)
			}
			r.act = nil
			r.clock.Add(DefaultLease)
			out = r.Process(t.Context(), hubSigner{}.header(t, "response", trustBody, r.clock.Now().Unix(), "k"), []byte(trustBody))
			if out.Status != 503 || !errors.Is(out.Err, ErrInDoubt) || len(r.acts()) != 1 {
				t.Errorf("%s, later: %v %v", method, out, out.Err)
			}
		}
		// A delivery whose replay claim cannot be settled was acted on all the same.
		r = newCallbackRig(t)
		r.store.failing("SettleJTI true", errors.New("down"))
		if out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody)); out.Status != 200 || !strings.Contains(r.log.String(), "replay claim not settled") {
			t.Errorf("%v, log %s", out, r.log)
		}
	})
}

func TestALedgerThatAnswersNonsenseIsNotTakenForAClaim(t *testing.T) {
	for _, state := range []ActState{0, -1, 6, 99} {
		acts := 0
		err := RunOn(t.Context(), nonsense{state: state}, Act{Key: "k"}, func(context.Context) error { acts++; return nil })
		if !errors.Is(err, ErrStoreUnavailable) || acts != 0 {
			t.Errorf("state %d: %v, %d acts", state, err, acts)
		}
	}
	for state, want := range map[ActState]string{0: "unknown", ActClaimed: "claimed", ActInFlight: "in flight", ActDone: "done", ActInDoubt: "in doubt", ActConflict: "conflict", 9: "invalid"} {
		if state.String() != want {
			t.Errorf("%d is %q", state, state)
		}
	}
}

type nonsense struct {
	Ledger
	state ActState
}

func (nonsense) Lookup(context.Context, Act) (ActState, error) { return 0, nil }
func (n nonsense) Reserve(context.Context, Act, time.Duration, bool) (Reservation, error) {
	return Reservation{State: n.state}, nil
}

// hubRig is an agent and a Hub that has its questions, with the clock of the
// machine.
type hubRig struct {
	*callbackRig
	hub    *ma2htest.Hub
	client *Client
}

func newHubRig(t testing.TB, opts ma2htest.Options, options ...func(*CallbackConfig, *VerifierConfig)) *hubRig {
	t.Helper()
	r := &hubRig{hub: ma2htest.NewHub(t, opts)}
	r.client = trustClient(t, r.hub, nil)
	all := append([]func(*CallbackConfig, *VerifierConfig){func(c *CallbackConfig, v *VerifierConfig) {
		c.Client = r.client
		v.Now = time.Now
		store := newSpyStore(t, time.Now)
		c.Ledger, v.Replay = store, store
	}}, options...)
	r.callbackRig = newCallbackRig(t, all...)
	r.store = r.Configured().Verifier.Configured().Replay.(*spyStore)
	return r
}

func (r *hubRig) ask(t testing.TB, key string) string {
	t.Helper()
	ack, err := r.client.Ask(t.Context(), Ask{
		Title: "Ship?", IdempotencyKey: key, AllowedResolvers: []string{"human:alice"}, State: types.Raw(`{"plan":"p1"}`),
		Request: Select(Option{Value: "ship", Label: "Ship"}, Option{Value: "hold", Label: "Hold"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ack.ID
}

func (r *hubRig) answer(t testing.TB, id, value string) {
	t.Helper()
	if err := r.hub.Answer(id, value, ma2htest.By("human:alice")); err != nil {
		t.Fatal(err)
	}
}

func (r *hubRig) task(t testing.TB, key string) string {
	t.Helper()
	ack, err := r.client.Task(t.Context(), Task{Title: "Rotate", IdempotencyKey: key, AllowedResolvers: []string{"human:alice"}, Action: Action{Instructions: "Rotate the key."}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.hub.Complete(ack.ID, ma2htest.By("human:alice")); err != nil {
		t.Fatal(err)
	}
	return ack.ID
}

// push is the body that the Hub pushes for a message, after edit.
func (r *hubRig) push(t testing.TB, id string, edit func(*types.Response)) string {
	t.Helper()
	m, err := r.client.Message(t.Context(), id)
	if err != nil || m.Response == nil {
		t.Fatal(m, err)
	}
	w := *Held(m.Response)
	if edit != nil {
		edit(&w)
	}
	b, err := types.Encode(w)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (r *hubRig) deliver(t testing.TB, body, jti string) Outcome {
	t.Helper()
	return r.Process(t.Context(), hubSigner{}.header(t, "response", body, time.Now().Unix(), jti), []byte(body))
}

func (r *hubRig) requests(endpoint string) int {
	n := 0
	for _, q := range r.hub.Requests() {
		if q.Endpoint == endpoint {
			n++
		}
	}
	return n
}

// req: PUL-11
// report: B109 B118
func TestAPushAndAPullOfOneDecisionActOnce(t *testing.T) {
	for _, first := range []string{"push", "pull"} {
		r := newHubRig(t, ma2htest.Options{})
		resumer, err := NewResumer(ResumeConfig{Client: r.client, Ledger: r.store, Act: func(ctx context.Context, resp *Response) error { return r.Configured().Handle(ctx, resp) }})
		if err != nil {
			t.Fatal(err)
		}
		id := r.ask(t, "k")
		r.answer(t, id, "ship")
		body := r.push(t, id, nil)
		push := func() bool {
			out := r.deliver(t, body, "j")
			if out.Status != 200 {
				t.Errorf("the push: %v %v", out, out.Err)
			}
			return out.Acted
		}
		pull := func() bool {
			_, err := resumer.Resume(t.Context(), Handle{MessageID: id, AgentID: trustAgent})
			if err != nil && !errors.Is(err, ErrAlreadyActed) {
				t.Errorf("the pull: %v", err)
			}
			return err == nil
		}
		steps := []func() bool{push, pull}
		if first == "pull" {
			slices.Reverse(steps)
		}
		if !steps[0]() || steps[1]() || steps[0]() || len(r.acts()) != 1 {
			t.Errorf("%s first: %d acts", first, len(r.acts()))
		}
	}
}

// req: PUL-12 RES-10
// report: B118
func TestConfirmedByGetTheHubsOwnAnswerCounts(t *testing.T) {
	confirm := func(c *CallbackConfig, _ *VerifierConfig) { c.ConfirmByGet = true }
	var got *Response
	r := newHubRig(t, ma2htest.Options{}, confirm, func(c *CallbackConfig, _ *VerifierConfig) {
		inner := c.Handle
		c.Handle = func(ctx context.Context, resp *Response) error { got = resp; return inner(ctx, resp) }
	})
	id := r.ask(t, "k")
	r.answer(t, id, "hold")
	edited := func(w *types.Response) { w.Response.Value = types.Raw(`"ship"`) }

	// A second decision is the Hub's fault, and nothing is done.
	other := r.push(t, id, func(w *types.Response) { w.ResolutionID = "res_other"; edited(w) })
	if out := r.deliver(t, other, "j1"); out.Status != 400 || !errors.Is(out.Err, ErrSecondResolution) || len(r.acts()) != 0 {
		t.Errorf("another resolution: %v", out)
	}
	r.store.diary()
	// Whatever keeps the message from being pulled is passing.
	body := r.push(t, id, edited)
	for _, fault := range []ma2htest.Fault{ma2htest.Status(404, 1), ma2htest.Status(401, 1), ma2htest.Status(410, 1), ma2htest.Status(403, 1), ma2htest.Status(200, 1, ma2htest.Body(`{}`))} {
		r.hub.Fault(fault.On(ma2htest.Pull))
		if out := r.deliver(t, body, "j2"); out.Status != 503 || out.RetryAfter == 0 || len(r.acts()) != 0 || r.store.diary() != nil {
			t.Errorf("a pull that fails: %v %v", out, out.Err)
		}
		r.hub.Heal()
	}
	// The push says ship, the Hub says hold.
	if out := r.deliver(t, body, "j3"); out.Status != 200 || len(r.acts()) != 1 || !got.Answered("hold") || !got.Pulled() {
		t.Errorf("a push that says otherwise: %v, %v", out, got)
	}
	// An open message is not acted on, however it is signed.
	open := r.ask(t, "k2")
	still := strings.ReplaceAll(body, id, open)
	if out := r.deliver(t, still, "j4"); out.Status != 503 || !errors.Is(out.Err, ErrOpen) || len(r.acts()) != 1 {
		t.Errorf("an open message: %v %v", out, out.Err)
	}
}

// req: SGR-05 SGR-06 VER-06
func TestAPushOf02IsOnlyActedOnByNameAndAsTheHubConfirmsIt(t *testing.T) {
	old := func(w *types.Response) { w.Version = "0.2"; w.Response.Value = types.Raw(`"ship"`) }
	r := newHubRig(t, ma2htest.Options{})
	id := r.ask(t, "k")
	r.answer(t, id, "hold")
	if out := r.deliver(t, r.push(t, id, old), "j"); out.Status != 400 || !errors.Is(out.Err, ErrUnboundPayload) || len(r.acts()) != 0 {
		t.Errorf("not by name: %v", out)
	}
	var got *Response
	allow := func(c *CallbackConfig, v *VerifierConfig) {
		v.AllowUnboundPayload = true
		c.Handle = func(_ context.Context, resp *Response) error { got = resp; return nil }
	}
	// A question that was sent at 0.3 has no answer at 0.2: not even the Hub's
	// own is acted on, as long as someone else may be between.
	r = newHubRig(t, ma2htest.Options{}, allow)
	id = r.ask(t, "k")
	r.answer(t, id, "hold")
	if out := r.deliver(t, r.push(t, id, old), "j"); out.Status != 400 || !errors.Is(out.Err, ErrUnboundPayload) || out.Acted || got != nil {
		t.Errorf("a downgrade: %v, %v", out, got)
	}
	if out := r.deliver(t, r.push(t, id, func(*types.Response) {}), "j2"); out.Status != 200 || !got.Answered("hold") {
		t.Errorf("the genuine push after it: %v, %v", out, got)
	}

	got = nil
	r = newHubRig(t, ma2htest.Options{Version: types.V02}, allow)
	id = r.ask(t, "k")
	r.answer(t, id, "hold")
	body := r.push(t, id, old)
	r.hub.Fault(ma2htest.Status(404, 1).On(ma2htest.Pull))
	if out := r.deliver(t, body, "j"); out.Status != 503 || got != nil {
		t.Errorf("unconfirmed: %v", out)
	}
	if out := r.deliver(t, body, "j"); out.Status != 200 || !got.Answered("hold") || !got.PayloadBound() || !got.Pulled() {
		t.Errorf("confirmed: %v, %v", out, got)
	}
}

// clockSigned signs a Response without detail as a Hub that puts its own clock
// where resolved_at is not on the wire.
func clockSigned(t testing.TB, body, jti string) http.Header {
	t.Helper()
	ts := strconv.FormatInt(time.Now().Unix(), 10)
	text := specContext(t, "response", body, trustURL, ts, jti)
	with := strings.Replace(text, `"resolved_at":null`, `"resolved_at":"2026-06-04T15:48:30.123Z"`, 1)
	if with == text {
		t.Fatal("the body has a detail")
	}
	return http.Header{"Ma2h-Signature": {"t=" + ts + ",jti=" + jti + ",v1=" + hubSigner{}.mac(with)}, "Content-Type": {"application/json"}}
}

// req: AMB-03
// report: B072
func TestATaskResultWithoutDetailIsVerifiedOrPulledAndNeverGuessed(t *testing.T) {
	bare := func(w *types.Response) { w.Response = nil }
	t.Run("signed with null it needs no pull", func(t *testing.T) {
		r := newHubRig(t, ma2htest.Options{})
		id := r.task(t, "k")
		body := r.push(t, id, bare)
		pulls := r.requests(ma2htest.Pull)
		if out := r.deliver(t, body, "j"); out.Status != 200 || !out.Acted || r.requests(ma2htest.Pull) != pulls {
			t.Errorf("%v %v", out, out.Err)
		}
	})
	t.Run("signed with a clock it is pulled and acted on once", func(t *testing.T) {
		var got *Response
		r := newHubRig(t, ma2htest.Options{}, func(c *CallbackConfig, _ *VerifierConfig) {
			inner := c.Handle
			c.Handle = func(ctx context.Context, resp *Response) error { got = resp; return inner(ctx, resp) }
		})
		id := r.task(t, "k")
		body := r.push(t, id, bare)
		r.hub.Fault(ma2htest.Status(403, 1).On(ma2htest.Pull))
		if out := r.Process(t.Context(), clockSigned(t, body, "j"), []byte(body)); out.Status != 503 || len(r.acts()) != 0 {
			t.Errorf("a pull that fails: %v", out)
		}
		r.store.diary()
		for i := range 3 {
			out := r.Process(t.Context(), clockSigned(t, body, "j"), []byte(body))
			if out.Status != 200 || out.Acted != (i == 0) || len(r.acts()) != 1 || !got.Pulled() || got.Resolution() != Completed {
				t.Errorf("%v %v, %d acts, %v", out, out.Err, len(r.acts()), got)
			}
		}
		// Nothing that was not proved is remembered.
		if d := r.store.diary(); slices.Contains(d, "ClaimJTI") {
			t.Errorf("store calls %v", d)
		}
	})
	t.Run("without a Client it is answered 503", func(t *testing.T) {
		r := newHubRig(t, ma2htest.Options{}, func(c *CallbackConfig, _ *VerifierConfig) { c.Client = nil })
		body := r.push(t, r.task(t, "k"), bare)
		out := r.Process(t.Context(), clockSigned(t, body, "j"), []byte(body))
		if out.Status != 503 || !errors.Is(out.Err, ErrStoreUnavailable) || len(r.acts()) != 0 || r.store.diary() != nil {
			t.Errorf("%v %v", out, out.Err)
		}
	})
	t.Run("a forged one acts on nothing", func(t *testing.T) {
		r := newHubRig(t, ma2htest.Options{}, func(c *CallbackConfig, _ *VerifierConfig) {
			c.Expect = func(_ context.Context, id string) (bool, error) { return id != "msg_unsent", nil }
		})
		id := r.task(t, "k")
		open := r.ask(t, "k2")
		body := r.push(t, id, bare)
		forge := func(old, new string) string { return strings.Replace(body, old, new, 1) }
		pulls := r.requests(ma2htest.Pull)
		for _, row := range []struct {
			name, body string
			status     int
			pulls      int
		}{
			{"of another resolution", forge(`"resolution_id":"`, `"resolution_id":"x`), 401, 1},
			{"of an unknown message", forge(id, "msg_unknown"), 401, 1},
			{"of a message that is open", forge(id, open), 503, 1},
			{"of a message that was not sent", forge(id, "msg_unsent"), 404, 0},
			{"of a forbidden shape", forge(`"completed"`, `"answered"`), 401, 0},
			{"of another version", forge(`"0.3"`, `"0.2"`), 400, 0},
		} {
			if row.body == body {
				t.Fatalf("%s: nothing changed", row.name)
			}
			out := r.Process(t.Context(), clockSigned(t, row.body, "j"), []byte(row.body))
			if n := r.requests(ma2htest.Pull) - pulls; out.Status != row.status || n != row.pulls || len(r.acts()) != 0 || r.store.diary() != nil {
				t.Errorf("%s: %v %v, %d pulls, %d acts", row.name, out, out.Err, n, len(r.acts()))
			}
			pulls = r.requests(ma2htest.Pull)
		}
		// One with detail, or with a bad header, is never a reason to pull.
		full := r.push(t, id, func(w *types.Response) {
			w.Response = &types.ResponseDetail{Actor: "human:alice", ResolvedAt: "2026-06-04T15:48:30Z"}
		})
		pulls = r.requests(ma2htest.Pull)
		forger := hubSigner{secret: "the secret of a forger"}
		if out := r.Process(t.Context(), forger.header(t, "response", full, time.Now().Unix(), "j"), []byte(full)); out.Status != 401 {
			t.Errorf("%v", out)
		}
		for _, head := range []string{"", "t=1", forger.value(t, "response", body, time.Now().Unix()-200, "j")} {
			if out := r.Process(t.Context(), http.Header{"Ma2h-Signature": {head}}, []byte(body)); out.Status != 401 {
				t.Errorf("%v", out)
			}
		}
		if n := r.requests(ma2htest.Pull) - pulls; n != 0 || len(r.acts()) != 0 {
			t.Errorf("%d pulls, %d acts", n, len(r.acts()))
		}
	})
	t.Run("few are pulled at a time", func(t *testing.T) {
		r := newHubRig(t, ma2htest.Options{})
		body := r.push(t, r.task(t, "k"), bare)
		for range MaxPulls {
			r.Unproven() <- struct{}{}
		}
		if out := r.Process(t.Context(), clockSigned(t, body, "j"), []byte(body)); out.Status != 503 || !errors.Is(out.Err, ErrUnavailable) || len(r.acts()) != 0 {
			t.Errorf("%v %v", out, out.Err)
		}
		for range MaxPulls {
			<-r.Unproven()
		}
		for range 2 * MaxPulls { // and each gives its place back
			if out := r.Process(t.Context(), clockSigned(t, body, "j"), []byte(body)); out.Status != 200 {
				t.Errorf("%v %v", out, out.Err)
			}
		}
	})
}

// req: ACK-02 AMB-33
func TestAnAnswerThatWasActedOnIsAcknowledgedBesideTheAnswerToTheHub(t *testing.T) {
	note := func(*Response) string { return "on it" }
	r := newHubRig(t, ma2htest.Options{}, func(c *CallbackConfig, _ *VerifierConfig) {
		c.Acknowledge = func(resp *Response) string { return note(resp) }
	})
	wait := func() {
		t.Helper()
		if err := r.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.Reopen()
	}
	id := r.ask(t, "k")
	r.answer(t, id, "ship")
	body := r.push(t, id, nil)
	r.act = func(context.Context, *Response) error { return errors.New("no") }
	if out := r.deliver(t, body, "j"); out.Status != 503 {
		t.Errorf("%v", out)
	}
	wait()
	if n := r.requests(ma2htest.Ack); n != 0 {
		t.Errorf("%d acknowledgments of an act that failed", n)
	}
	r.act = nil
	if out := r.deliver(t, body, "j"); out.Status != 200 {
		t.Errorf("%v", out)
	}
	wait()
	m, err := r.client.Message(t.Context(), id)
	if err != nil || m.Wire.Delivery == nil || m.Wire.Delivery.Ack == nil || m.Wire.Delivery.Ack.Note != "on it" {
		t.Errorf("%+v, %v", m, err)
	}
	// One that cannot be sent, or that panics, is logged and undoes nothing.
	for name, f := range map[string]func(*Response) string{
		"panics":      func(*Response) string { panic("CANARY") },
		"is too long": func(*Response) string { return strings.Repeat("ö", MaxNote) },
		"is refused":  func(*Response) string { r.hub.Fault(ma2htest.Status(403, 1).On(ma2htest.Ack)); return "" },
	} {
		note = f
		id := r.ask(t, name)
		r.answer(t, id, "ship")
		if out := r.deliver(t, r.push(t, id, nil), "j"+strings.ReplaceAll(name, " ", "_")); out.Status != 200 || !out.Acted {
			t.Errorf("a note that %s: %v", name, out)
		}
		wait()
		m, err := r.client.Message(t.Context(), id)
		if err != nil || (m.Wire.Delivery.Ack != nil) != (name == "is too long") {
			t.Errorf("a note that %s: %+v, %v", name, m.Wire.Delivery, err)
		}
		if name == "is too long" && m.Wire.Delivery.Ack.Note != strings.Repeat("ö", MaxNote/2) {
			t.Errorf("the note was cut to %d bytes", len(m.Wire.Delivery.Ack.Note))
		}
	}
	if log := r.log.String(); strings.Contains(log, "CANARY") || !strings.Contains(log, ErrPanicked.Error()) || !strings.Contains(log, "not acknowledged") {
		t.Errorf("the log says %s", log)
	}
}
