package ma2h_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
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

// req: SUB-01 SUB-02 SUB-03 AMB-30
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
		{"an empty review_url", 202, `{"review_url":"",` + good[1:], "msg_1", false},
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
