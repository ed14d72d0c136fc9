package ma2htest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

func TestADelayedPushIsSignedWhenItLeaves(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := serve(t, hub, nil)
	hub.Fault(Delay(1, 3*time.Minute).On(PushCallback))
	id := answered(t, hub, pushAsk("k", nil))
	hub.Advance(3*time.Minute - 1)
	if len(r.arrivals()) != 0 {
		t.Fatal("too early")
	}
	hub.Advance(1)
	p := hub.Pushes(id)
	if len(p) != 1 || p[0].Fault != "Delay" || !strings.HasPrefix(p[0].Header.Get(signatureHeader), fmt.Sprintf("t=%d,", start.Add(3*time.Minute).Unix())) {
		t.Fatalf("%+v", p)
	}
}

// req: FH-07
func TestTheWaitNeedsNoAdvanceInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		r := serve(t, hub, first(503, 503, 503, 503, 200))
		began := time.Now()
		id := answered(t, hub, pushAsk("k", nil))
		if err := hub.AwaitPushes(t.Context(), id, 5); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 15*time.Second {
			t.Fatalf("five attempts took %s", took)
		}
		time.Sleep(24 * time.Hour)
		if n := len(r.arrivals()); n != 5 {
			t.Fatalf("%d arrivals", n)
		}
	})
}

// req: FH-07
func TestAnAttemptEndsAfterTenSecondsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		hub.ServeCallback(callbackURL, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		began := time.Now()
		id := answered(t, hub, pushAsk("k", nil))
		if err := hub.AwaitPushes(t.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != pushTimeout || !errors.Is(hub.Pushes(id)[0].Err, ErrPushTimeout) {
			t.Fatalf("after %s: %v", took, hub.Pushes(id)[0].Err)
		}
	})
}

// req: FH-07
func TestAdvanceDeliversInOrderOfTime(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := serve(t, hub, nil)
	w := memory(t, hub)
	var want []string
	for i := range 20 {
		want = append(want, w.submit(pushAsk(fmt.Sprint(i), nil, fields{"expires_at": in(time.Duration(i/2+1) * time.Minute)})))
	}
	hub.Advance(time.Hour)
	got := r.arrivals()
	if len(got) != len(want) {
		t.Fatalf("%d pushes", len(got))
	}
	for i, a := range got {
		var resp types.Response
		if err := types.Decode(a.body, &resp); err != nil || resp.InReplyTo != want[i] {
			t.Fatalf("push %d is of %s, want %s", i, resp.InReplyTo, want[i])
		}
		if at := start.Add(time.Duration(i/2+1)*time.Minute + 1); !a.at.Equal(at) {
			t.Fatalf("push %d at %s, want %s", i, a.at, at)
		}
	}
}

func TestAReceiverMayTalkToTheHubInsideAnAdvance(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	second := w.submit(pushAsk("second", nil))
	var once bool
	r := serve(t, hub, nil)
	r.answer = func(int) int {
		if !once {
			once = true
			if err := hub.Answer(second, "ship"); err != nil {
				t.Error(err)
			}
		}
		return 200
	}
	first := w.submit(pushAsk("first", nil, fields{"expires_at": in(time.Minute)}))
	hub.Advance(time.Hour)
	hub.RequirePushes(t, first, 1)
	hub.RequirePushes(t, second, 1)
}

func TestAdvanceLeavesAReceiverBehindThatWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t, Options{Start: start})
		release := make(chan struct{})
		hub.ServeCallback(callbackURL, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}))
		id := answered(t, hub, pushAsk("k", nil))
		hub.Advance(9 * time.Second)
		if p := hub.Pushes(id); len(p) != 1 || !p[0].Ended.IsZero() {
			t.Fatalf("%+v", p)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := hub.AwaitPushes(ctx, id, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("an attempt that is under way was awaited: %v", err)
		}
		close(release)
		hub.Advance(0)
		if p := hub.Pushes(id); len(p) != 1 || p[0].Status != 200 {
			t.Fatalf("%+v", p)
		}
	})
}

func TestForgetEndsThePushes(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := serve(t, hub, first(503))
	id := answered(t, hub, pushAsk("k", nil))
	hub.Advance(3 * time.Second)
	hub.Forget(id)
	hub.Advance(time.Hour)
	if n := len(r.arrivals()); n != 3 {
		t.Fatalf("%d arrivals", n)
	}
}

func TestCloseEndsPushesThatAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, err := New(Options{Start: start})
		if err != nil {
			t.Fatal(err)
		}
		arrived := make(chan struct{}, 2)
		hub.ServeCallback(callbackURL, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-r.Context().Done()
		}))
		a, b := answered(t, hub, pushAsk("a", nil)), answered(t, hub, pushAsk("b", nil))
		<-arrived
		<-arrived
		if err := hub.Answer(memory(t, hub).submit(pushAsk("c", fields{"url": "https://other.example/"})), "ship"); err != nil {
			t.Fatal(err)
		}
		hub.Close()
		hub.Advance(time.Hour)
		hub.Advance(time.Hour)
		for _, id := range []string{a, b} {
			if p := hub.Pushes(id); len(p) != 1 || !errors.Is(p[0].Err, ErrPushNetwork) || p[0].Ended.IsZero() {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// req: FH-07
func TestPushesEndTwoHundredAtATime(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := serve(t, hub, func(n int) int { return map[bool]int{true: 503, false: 200}[n <= 200] })
	var ids []string
	for i := range 200 {
		ids = append(ids, answered(t, hub, pushAsk(fmt.Sprint(i), nil)))
	}
	hub.Advance(time.Minute)
	if n := len(r.arrivals()); n != 400 {
		t.Fatalf("%d arrivals", n)
	}
	for _, id := range ids {
		hub.RequireDelivery(t, id, types.DeliveredToAgent)
	}
}

func TestAwaitPushesEndsWithItsContextAndWithTheHub(t *testing.T) {
	hub, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := hub.AwaitPushes(ctx, "msg_none", 1); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	hub.Close()
	if err := hub.AwaitPushes(t.Context(), "msg_none", 1); err == nil {
		t.Fatal("awaited at a closed Hub")
	}
}
