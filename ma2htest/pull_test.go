package ma2htest

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// req: PUL-07 FH-06 CAN-01 ACK-01
func TestToAnotherPrincipalAMessageDoesNotExist(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	gone := w.submit(notify(""))
	hub.Forget(gone)
	for name, token := range map[string]string{"another agent": hub.Token("other/bot"), "the owner": hub.OwnerToken()} {
		other := w.as(token)
		other.do("GET", "/v1/messages/"+id, "").wantError(t, http.StatusNotFound, types.CodeNotFound)
		other.do("GET", "/v1/messages/"+id+"?wait=60", "").wantError(t, http.StatusNotFound, types.CodeNotFound)
		other.do("GET", "/v1/messages/"+gone, "").wantError(t, http.StatusNotFound, types.CodeNotFound)
		other.do("POST", "/v1/messages/"+id+"/cancel", "").wantError(t, http.StatusNotFound, types.CodeNotFound)
		other.do("POST", "/v1/messages/"+id+"/ack", "{}").wantError(t, http.StatusNotFound, types.CodeNotFound)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	hub.RequireStatus(t, id, types.StatusOpen)
}

// req: PUL-06
func TestAnUnknownIDIs404AndADeletedOne410(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	w.do("GET", "/v1/messages/msg_unknown", "").wantError(t, http.StatusNotFound, types.CodeNotFound)
	id := w.submit(ask("k1"))
	hub.Forget(id)
	for _, path := range []string{"GET /v1/messages/" + id, "GET /v1/messages/" + id + "?wait=9", "POST /v1/messages/" + id + "/cancel", "POST /v1/messages/" + id + "/ack"} {
		method, path, _ := cut(path)
		w.do(method, path, "").wantError(t, http.StatusGone, types.CodeGone)
	}
	if err := hub.Answer(id, "ship"); !isError(err, ErrGone) {
		t.Fatal(err)
	}
}

// req: PUL-16
func TestAResolvedMessageIsPullableForTheRetentionTimeAndNoLonger(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	id, open, note := w.submit(ask("k1")), w.submit(ask("k2")), w.submit(notify(""))
	hub.Advance(time.Hour)
	if err := hub.Answer(id, "ship"); err != nil {
		t.Fatal(err)
	}
	hub.Advance(30*24*time.Hour - time.Hour)
	w.do("GET", "/v1/messages/"+note, "").view(t)
	hub.Advance(time.Nanosecond)
	w.do("GET", "/v1/messages/"+note, "").wantError(t, http.StatusGone, types.CodeGone)
	hub.Advance(time.Hour - time.Nanosecond)
	w.do("GET", "/v1/messages/"+id, "").view(t)
	hub.Advance(time.Nanosecond)
	w.do("GET", "/v1/messages/"+id, "").wantError(t, http.StatusGone, types.CodeGone)
	w.do("GET", "/v1/messages/"+open, "").view(t)
}

// req: PUL-02 AMB-29
func TestStatusAndResponseOfATerminalMessageNeverChange(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	if err := hub.Answer(id, "ship"); err != nil {
		t.Fatal(err)
	}
	first := w.do("GET", "/v1/messages/"+id, "")
	hub.Advance(24 * time.Hour)
	_ = hub.Decline(id)
	second := w.do("GET", "/v1/messages/"+id, "")
	if string(first.body) != string(second.body) {
		t.Fatalf("%s\n%s", first.body, second.body)
	}
}

// req: PUL-03
func TestAHoldEndsWithOpenWhenItsTimeIsOver(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"": 0, "?wait=0": 0, "?wait=7": 7 * time.Second, "?wait=60": time.Minute, "?wait=3600": time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			hub := NewHub(t)
			w := memory(t, hub)
			id := w.submit(ask("k1"))
			began := time.Now()
			if v := w.do("GET", "/v1/messages/"+id+query, "").view(t); v.Status != types.StatusOpen {
				t.Fatal(v.Status)
			}
			if took := time.Since(began); took != want {
				t.Errorf("%q held %v, want %v", query, took, want)
			}
		})
	}
}

// req: PUL-03
func TestAHoldIsNoLongerThanTheHubGives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t, Options{MaxHold: 5 * time.Second})
		w := memory(t, hub)
		id := w.submit(ask("k1"))
		began := time.Now()
		w.do("GET", "/v1/messages/"+id+"?wait=60", "").view(t)
		if took := time.Since(began); took != 5*time.Second {
			t.Fatalf("held %v", took)
		}
	})
}

// A test that looks at who is held right after Advance must not see those whose
// time is over.
//
// req: PUL-03
func TestWhenAdvanceReturnsAnOverdueHoldCountsNoMore(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	const waiters = 50
	var all sync.WaitGroup
	for range waiters {
		all.Go(func() {
			if _, err := w.try(t.Context(), "GET", "/v1/messages/"+id+"?wait=10", ""); err != nil {
				t.Error(err)
			}
		})
	}
	if err := hub.watch(t.Context(), func() bool { return hub.messages[id].holds == waiters }); err != nil {
		t.Fatal(err)
	}
	hub.Advance(9 * time.Second)
	if m, _ := hub.Message(id); m.Holds != waiters {
		t.Errorf("%d of %d are held after 9 of 10 seconds", m.Holds, waiters)
	}
	hub.Advance(time.Second)
	if m, _ := hub.Message(id); m.Holds != 0 {
		t.Errorf("%d are held after all of 10 seconds", m.Holds)
	}
	all.Wait()
	if m, _ := hub.Message(id); m.Holds != 0 {
		t.Errorf("%d are held after all were answered", m.Holds)
	}
}

