package ma2h_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/internal/limits"
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
// req: SUB-07
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

// report: B001 B004 B007 B015
// req: SUB-13 TEL-02
func TestGivingUpSaysWhatIsKnown(t *testing.T) {
	for _, tt := range []struct {
		name     string
		faults   []ma2htest.Fault
		deadline time.Duration
		status   int
		unknown  bool
		is       []error
		attempts int
	}{
		{"a rate limit of an hour", []ma2htest.Fault{ma2htest.Status(429, 0, ma2htest.RetryAfter("3600"))}, 2 * time.Second, 429, false,
			[]error{ma2h.ErrRateLimited, context.DeadlineExceeded}, 1},
		{"a Hub that is overloaded", []ma2htest.Fault{ma2htest.Status(503, 0, ma2htest.Body(`{"error":{"code":"overloaded","message":"SECRET text"}}`))}, time.Minute, 503, true,
			[]error{ma2h.ErrUnavailable, context.DeadlineExceeded}, 0},
		{"no time for the next attempt", []ma2htest.Fault{ma2htest.Status(503, 0)}, 300 * time.Millisecond, 503, true,
			[]error{ma2h.ErrUnavailable, context.DeadlineExceeded}, 1},
		{"acks that are lost", []ma2htest.Fault{ma2htest.LoseAck(0)}, time.Minute, 0, true, []error{context.DeadlineExceeded, syscall.ECONNRESET}, 0},
		{"a lost ack, then a refusal", []ma2htest.Fault{ma2htest.LoseAck(1), ma2htest.Status(401, 1)}, time.Minute, 401, true, []error{ma2h.ErrUnauthenticated}, 2},
	} {
		bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			hub.Fault(tt.faults...)
			ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
			defer cancel()
			begin := time.Now()
			a := shipOrHold("the-key")
			a.Title = "SECRET title"
			ack, err := c.Ask(ctx, a)
			se, ok := errors.AsType[*ma2h.SubmitError](err)
			if !ok || ack != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			if se.Status != tt.status || se.Unknown != tt.unknown || se.Key != "the-key" || se.Op != types.VerbAsk || errors.Is(err, ma2h.ErrOutcomeUnknown) != tt.unknown {
				t.Errorf("%s: %+v", tt.name, se)
			}
			if n := count(hub, ma2htest.Submit); se.Attempts != n || tt.attempts != 0 && n != tt.attempts {
				t.Errorf("%s: says %d attempts, the Hub saw %d", tt.name, se.Attempts, n)
			}
			for _, want := range tt.is {
				if !errors.Is(err, want) {
					t.Errorf("%s: is not %v: %v", tt.name, want, err)
				}
			}
			if tt.attempts == 1 && time.Since(begin) != 0 {
				t.Errorf("%s: returned after %s", tt.name, time.Since(begin))
			}
			text := err.Error()
			if strings.Contains(text, "SECRET") || !strings.Contains(text, "the-key") || !strings.Contains(text, strconv.Itoa(se.Attempts)+" attempts") {
				t.Errorf("%s: %s", tt.name, text)
			}
			if tt.status != 0 && !strings.Contains(text, strconv.Itoa(tt.status)) || tt.unknown != strings.Contains(text, "unknown") {
				t.Errorf("%s: %s", tt.name, text)
			}
			if api, ok := errors.AsType[*ma2h.APIError](err); tt.status == 429 && (!ok || api.RetryAfter != time.Hour) {
				t.Errorf("%s: no Retry-After in %v", tt.name, err)
			}
		})
	}
}

// report: B015
func TestARefusedDialIsNoDoubtAndKeepsItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, over(roundTrip(func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		})))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Ask(ctx, shipOrHold("k"))
		se, ok := errors.AsType[*ma2h.SubmitError](err)
		if !ok || se.Unknown || se.Attempts < 3 || se.Status != 0 || !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
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

