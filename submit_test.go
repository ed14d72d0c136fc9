package ma2h_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// attempts are the bodies of the submits of each idempotency key, in order.
func attempts(t testing.TB, hub *ma2htest.Hub) map[string][][]byte {
	t.Helper()
	out := map[string][][]byte{}
	for _, r := range hub.Requests() {
		if r.Endpoint != ma2htest.Submit {
			continue
		}
		var m types.Message
		mustNot(t, types.Decode(r.Body, &m))
		out[m.IdempotencyKey] = append(out[m.IdempotencyKey], r.Body)
	}
	return out
}

// report: B003 B009 B010 B016
// req: SUB-06 SUB-12 SUB-13 RL-01 RL-02
func TestUnderAnyFaultsEachSubmitIsOneMessageAndAllItsAttemptsTheSameBytes(t *testing.T) {
	const workers, each = 10, 200
	synctest.Test(t, func(t *testing.T) {
		hub := ma2htest.NewHub(t, ma2htest.Options{KeepRequests: 100_000})
		status := func(code int, opts ...ma2htest.StatusOption) ma2htest.Fault { return ma2htest.Status(code, 1, opts...) }
		after := func(v string) ma2htest.StatusOption { return ma2htest.RetryAfter(v) }
		date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		mix := []ma2htest.Chance{
			{Weight: 8, Fault: ma2htest.LoseAck(1)}, {Weight: 8, Fault: ma2htest.ResetBefore(1)}, {Weight: 8, Fault: ma2htest.ResetAfter(1)},
			{Weight: 8, Fault: ma2htest.TornBody(1, 6)}, {Weight: 3, Fault: ma2htest.TornBody(1, 0)}, {Weight: 3, Fault: ma2htest.TornBody(1, 1<<20)},
			{Weight: 2, Fault: ma2htest.Hang(1)}, {Weight: 2, Fault: ma2htest.Delay(1, time.Minute)},
			{Weight: 3, Fault: status(408)}, {Weight: 3, Fault: status(425)},
			{Weight: 2, Fault: status(500)}, {Weight: 2, Fault: status(502, ma2htest.ContentType("text/html"), ma2htest.Body("<html>"))},
			{Weight: 2, Fault: status(503, after("7"))}, {Weight: 2, Fault: status(504, ma2htest.Body(""))},
		}
		for _, v := range []string{date(time.Hour), date(-time.Hour), "0", "-5", "1.5", " 3 ", "", "soon", "90"} {
			mix = append(mix, ma2htest.Chance{Weight: 1, Fault: status(429, after(v))})
		}
		mix = append(mix, ma2htest.Chance{Weight: 1, Fault: status(429)})
		hub.Fault(ma2htest.RandomFaults(7, 50, mix...))

		cfg := hub.Config(asker)
		wire := &bodies{base: cfg.HTTPClient.Transport}
		cfg.HTTPClient = &http.Client{Transport: wire}
		c := connect(t, cfg)
		var mu sync.Mutex
		ids := map[string]string{}
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(w), 1))
				for i := range each {
					key := fmt.Sprintf("k-%d-%d", w, i)
					id, verb, err := randomSubmit(t.Context(), c, r, key)
					if err != nil {
						t.Errorf("%s %s: %v", verb, key, err)
						return
					}
					mu.Lock()
					ids[key] = id
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		hub.RequireMessages(t, workers*each)
		for _, m := range hub.Messages() {
			var sent types.Message
			mustNot(t, types.Decode(m.Submitted, &sent))
			if ids[sent.IdempotencyKey] != m.ID {
				t.Fatalf("%s got id %s, the Hub holds %s", sent.IdempotencyKey, ids[sent.IdempotencyKey], m.ID)
			}
		}
		total := 0
		for key, all := range attempts(t, hub) {
			total += len(all)
			for _, b := range all[1:] {
				if !bytes.Equal(b, all[0]) {
					t.Fatalf("the attempts of %s differ", key)
				}
			}
		}
		if total < workers*each*3/2 {
			t.Errorf("only %d attempts: the faults did not strike", total)
		}
		if n := wire.open.Load(); n != 0 {
			t.Errorf("%d of %d bodies are open", n, wire.requests.Load())
		}
		t.Logf("%d messages took %d attempts", workers*each, total)
	})
}

