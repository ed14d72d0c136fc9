package ma2h_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	. "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

// A webhook leaves the directive in its mailbox, so what was done there is
// acknowledged there, and nothing else is.
//
// req: INB-11
func TestADirectiveThatWasActedOnIsTakenOutOfItsMailbox(t *testing.T) {
	caps := `{"ma2h_version":"0.4","inbound":{"enabled":true}}`
	directive := hubSigner{}.header(t, "directive", trustDirective, trustUnix, "d")
	for name, row := range map[string]struct {
		act    error // of the handler
		before bool  // it was acted on before
		status int   // of the acknowledgment
		want   int
		acks   int64
	}{
		"acted on":                        {nil, false, 200, 200, 1},
		"acted on before":                 {nil, true, 200, 200, 1},
		"not acted on":                    {errors.New("no"), false, 200, 503, 0},
		"acted on and not acknowledged":   {nil, false, 403, 200, 1},
		"not acted on, as if it had been": {ErrAlreadyActed, false, 200, 503, 0},
		"of unknown outcome":              {ErrOutcomeUnknown, false, 200, 503, 0},
	} {
		hub := always(row.status, "{}")
		cfg := over(roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/ma2h") {
				return canned(200, caps), nil
			}
			return hub.RoundTrip(r)
		}))
		cfg.Agent.ID = trustAgent
		client := connect(t, cfg)
		r := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) {
			c.Client = client
			inner := c.HandleDirective
			c.HandleDirective = func(ctx context.Context, d *Directive) error {
				if row.act != nil {
					return row.act
				}
				return inner(ctx, d)
			}
		})
		if row.before {
			act := Act{Key: ActKey("directive", trustAgent, "dir_1")}
			if err := r.store.Store.Commit(t.Context(), act, reserve(t, r.store, act)); err != nil {
				t.Fatal(err)
			}
		}
		out := r.Process(t.Context(), directive, []byte(trustDirective))
		if err := r.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if out.Status != row.want || out.Acted != (row.want == 200 && !row.before) || row.act != nil && !errors.Is(out.Err, row.act) || hub.calls.Load() != row.acks {
			t.Errorf("%s: %v %v, %d acknowledgments", name, out, out.Err, hub.calls.Load())
		}
		if said := strings.Contains(r.log.String(), "not acknowledged"); said != (row.status != 200) || strings.Contains(r.log.String(), ErrPanicked.Error()) {
			t.Errorf("%s: the log says %s", name, r.log)
		}
	}
	// Without a Client it stays where it is.
	r := newCallbackRig(t)
	if out := r.Process(t.Context(), directive, []byte(trustDirective)); out.Status != 200 || !out.Acted {
		t.Errorf("without a Client: %v", out)
	}
	if err := r.Shutdown(t.Context()); err != nil || strings.Contains(r.log.String(), ErrPanicked.Error()) {
		t.Errorf("%v, log %s", err, r.log)
	}
}

func TestAnAcknowledgmentThatSucceedsIsNotWorthALine(t *testing.T) {
	r := newHubRig(t, ma2htest.Options{}, func(c *CallbackConfig, _ *VerifierConfig) {
		c.Acknowledge = func(*Response) string { return "on it" }
	})
	id := r.ask(t, "k")
	r.answer(t, id, "ship")
	if out := r.deliver(t, r.push(t, id, nil), "j"); out.Status != 200 {
		t.Errorf("%v", out)
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log := r.log.String(); r.requests(ma2htest.Ack) != 1 || strings.Contains(log, "not acknowledged") || strings.Contains(log, ErrPanicked.Error()) {
		t.Errorf("%d acknowledgments, log %s", r.requests(ma2htest.Ack), log)
	}
	// A message that cannot be read is not acknowledged.
	r.Reopen()
	id = r.ask(t, "k2")
	r.answer(t, id, "ship")
	body := r.push(t, id, nil)
	r.hub.Fault(ma2htest.Status(403, 1).On(ma2htest.Pull))
	if out := r.deliver(t, body, "j2"); out.Status != 200 {
		t.Errorf("%v", out)
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log := r.log.String(); r.requests(ma2htest.Ack) != 1 || !strings.Contains(log, "not acknowledged") {
		t.Errorf("%d acknowledgments, log %s", r.requests(ma2htest.Ack), log)
	}
}

// What nobody has proved chooses no path at the Hub, and no message that it
// does not name in the form of one.
//
// req: HND-10
// report: B069
func TestAForgedResultIsPulledOnlyUnderAnIdThatMayBeOne(t *testing.T) {
	forger := hubSigner{secret: "the secret of a forger"}
	for id, asked := range map[string]int64{
		"msg_1": 1, "msg!1": 1, "~": 1, "a.b": 1, "ä": 1,
		"a/b": 0, "../ack": 0, `a\\b`: 0, "a b": 0, "\\u0000": 0, "a\\n": 0, "\u007f": 0,
	} {
		for status, want := range map[int]int{404: 401, 410: 401, 500: 503} {
			hub := always(status, "{}")
			cfg := hub.config()
			cfg.Agent.ID = trustAgent
			r := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) { c.Client = connect(t, cfg) })
			body := `{"ma2h_version":"0.3","in_reply_to":"` + id + `","resolution_id":"r","agent":{"id":"a","run_id":"r"},"resolution":"completed"}`
			out := r.Process(t.Context(), forger.header(t, "response", body, trustUnix, "j"), []byte(body))
			if asked == 0 {
				want = 401
			}
			if out.Status != want || hub.calls.Load() != asked || len(r.acts()) != 0 || r.store.diary() != nil {
				t.Errorf("%q at %d: %v %v, %d calls", id, status, out, out.Err, hub.calls.Load())
			}
		}
	}
	// A part that reads like a result does not make one of what does not decode.
	hub := always(404, "{}")
	cfg := hub.config()
	cfg.Agent.ID = trustAgent
	r := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) { c.Client = connect(t, cfg) })
	body := `{"ma2h_version":"0.3","in_reply_to":"m","resolution_id":"r","agent":{"id":"a","run_id":"r"},"resolution":"completed","defaulted":7}`
	if out := r.Process(t.Context(), forger.header(t, "response", body, trustUnix, "j"), []byte(body)); out.Status != 401 || hub.calls.Load() != 0 {
		t.Errorf("%v %v, %d calls", out, out.Err, hub.calls.Load())
	}
}