// req: SUB-14
func TestANotifyWithoutAKeyIsNotSentAgainAfterADoubt(t *testing.T) {
	for _, tt := range []struct {
		name    string
		fault   ma2htest.Fault
		again   bool
		unknown bool
	}{
		{"a lost ack", ma2htest.LoseAck(1), false, true},
		{"a reset", ma2htest.ResetBefore(1), false, true},
		{"a torn ack", ma2htest.TornBody(1, 6), false, true},
		{"no answer", ma2htest.Hang(1), false, true},
		{"503", ma2htest.Status(503, 1), false, true},
		{"408", ma2htest.Status(408, 1), false, true},
		{"429", ma2htest.Status(429, 1, ma2htest.RetryAfter("5")), true, false},
		{"425", ma2htest.Status(425, 1), true, false},
		{"422", ma2htest.Status(422, 1), false, false},
		{"an ack that is no JSON", ma2htest.CorruptJSON(1), false, true},
	} {
		bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			hub.Fault(tt.fault)
			_, err := c.Notify(t.Context(), ma2h.Notify{Title: "x"})
			if (err == nil) != tt.again {
				t.Fatalf("%s: %v", tt.name, err)
			}
			want := 1
			if tt.again {
				want = 2
			}
			hub.RequireRequests(t, ma2htest.Submit, want)
			if se, ok := errors.AsType[*ma2h.SubmitError](err); ok != tt.unknown || ok && (!se.Unknown || se.Key != "" || se.Op != types.VerbNotify || se.Attempts != 1) {
				t.Errorf("%s: %v", tt.name, err)
			}
			if tt.unknown && !strings.Contains(err.Error(), "without a key") {
				t.Errorf("%s: %v", tt.name, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		s := &stub{version: "none", answer: func(*http.Request) *http.Response {
			return canned(202, `{"id":"m","status":"delivered","poll_url":"https://hub.test/m"}`)
		}}
		c := connect(t, over(roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return canned(404, ""), nil
			}
			if n := tries.Add(1); n < 4 {
				return nil, &net.OpError{Op: []string{"dial", "proxyconnect"}[n%2], Err: syscall.ECONNREFUSED}
			}
			return s.RoundTrip(r)
		})))
		if _, err := c.Notify(t.Context(), ma2h.Notify{Title: "x"}); err != nil || tries.Load() != 4 {
			t.Errorf("%d tries: %v", tries.Load(), err)
		}
	})
}

// report: B009
func TestAnAckThatIsNotWholeIsALostAck(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		hub.Fault(ma2htest.TornBody(1, 6), ma2htest.CorruptJSON(1))
		id := mustAsk(t, c, shipOrHold("k"))
		hub.RequireMessages(t, 1)
		hub.RequireRequests(t, ma2htest.Submit, 3)
		if hub.Messages()[0].ID != id {
			t.Error("not the first id")
		}
		hub.Fault(ma2htest.CorruptJSON(0))
		ack, err := c.Ask(t.Context(), shipOrHold("k2"))
		se, ok := errors.AsType[*ma2h.SubmitError](err)
		if !ok || ack != nil || !se.Unknown || se.Attempts != 3 || se.Status != 202 || !errors.Is(err, ma2h.ErrProtocol) {
			t.Errorf("%v", err)
		}
		hub.RequireMessages(t, 2)
	})
}