func randomSubmit(ctx context.Context, c *ma2h.Client, r *rand.Rand, key string) (id, verb string, err error) {
	text := strings.Repeat("é<>&\u2028\"\\", r.IntN(200))
	part, err := ma2h.Data(map[string]any{"x": r.Float64(), "y": text, "z": []int{1, 2, 3}})
	if err != nil {
		return "", "", err
	}
	var ack *ma2h.Ack
	switch r.IntN(3) {
	case 0:
		verb = "notify"
		ack, err = c.Notify(ctx, ma2h.Notify{Title: "n", Body: text, IdempotencyKey: key, Context: []ma2h.Part{part}})
	case 1:
		verb = "ask"
		a := shipOrHold(key)
		a.Body, a.Context, a.Priority = text, []ma2h.Part{part, ma2h.Text(text + "x")}, ma2h.High
		a.State = types.Raw(`{"s":` + strconv.Itoa(r.IntN(1e9)) + `}`)
		ack, err = c.Ask(ctx, a)
	default:
		verb = "task"
		task := rotate(key)
		task.Tags = []string{text + "t"}
		ack, err = c.Task(ctx, task)
	}
	if err != nil {
		return "", verb, err
	}
	return ack.ID, verb, nil
}

// report: B013 B016
func TestLostAcksOverTLSMakeOneMessage(t *testing.T) {
	t.Parallel()
	hub := ma2htest.NewHub(t)
	cfg := hub.ConfigTLS(asker)
	wire := &bodies{base: cfg.HTTPClient.Transport}
	cfg.HTTPClient = &http.Client{Transport: wire}
	c := connect(t, cfg)
	mustAsk(t, c, shipOrHold("warm"))
	hub.Fault(ma2htest.LoseAck(1))
	id := mustAsk(t, c, shipOrHold("k"))
	hub.RequireMessages(t, 2)
	all := attempts(t, hub)["k"]
	if len(all) != 2 || !bytes.Equal(all[0], all[1]) || hub.Messages()[1].ID != id {
		t.Errorf("%d attempts", len(all))
	}
	if wire.open.Load() != 0 {
		t.Error("a body is open")
	}
}

// report: B013
func TestAKeptConnectionThatDiesUnderASubmitMakesOneMessage(t *testing.T) {
	t.Parallel()
	hub := ma2htest.NewHub(t)
	// HTTP/1.1 and keep-alive; every second submit is read and then cut, once
	// after the Hub took it and once before.
	var hits atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/messages" {
			switch hits.Add(1) {
			case 2:
				hub.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			case 4:
				_, _ = io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler)
			}
		}
		hub.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = nil
	defer server.Close()
	cfg := hub.Config(asker)
	own := &http.Transport{}
	defer own.CloseIdleConnections()
	cfg.HubURL, cfg.AllowInsecureLoopback, cfg.HTTPClient = server.URL, true, &http.Client{Transport: own}
	c := connect(t, cfg)
	for _, key := range []string{"1", "2", "3"} {
		mustAsk(t, c, shipOrHold(key))
	}
	hub.RequireMessages(t, 3)
	if hits.Load() != 5 {
		t.Errorf("%d submits reached the server", hits.Load())
	}
	for key, all := range attempts(t, hub) {
		for _, b := range all {
			if !bytes.Equal(b, all[0]) {
				t.Errorf("the attempts of %s differ", key)
			}
		}
	}
}

