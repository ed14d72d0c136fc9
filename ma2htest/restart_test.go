package ma2htest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// What the Hub must keep is the list of §3.1.
//
// req: FH-13
func TestARestartLosesNothingThatWasAccepted(t *testing.T) {
	hub := NewHub(t, Options{Start: start, Capability: func(c *types.Capability) { c.Inbound.MaxBatch = 1 }})
	r := serve(t, hub, first(503, 503, 204))
	w := memory(t, hub)
	open, job, note := w.submit(ask("open", fields{"expires_at": in(time.Hour)})), w.submit(task("job")), w.submit(notify(""))
	over := answered(t, hub, ask("over"))
	pushed := answered(t, hub, pushAsk("pushed", nil))
	hub.Advance(0) // the first try has failed, the second is a second away
	mail := send(t, hub, "acked", "drained", "queued")
	wantIDs(t, w.drain(""), mail[0])
	if n := w.ackInbox("done", mail[0]); n != 1 {
		t.Fatal(n)
	}
	wantIDs(t, w.drain(""), mail[1])

	before := map[string]string{}
	for _, id := range []string{open, job, note, over} {
		before[id] = string(w.do("GET", "/v1/messages/"+id, "").body)
	}
	hub.Restart()
	for id, body := range before {
		if got := w.do("GET", "/v1/messages/"+id, "").body; string(got) != body {
			t.Errorf("was %s\nis  %s", body, got)
		}
	}
	if id := w.submit(ask("over")); id != over {
		t.Errorf("the key has another message, %s", id)
	}
	w.do("POST", "/v1/messages", ask("over", fields{"title": "Ship 1.5?"})).wantError(t, http.StatusConflict, types.CodeIdempotencyConflict)
	wantIDs(t, w.drain(""), mail[2])
	wantIDs(t, w.drain("")) // the one that was drained before is hidden still
	hub.Advance(time.Minute)
	wantIDs(t, w.drain(""), mail[1])
	d, _ := hub.Directive(mail[0])
	if d.Delivery.Ack == nil || d.Delivery.Ack.Note != "done" {
		t.Errorf("the receipt is %+v", d.Delivery)
	}
	if n := len(r.arrivals()); n != 3 {
		t.Errorf("%d arrivals", n)
	}
	hub.RequireDelivery(t, pushed, types.DeliveredToAgent)
	hub.Advance(time.Hour)
	if s := w.do("GET", "/v1/messages/"+open, "").view(t).Status; s != types.StatusExpired {
		t.Errorf("what was open is %s past its end", s)
	}
}

// req: FH-13
func TestARestartLeavesNoRequestInFlightAnAnswer(t *testing.T) {
	for name, way := range map[string]func(testing.TB, *Hub) *wire{"memory": memory, "TLS": overTLS} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t)
			w := way(t, hub)
			id := w.submit(ask("k"))
			hub.Fault(Hang(1))
			broken := make(chan error)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for _, q := range [][3]string{
				{"GET", "/v1/messages/" + id + "?wait=60"}, {"GET", "/v1/inbox?wait=60"}, {"POST", "/v1/messages", ask("hung")},
			} {
				go func() {
					_, err := w.try(ctx, q[0], q[1], q[2])
					broken <- err
				}()
			}
			for _, err := range []error{hub.AwaitHold(ctx, id), hub.AwaitDrain(ctx, bot), hub.AwaitRequests(ctx, Submit, 2)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			hub.Restart()
			for range 3 {
				err := <-broken
				if _, ok := errors.AsType[net.Error](err); !ok || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			}
			for _, q := range hub.Requests()[1:] {
				if q.Status != 0 {
					t.Errorf("answered: %s", q.line())
				}
			}
			hub.RequireMessages(t, 1)
			// The Hub is there again, for who has learnt that the connection is gone.
			w.http.CloseIdleConnections()
			if w.submit(ask("k")) != id || w.submit(ask("hung")) == id {
				t.Error("a key has the wrong message")
			}
			hub.RequireMessages(t, 2)
		})
	}
}