// req: SUB-01 SUB-02 SUB-03
func TestAnAcceptanceThatBreaksTheProtocolIsADoubtAndKeepsItsId(t *testing.T) {
	const good = `{"id":"msg_1","status":"open","poll_url":"https://hub.test/v1/messages/msg_1"}`
	for _, tt := range []struct {
		name   string
		status int
		body   string
		id     string
		ok     bool
	}{
		{"as it is", 202, good, "msg_1", true},
		{"members nobody knows", 202, `{"later":{},` + good[1:], "msg_1", true},
		{"a status of a later minor", 202, strings.Replace(good, "open", "queued", 1), "msg_1", true},
		{"a replay", 202, strings.Replace(good, "open", "answered", 1), "msg_1", true},
		{"200", 200, good, "", false},
		{"201", 201, good, "", false},
		{"204", 204, "", "", false},
		{"no poll_url", 202, `{"id":"msg_1","status":"open"}`, "msg_1", false},
		{"a relative poll_url", 202, `{"id":"msg_1","status":"open","poll_url":"/v1"}`, "msg_1", false},
		{"a status of a notify", 202, strings.Replace(good, "open", "delivered", 1), "msg_1", false},
		{"a status of a task", 202, strings.Replace(good, "open", "completed", 1), "msg_1", false},
		{"no id", 202, strings.Replace(good, `"id":"msg_1",`, "", 1), "", false},
		{"no id and a later status", 202, `{"status":"queued","poll_url":"https://hub.test/x"}`, "", false},
		{"an id that is a number", 202, strings.Replace(good, `"msg_1"`, "1", 1), "", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := always(tt.status, tt.body)
			ack, err := connect(t, s.config()).Ask(t.Context(), shipOrHold("k"))
			if (err == nil) != tt.ok || (ack != nil) != (tt.id != "") || ack != nil && ack.ID != tt.id {
				t.Fatalf("%s: %+v %v", tt.name, ack, err)
			}
			if s.calls.Load() != 1 {
				t.Errorf("%s: %d attempts", tt.name, s.calls.Load())
			}
			if tt.ok {
				return
			}
			se, ok := errors.AsType[*ma2h.SubmitError](err)
			if !ok || !se.Unknown || se.Status != tt.status || se.Attempts != 1 || !errors.Is(err, ma2h.ErrProtocol) || !errors.Is(err, ma2h.ErrOutcomeUnknown) {
				t.Errorf("%s: %v", tt.name, err)
			}
		})
	}
	s := always(202, good)
	if _, err := connect(t, s.config()).Notify(t.Context(), ma2h.Notify{Title: "x"}); !errors.Is(err, ma2h.ErrProtocol) {
		t.Errorf("a notify that is open: %v", err)
	}
}

// report: B021
func TestASubmitIsNotSentAgainPastTheMemoryOfTheHub(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		hub.Fault(ma2htest.LoseAck(1), ma2htest.ResetBefore(0))
		begin := time.Now()
		go func() {
			time.Sleep(72 * time.Hour)
			hub.Heal()
		}()
		_, err := c.Ask(t.Context(), shipOrHold("k"))
		se, ok := errors.AsType[*ma2h.SubmitError](err)
		if !ok || !se.Unknown || !strings.Contains(err.Error(), "remember") {
			t.Fatalf("%v", err)
		}
		if d := time.Since(begin); d > limits.DefaultKeyRetention || d < limits.DefaultKeyRetention-time.Hour {
			t.Errorf("gave up after %s", d)
		}
		hub.RequireMessages(t, 1)
		time.Sleep(72 * time.Hour)
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
	if _, err := connect(t, s.config()).Ask(ctx, shipOrHold("k")); !errors.Is(err, context.Canceled) || s.calls.Load() != 0 {
		t.Errorf("%d requests: %v", s.calls.Load(), err)
	}
}

// report: B006
func TestACallersRoundTripperThatWrapsTheBodyWorks(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, _ *ma2h.Client) {
		hub.Fault(ma2htest.Status(503, 2))
		var logged bytes.Buffer
		cfg := hub.Config(asker)
		base := cfg.HTTPClient.Transport
		cfg.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				r = r.Clone(r.Context())
				r.GetBody = nil
				r.Body = struct {
					io.Reader
					io.Closer
				}{io.TeeReader(r.Body, &logged), r.Body}
			}
			return base.RoundTrip(r)
		})}
		mustAsk(t, connect(t, cfg), shipOrHold("k"))
		all := attempts(t, hub)["k"]
		if len(all) != 3 || !bytes.Equal(all[0], all[2]) || logged.Len() != 3*len(all[0]) {
			t.Errorf("%d attempts, %d bytes seen", len(all), logged.Len())
		}
	})
}

// tunnel is a proxy that passes CONNECT through and forwards plain requests.
// It counts both.
func tunnel(t *testing.T) (proxy *url.URL, connects, forwards *atomic.Int64) {
	connects, forwards = new(atomic.Int64), new(atomic.Int64)
	var wg sync.WaitGroup
	plain := &http.Transport{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			forwards.Add(1)
			out := r.Clone(r.Context())
			out.RequestURI = ""
			resp, err := plain.RoundTrip(out)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			defer resp.Body.Close()
			for k, v := range resp.Header {
				w.Header()[k] = v
			}
			w.WriteHeader(resp.StatusCode)
			_, _ = io.Copy(w, resp.Body)
			return
		}
		connects.Add(1)
		far, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		near, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = near.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			wg.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			})
		}
	}))
	t.Cleanup(func() { plain.CloseIdleConnections(); s.Close(); wg.Wait() })
	u, err := url.Parse(s.URL)
	mustNot(t, err)
	return u, connects, forwards
}