// A key that nobody gave is made once for a question, and anew for the next.
//
// req: SUB-15
// report: B016
func TestAKeyOfOurOwnIsTheSameInEachAttempt(t *testing.T) {
	typed := ask("")
	for name, once := range map[string]func(context.Context, *ma2h.Client) error{
		"Approve": func(ctx context.Context, c *ma2h.Client) error {
			v, err := c.Approve(ctx, ma2h.Approval{Title: "Drop table users?", By: []string{alice}})
			if err == nil && !v.Approved() {
				err = errors.New("not approved")
			}
			return err
		},
		"AskFor": func(ctx context.Context, c *ma2h.Client) error {
			_, err := ma2h.AskFor[held](ctx, c, typed)
			return err
		},
	} {
		bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			for n := range 2 {
				hub.Fault(ma2htest.LoseAck(2))
				go func() {
					m, err := hub.Next(t.Context())
					if err == nil && name == "Approve" {
						err = hub.Answer(m.ID, "approve", ma2htest.By(alice))
					} else if err == nil {
						err = hub.Answer(m.ID, held{Reason: "risk", Hours: 1}, ma2htest.By(alice))
					}
					if err != nil {
						t.Error(err)
					}
				}()
				if err := once(t.Context(), c); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				hub.RequireMessages(t, n+1)
			}
			sent := attempts(t, hub)
			if len(sent) != 2 || len(sent[""]) != 0 {
				t.Fatalf("%s: %d keys", name, len(sent))
			}
			for key, all := range sent {
				if len(all) != 3 || !bytes.Equal(all[0], all[1]) || !bytes.Equal(all[0], all[2]) {
					t.Errorf("%s: %d attempts under %s, or not of the same bytes", name, len(all), key)
				}
			}
		})
	}
}

// report: B022
// req: SUB-06
func TestManySendersOfOneQuestionGetOneId(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := ma2htest.NewHub(t)
		hub.Fault(ma2htest.LoseAck(20))
		c := connect(t, hub.Config(asker))
		var ids sync.Map
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				time.Sleep(time.Duration(i%7) * time.Millisecond)
				ack, err := c.Ask(t.Context(), shipOrHold("k"))
				if err != nil {
					t.Error(err)
					return
				}
				ids.Store(ack.ID, true)
			})
		}
		wg.Wait()
		n := 0
		ids.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d ids", n)
		}
		hub.RequireMessages(t, 1)
	})
}

// report: B019
// req: SUB-07 SUB-12
func TestAConflictIsFinalAndTheKeyStaysWithTheFirst(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		mustAsk(t, c, shipOrHold("k"))
		for name, edit := range map[string]func(*ma2h.Ask){
			"another title":    func(a *ma2h.Ask) { a.Title += "!" },
			"another state":    func(a *ma2h.Ask) { a.State = types.Raw(`{}`) },
			"a new created_at": func(*ma2h.Ask) { time.Sleep(time.Second) },
		} {
			before := count(hub, ma2htest.Submit)
			a := shipOrHold("k")
			edit(&a)
			// Another process, which knows nothing of the first.
			_, err := connect(t, hub.Config(asker)).Ask(t.Context(), a)
			conflict, ok := errors.AsType[*ma2h.ConflictError](err)
			if !ok || conflict.Key != "k" || conflict.API.Status != 409 {
				t.Fatalf("%s: %v", name, err)
			}
			wants(t, err, ma2h.ErrIdempotencyConflict)
			if errors.Is(err, ma2h.ErrOutcomeUnknown) {
				t.Errorf("%s: a conflict is no doubt", name)
			}
			hub.RequireRequests(t, ma2htest.Submit, before+1)
		}
		hub.RequireMessages(t, 1)
		// A lost ack does not make it a doubt either.
		hub.Fault(ma2htest.ResetBefore(1))
		_, err := connect(t, hub.Config(asker)).Ask(t.Context(), shipOrHold("k"))
		if _, ok := errors.AsType[*ma2h.ConflictError](err); !ok {
			t.Errorf("%v", err)
		}
		// In one process another question is refused before it is sent, and the
		// same one, asked again, is the same message.
		before := count(hub, ma2htest.Submit)
		other := shipOrHold("k")
		other.Title += "!"
		_, err = c.Ask(t.Context(), other)
		if mismatch, ok := errors.AsType[*ma2h.OutboxMismatchError](err); !ok || !slices.Equal(mismatch.Fields, []string{"title"}) {
			t.Errorf("%v", err)
		}
		wants(t, err, ma2h.ErrIdempotencyConflict)
		hub.RequireRequests(t, ma2htest.Submit, before)
		time.Sleep(time.Second)
		mustAsk(t, c, shipOrHold("k"))
		hub.RequireMessages(t, 1)
	})
}

