package ma2htest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

const hookURL = "https://bot.example/ma2h/directives"

// hook is a webhook that answers as the test says and keeps what came.
type hook struct {
	answers []int // 200 after the last
	headers []http.Header
	bodies  []string
	act     func(body []byte)
}

func (k *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	k.headers, k.bodies = append(k.headers, r.Header.Clone()), append(k.bodies, string(b))
	if k.act != nil {
		k.act(b)
	}
	status := http.StatusOK
	if n := len(k.bodies); n <= len(k.answers) {
		status = k.answers[n-1]
	}
	w.WriteHeader(status)
}

func (a *agent) register(handler http.Handler) {
	a.t.Helper()
	a.hub.ServeCallback(hookURL, handler)
	if err := a.hub.RegisterDirectiveWebhook(bot, hookURL); err != nil {
		a.t.Fatal(err)
	}
}

// callback is an agent's webhook on the same verifier and ledger as its inbox.
func (a *agent) callback() *ma2h.CallbackHandler {
	a.t.Helper()
	h, err := ma2h.NewCallbackHandler(ma2h.CallbackConfig{
		Verifier: a.verifier, Ledger: a.ledger, SingleReplica: true,
		HandleDirective: a.handle, Authorize: ma2h.AllowFrom(alice),
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return h
}

// req: HND-09 SGD-02 SGD-03 AMB-10 AMB-26
func TestADirectiveIsPushedBareWithASignatureThatIsNewAtEachAttempt(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		k := &hook{answers: []int{503, 500}}
		a.register(k)
		id := a.send("pause deploys")[0]
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(k.bodies) != 3 {
			t.Fatalf("%d attempts", len(k.bodies))
		}
		d, _ := a.hub.Directive(id)
		signatures := make(map[string]bool)
		for i, h := range k.headers {
			s := h["Ma2h-Signature"]
			if len(s) != 1 || !strings.HasPrefix(s[0], "t=") || k.bodies[i] != string(d.Wire) || h.Get("Content-Type") != "application/json" {
				t.Fatalf("attempt %d: signature %q, body %s", i, s, k.bodies[i])
			}
			if h.Get("Authorization") != "" || h.Get("X-Api-Key") != "" {
				t.Fatal("a credential that nobody registered")
			}
			signatures[s[0]] = true
		}
		if len(signatures) != 3 {
			t.Fatalf("%d signatures", len(signatures))
		}
		pushes := a.hub.DirectivePushes(id)
		if len(pushes) != 3 || pushes[2].Status != 200 || pushes[0].Status != 503 || len(a.hub.Pushes(id)) != 0 {
			t.Fatalf("%+v", pushes)
		}
	})
}

// req: HND-09 FH-07
func TestAWebhooksAnswerDecidesOnTheTriesAndNeverOnTheMailbox(t *testing.T) {
	for name, row := range map[string]struct {
		answers  []int
		attempts int
		state    types.DeliveryState
	}{
		"taken":           {nil, 1, ma2htest.Delivered},
		"refused":         {[]int{400}, 1, ma2htest.Queued},
		"redirected":      {[]int{307}, 1, ma2htest.Queued},
		"failed at first": {[]int{503}, 2, ma2htest.Delivered},
		"failed for good": {[]int{503, 503, 503, 503, 503, 503, 503, 503, 503}, 8, ma2htest.Queued},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, a *agent) {
				k := &hook{answers: row.answers}
				a.register(k)
				id := a.send("pause deploys")[0]
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if len(k.bodies) != row.attempts {
					t.Fatalf("%d attempts, want %d", len(k.bodies), row.attempts)
				}
				a.hub.RequireDelivery(t, id, row.state)
				entries, err := a.inbox.Drain(t.Context(), ma2h.DrainOptions{})
				if err != nil || len(entries) != 1 || entries[0].ID() != id {
					t.Fatalf("drained %d entries, %v", len(entries), err)
				}
			})
		})
	}
}

// req: FH-12 ACK-06
func TestWhatAWebhookWasGivenMayBeAcknowledgedAndIsPushedNoMore(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		k := &hook{answers: []int{503, 503, 503, 503, 503}}
		k.act = func(body []byte) {
			var d types.Directive
			if err := types.Decode(body, &d); err != nil {
				t.Error(err)
			}
			if err := a.inbox.Ack(t.Context(), []string{d.ID}, "on it"); err != nil {
				t.Error(err)
			}
		}
		a.register(k)
		id := a.send("pause deploys")[0]
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(k.bodies) != 1 {
			t.Fatalf("%d attempts", len(k.bodies))
		}
		a.hub.RequireDelivery(t, id, types.Acknowledged)
	})
	with(t, func(t *testing.T, a *agent) {
		a.hub.Fault(ma2htest.ResetBefore(0).On(ma2htest.PushCallback)) // never sent
		a.register(&hook{})
		id := a.send("pause deploys")[0]
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := a.inbox.Ack(t.Context(), []string{id}, ""); err != nil {
			t.Fatal(err)
		}
		a.hub.RequireDelivery(t, id, ma2htest.Queued)
	})
}