func TestACallersProxyAndTimeoutAreKept(t *testing.T) {
	hub := ma2htest.NewHub(t)
	proxy, connects, _ := tunnel(t)
	own := &http.Transport{
		Proxy:                 http.ProxyURL(proxy),
		TLSClientConfig:       hub.Client().Transport.(*http.Transport).TLSClientConfig.Clone(),
		ResponseHeaderTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
	}
	defer own.CloseIdleConnections()
	cfg := hub.ConfigTLS(asker)
	cfg.HTTPClient = &http.Client{Transport: own, Timeout: 20 * time.Second}
	c := connect(t, cfg)
	id := mustAsk(t, c, shipOrHold("k"))
	go func() {
		if err := hub.AwaitHold(t.Context(), id); err != nil {
			t.Error(err)
		}
		if err := hub.Answer(id, "ship"); err != nil {
			t.Error(err)
		}
	}()
	r, err := c.Wait(t.Context(), id)
	mustNot(t, err)
	if !r.Answered("ship") || connects.Load() == 0 {
		t.Errorf("%v, %d tunnels", r, connects.Load())
	}
	for _, r := range hub.Requests() {
		if r.Endpoint == ma2htest.Pull && r.Query != "wait=6" {
			t.Errorf("polled with %s under a ResponseHeaderTimeout of 10s", r.Query)
		}
	}
}

func TestAPlainProxyToALoopbackHubIsKept(t *testing.T) {
	hub := ma2htest.NewHub(t)
	server := httptest.NewServer(hub)
	defer server.Close()
	proxy, _, forwards := tunnel(t)
	own := &http.Transport{Proxy: http.ProxyURL(proxy)}
	defer own.CloseIdleConnections()
	cfg := hub.Config(asker)
	cfg.HubURL, cfg.AllowInsecureLoopback, cfg.HTTPClient = server.URL, true, &http.Client{Transport: own}
	mustAsk(t, connect(t, cfg), shipOrHold("k"))
	if forwards.Load() != 2 {
		t.Errorf("%d requests through the proxy", forwards.Load())
	}
	hub.RequireMessages(t, 1)
}

// idler counts how often its idle connections were closed.
type idler struct {
	http.RoundTripper
	closed atomic.Int64
}

func (i *idler) CloseIdleConnections() { i.closed.Add(1) }

func TestASharedHTTPClientIsLeftAsItIs(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, _ *ma2h.Client) {
		cfg := hub.Config(asker)
		base := &idler{RoundTripper: cfg.HTTPClient.Transport}
		shared := &http.Client{Transport: base, Timeout: time.Minute}
		before := *shared
		cfg.HTTPClient = shared
		c := connect(t, cfg)
		hub.Fault(ma2htest.Status(503, 2), ma2htest.Status(422, 1), ma2htest.Redirect(1, "https://evil.test/"), ma2htest.Status(503, 0))
		for i := range 4 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := c.Ask(ctx, shipOrHold(strconv.Itoa(i)))
			if (i == 0) == errors.Is(err, ma2h.ErrOutcomeUnknown) {
				t.Log(err)
			}
			cancel()
		}
		if n := base.closed.Load(); n != 0 {
			t.Errorf("idle connections were closed %d times", n)
		}
		if shared.Transport != before.Transport || shared.Timeout != before.Timeout || shared.CheckRedirect != nil || shared.Jar != nil {
			t.Error("the client was changed")
		}
	})
}

func TestAServerWithoutTLSIsAnErrorAtOnce(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	own := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	defer own.CloseIdleConnections()
	cfg := over(own)
	cfg.HubURL = strings.Replace(server.URL, "http://", "https://", 1)
	c := connect(t, cfg)
	_, err := c.Ask(t.Context(), shipOrHold("k"))
	wants(t, err, http.ErrSchemeMismatch)
	_, err = c.Wait(t.Context(), "msg_1")
	wants(t, err, http.ErrSchemeMismatch)
}