// req: SUB-06
func TestAReplayCarriesTheStatusOfNow(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, _ *ma2h.Client) {
		at := time.Now()
		edit := func(cfg *ma2h.Config) { cfg.Now = func() time.Time { return at }; cfg.Agent.RunID = "run_1" }
		id := mustAsk(t, connect(t, hub.Config(asker), edit), shipOrHold("k"))
		mustNot(t, hub.Answer(id, "ship"))
		ack, err := connect(t, hub.Config(asker), edit).Ask(t.Context(), shipOrHold("k"))
		mustNot(t, err)
		if ack.ID != id || ack.Status != types.StatusAnswered {
			t.Errorf("%+v", ack)
		}
		hub.RequireMessages(t, 1)
	})
}

// report: B010
// req: SUB-13 SUB-04 ERR-06
func TestARefusalIsSentOnce(t *testing.T) {
	for code, want := range map[int]error{
		400: ma2h.ErrValidation, 401: ma2h.ErrUnauthenticated, 403: ma2h.ErrNotAuthorized, 404: ma2h.ErrNotFound,
		422: ma2h.ErrInvalidField, 418: ma2h.ErrProtocol, 501: ma2h.ErrUnavailable,
	} {
		bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			hub.Fault(ma2htest.Status(code, 0))
			_, err := c.Ask(t.Context(), shipOrHold("k"))
			wants(t, err, want)
			if api, ok := errors.AsType[*ma2h.APIError](err); !ok || api.Status != code || api.ID != "k" || api.Op != "submit" {
				t.Errorf("%v", err)
			}
			if errors.Is(err, ma2h.ErrOutcomeUnknown) {
				t.Errorf("%d: a refusal is no doubt: %v", code, err)
			}
			hub.RequireRequests(t, ma2htest.Submit, 1)
		})
	}
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, _ *ma2h.Client) {
		c := connect(t, hub.Config(asker), func(cfg *ma2h.Config) { cfg.Agent.ID = "other/bot" })
		_, err := c.Ask(t.Context(), shipOrHold("k"))
		wants(t, err, ma2h.ErrAgentIDMismatch)
		c = connect(t, hub.Config(asker), func(cfg *ma2h.Config) { cfg.Credential = ma2h.Bearer("wrong") })
		_, err = c.Ask(t.Context(), shipOrHold("k"))
		wants(t, err, ma2h.ErrUnauthenticated)
		hub.RequireRequests(t, ma2htest.Submit, 2)
		hub.RequireMessages(t, 0)
	})
}

func TestASubmitWithAnEndedContextSendsNothing(t *testing.T) {
	s := always(202, `{}`)
	c := connect(t, s.config())
	if _, err := c.Capabilities(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Ask(ctx, shipOrHold("k"))
	if !errors.Is(err, context.Canceled) || errors.Is(err, ma2h.ErrOutcomeUnknown) || s.calls.Load() != 0 {
		t.Errorf("%d requests: %v", s.calls.Load(), err)
	}
	// The same before the capability document is there.
	s = always(202, `{}`)
	if _, err := connect(t, s.config()).Ask(ctx, shipOrHold("k")); !errors.Is(err, context.Canceled) || s.calls.Load() != 0 || !strings.Contains(err.Error(), "nothing was sent") {
		t.Errorf("%d requests: %v", s.calls.Load(), err)
	}
}