func TestAWaitThatIsNoNumberIsRefused(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	for _, q := range []string{"?wait=", "?wait=-1", "?wait=1.5", "?wait=1s", "?wait=99999999999", "?since=", "?since=yesterday", "?since=2026-06-04", "?since=2026-06-04T12:00:00,5Z"} {
		w.do("GET", "/v1/messages/"+id+q, "").wantError(t, http.StatusBadRequest, types.CodeValidation)
	}
}

// req: PUL-03
func TestEveryHoldWakesWithTheResolution(t *testing.T) {
	const waiters = 200
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		w := memory(t, hub)
		id := w.submit(ask("k1"))
		began := time.Now()
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() {
				if v := w.do("GET", "/v1/messages/"+id+"?wait=60", "").view(t); v.Status != types.StatusAnswered {
					t.Errorf("woke with %s", v.Status)
				}
			})
		}
		synctest.Wait()
		if m, _ := hub.Message(id); m.Holds != waiters {
			t.Fatalf("%d holds", m.Holds)
		}
		if err := hub.Answer(id, "ship"); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("woke after %v", took)
		}
		if m, _ := hub.Message(id); m.Holds != 0 {
			t.Errorf("%d holds are left", m.Holds)
		}
	})
}

// req: PUL-03
func TestNoWakeUpIsLostBetweenLookAndHold(t *testing.T) {
	hub := NewHub(t)
	for name, w := range map[string]*wire{"memory": memory(t, hub), "tls": overTLS(t, hub)} {
		for range 100 {
			id := w.submit(ask(name + hub.ids.next("")))
			var wg sync.WaitGroup
			wg.Go(func() {
				// A lost wake-up would hold for a minute and then say open.
				if v := w.do("GET", "/v1/messages/"+id+"?wait=60", "").view(t); v.Status != types.StatusAnswered {
					t.Errorf("%s: %s", name, v.Status)
				}
			})
			if err := hub.Answer(id, "ship"); err != nil {
				t.Error(err)
			}
			wg.Wait()
		}
	}
}

// req: PUL-03 FH-03
func TestAHoldWakesWithExpiryCancelAndDeletion(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	for name, tt := range map[string]struct {
		end  func(id string)
		want int
	}{
		"expiry":   {func(string) { hub.Advance(time.Hour + time.Nanosecond) }, http.StatusOK},
		"cancel":   {func(id string) { w.do("POST", "/v1/messages/"+id+"/cancel", "") }, http.StatusOK},
		"deletion": {func(id string) { hub.Forget(id) }, http.StatusGone},
		"time":     {func(string) { hub.Advance(time.Minute) }, http.StatusOK},
	} {
		id := w.submit(ask(name, fields{"expires_at": hub.Now().Add(time.Hour).Format(time.RFC3339Nano)}))
		var wg sync.WaitGroup
		var g got
		wg.Go(func() { g = w.do("GET", "/v1/messages/"+id+"?wait=60", "") })
		if err := hub.AwaitHold(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		tt.end(id)
		wg.Wait()
		if g.status != tt.want {
			t.Errorf("%s: %d %s", name, g.status, g.body)
		}
	}
}

// req: PUL-04
func TestAHoldEndsWithItsCaller(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	for name, w := range map[string]*wire{"memory": memory(t, hub), "tls": overTLS(t, hub)} {
		id := w.submit(ask(name))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.try(ctx, "GET", "/v1/messages/"+id+"?wait=60", ""); !isError(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		})
		if err := hub.AwaitHold(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		cancel()
		wg.Wait()
	}
}

// req: PUL-04
func TestAHoldThatItsCallerLeftIsNotHeldOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		w := memory(t, hub)
		id := w.submit(ask("k1"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.try(ctx, "GET", "/v1/messages/"+id+"?wait=60", ""); !isError(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		synctest.Wait()
		if m, _ := hub.Message(id); m.Holds != 0 {
			t.Fatalf("%d holds", m.Holds)
		}
	})
}

// req: PUL-05
func TestSinceAnswers304WhileTheStatusIsAsItWas(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	since := func(at time.Time) string {
		return "/v1/messages/" + id + "?since=" + url.QueryEscape(at.Format(time.RFC3339Nano))
	}
	if g := w.do("GET", since(start), ""); g.status != http.StatusNotModified || len(g.body) != 0 {
		t.Fatalf("%d %q", g.status, g.body)
	}
	w.do("GET", since(start.Add(-time.Second)), "").view(t)
	hub.Advance(time.Minute)
	if err := hub.Answer(id, "ship"); err != nil {
		t.Fatal(err)
	}
	if v := w.do("GET", since(start), "").view(t); v.Status != types.StatusAnswered {
		t.Fatal(v.Status)
	}
	if g := w.do("GET", since(start.Add(time.Minute)), ""); g.status != http.StatusNotModified {
		t.Fatal(g.status)
	}
	other := w.as(hub.Token("other/bot"))
	other.do("GET", since(start.Add(time.Minute)), "").wantError(t, http.StatusNotFound, types.CodeNotFound)
}

// req: PUL-03 PUL-04
func TestAnAgentWaits23HoursInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		w := memory(t, hub)
		id := w.submit(ask("k1"))
		time.AfterFunc(23*time.Hour+30*time.Second, func() {
			if err := hub.Answer(id, "ship"); err != nil {
				t.Error(err)
			}
		})
		began, polls := time.Now(), 0
		for status := types.StatusOpen; status == types.StatusOpen; polls++ {
			status = w.do("GET", "/v1/messages/"+id+"?wait=60", "").view(t).Status
		}
		if took := time.Since(began); took != 23*time.Hour+30*time.Second {
			t.Errorf("took %v", took)
		}
		if polls != 23*60+1 {
			t.Errorf("%d polls", polls)
		}
		hub.RequireRequests(t, Pull, polls)
	})
}