func TestADirectiveThatHasExpiredIsPushedNoMore(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		k := &hook{answers: []int{503, 503, 503, 503, 503}}
		a.register(k)
		if _, err := a.hub.SendDirective(bot, ma2htest.DirectiveDraft{Title: "x", ExpiresAt: time.Now().Add(2 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(k.bodies) != 2 {
			t.Fatalf("%d attempts, want those at 0 s and 1 s", len(k.bodies))
		}
	})
}

func TestAWebhookGetsTheDirectivesOfItsAgentWhileItIsRegistered(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		k := &hook{}
		before := a.send("before")[0]
		a.register(k)
		during := a.send("during")[0]
		if _, err := a.hub.SendDirective("other", ma2htest.DirectiveDraft{Title: "theirs"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := a.hub.RegisterDirectiveWebhook(bot, ""); err != nil {
			t.Fatal(err)
		}
		after := a.send("after")[0]
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(k.bodies) != 1 || !strings.Contains(k.bodies[0], during) {
			t.Fatalf("pushed %q", k.bodies)
		}
		for _, id := range []string{before, after} {
			a.hub.RequireDelivery(t, id, ma2htest.Queued)
		}
	})
}

// req: FH-08
func TestAWebhookThatAHubMayNotSendToIsNotRegistered(t *testing.T) {
	hub := ma2htest.NewHub(t)
	for _, url := range []string{"http://bot.example/x", "https://u:p@bot.example/x", "bot.example", "https://"} {
		if err := hub.RegisterDirectiveWebhook(bot, url); !errors.Is(err, ma2htest.ErrInvalid) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if err := hub.RegisterDirectiveWebhook(bot, hookURL); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]ma2htest.Options{
		"no mailboxes": {Version: types.V03},
		"no webhooks":  {Capability: func(c *types.Capability) { c.Inbound.WebhookSupported = false }},
	} {
		if err := ma2htest.NewHub(t, opts).RegisterDirectiveWebhook(bot, hookURL); !errors.Is(err, ma2htest.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// req: FH-08
func TestAWebhookAtAPrivateAddressIsRefusedAtDelivery(t *testing.T) {
	hub := ma2htest.NewHub(t, ma2htest.Options{Start: time.Unix(1780574400, 0)})
	if err := hub.RegisterDirectiveWebhook(bot, "https://169.254.169.254/x"); err != nil {
		t.Fatal(err)
	}
	id, err := hub.SendDirective(bot, ma2htest.DirectiveDraft{Title: "pause deploys"})
	if err != nil {
		t.Fatal(err)
	}
	hub.Advance(time.Hour)
	if p := hub.DirectivePushes(id); len(p) != 1 || !errors.Is(p[0].Err, ma2htest.ErrPushRefused) {
		t.Fatalf("%+v", p)
	}
	hub.RequireDelivery(t, id, ma2htest.Queued)
}

// req: HND-09 INB-08 INB-05 SGD-02
// report: B093
func TestAPushedDirectiveIsActedOnOnlyIfItIsGenuineAndForThisAgent(t *testing.T) {
	for name, row := range map[string]struct {
		fault  ma2htest.Fault
		status int
		acted  bool
	}{
		"genuine":           {ma2htest.WrongAddressee(1).On(ma2htest.Drain), 200, true}, // no drain, no fault
		"unknown member":    {ma2htest.InjectMember(1, "x_prompt", `"obey"`).On(ma2htest.PushCallback), 200, true},
		"another addressee": {ma2htest.WrongAddressee(1).On(ma2htest.PushCallback), 403, false},
		"forbidden member":  {ma2htest.InjectMember(1, "action", `{}`).On(ma2htest.PushCallback), 400, false},
		"content changed":   {ma2htest.TamperPayload(1), 401, false},
		"bad signature":     {ma2htest.CorruptSignature(1), 401, false},
		"no signature":      {ma2htest.DropSignature(1), 401, false},
		"old":               {ma2htest.SkewedT(1, -121*time.Second), 401, false},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, a *agent) {
				a.hub.Fault(row.fault)
				a.register(a.callback())
				id := a.send("pause deploys")[0]
				time.Sleep(time.Hour)
				synctest.Wait()
				pushes := a.hub.DirectivePushes(id)
				if len(pushes) != 1 || pushes[0].Status != row.status {
					t.Fatalf("%+v", pushes)
				}
				if row.acted {
					a.wantActed("pause deploys")
				} else {
					a.wantActed()
				}
			})
		})
	}
}

// req: INB-11 INB-13
func TestAWebhookAndADrainThatRaceActOnce(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		a.slow = time.Second // so that both have each before either is done
		callback := a.callback()
		a.register(callback)
		titles := []string{"1", "2", "3", "4", "5", "6", "7", "8"}
		sent := make(chan []string, 1)
		go func() { sent <- a.send(titles...) }()
		a.consume(10*time.Minute, func(o *ma2h.ConsumeOptions) { o.Concurrency = 4 })
		if err := callback.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		slices.Sort(a.acted)
		a.wantActed(titles...)
		for _, id := range <-sent {
			a.hub.RequireDelivery(t, id, types.Acknowledged)
			if n := len(a.hub.DirectivePushes(id)); n == 0 {
				t.Fatalf("%s was not pushed", id)
			}
		}
	})
}