// The first push is under way when the Hub restarts, however often it does.
//
// req: FH-13
func TestAPushThatARestartCutIsTriedAgainAndLosesNoTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t, Options{Start: start, PushAttempts: 5})
		const cuts = 8
		var arrivals atomic.Int64
		hub.ServeCallback(callbackURL, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			n := arrivals.Add(1)
			if n <= cuts {
				<-r.Context().Done()
			}
			rw.WriteHeader([]int{500, 500, 500, 204}[min(max(n-cuts-1, 0), 3)])
		}))
		id := answered(t, hub, pushAsk("k", nil))
		for range cuts {
			synctest.Wait()
			hub.Restart()
		}
		hub.Advance(time.Minute)
		rows := hub.Pushes(id)
		if len(rows) != cuts+4 {
			t.Fatalf("%d attempts", len(rows))
		}
		jtis := map[string]bool{}
		for i, p := range rows {
			want, failed := max(i-cuts, 0)+1, i < cuts
			if p.Attempt != want || failed != errors.Is(p.Err, ErrPushNetwork) || failed != (p.Status == 0) || p.Ended.IsZero() {
				t.Errorf("%d is %s", i, p.line())
			}
			jtis[p.Header.Get("Ma2h-Signature")] = true
		}
		if len(jtis) != len(rows) {
			t.Error("a push came twice under one signature")
		}
		hub.RequireDelivery(t, id, types.DeliveredToAgent)
	})
}

// req: FH-13
func TestARestartTriesNothingAgainThatHasComeToItsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		statuses []int
		arrivals int
	}{
		"delivered":      {[]int{204}, 1},
		"refused":        {[]int{400}, 1},
		"out of tries":   {[]int{503}, 5},
		"in its backoff": {[]int{503, 204}, 2}, // and not before its time
	} {
		hub := NewHub(t, Options{Start: start, PushAttempts: 5})
		r := serve(t, hub, first(tt.statuses...))
		answered(t, hub, pushAsk("k", nil))
		hub.Advance(0)
		if name == "in its backoff" {
			hub.Restart()
			hub.Advance(time.Second - 1)
			if n := len(r.arrivals()); n != 1 {
				t.Errorf("%s: %d arrivals before its time", name, n)
			}
		}
		hub.Advance(time.Minute)
		hub.Restart()
		hub.Advance(time.Minute)
		if n := len(r.arrivals()); n != tt.arrivals {
			t.Errorf("%s: %d arrivals", name, n)
		}
	}
}

// The receiver said 204 to a Hub that was gone.
//
// req: FH-13
func TestAPushWhoseAnswerARestartSwallowedComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t, Options{Start: start})
		var arrivals atomic.Int64
		hub.ServeCallback(callbackURL, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.WriteHeader(http.StatusNoContent)
			if arrivals.Add(1) == 1 {
				synctest.Wait() // the status has arrived, the end has not
				hub.Restart()
			}
		}))
		id := answered(t, hub, pushAsk("k", nil))
		hub.Advance(time.Minute)
		if p, n := hub.Pushes(id), arrivals.Load(); n != 2 || len(p) != 2 || p[0].Status != 0 || p[1].Status != 204 {
			t.Fatalf("%d arrivals, %d attempts of which the first is %s", n, len(p), p[0].line())
		}
	})
}

// req: FH-13
func TestARestartClosesConnectionsThatAreIdle(t *testing.T) {
	hub := NewHub(t)
	w := overTLS(t, hub)
	reused := false
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}
	for _, want := range []bool{false, true, false, true} {
		_, err := w.try(httptrace.WithClientTrace(t.Context(), trace), "GET", "/.well-known/ma2h", "")
		if err != nil { // it learnt on the way that the connection is gone
			_, err = w.try(httptrace.WithClientTrace(t.Context(), trace), "GET", "/.well-known/ma2h", "")
		}
		if err != nil || reused != want {
			t.Fatalf("on a connection that was there: %v, want %v; %v", reused, want, err)
		}
		if reused {
			hub.Restart()
		}
	}
}

func TestAClosedHubIsNotRestarted(t *testing.T) {
	hub, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := overTLS(t, hub)
	w.submit(notify(""))
	hub.Close()
	hub.Restart()
	if _, err := w.try(context.Background(), "GET", "/.well-known/ma2h", ""); err == nil {
		t.Error("a closed Hub answers")
	}
}
