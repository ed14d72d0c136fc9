package ma2htest

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// req: RES-07 RES-13 FH-03 FH-04 RES-03 RES-05 AMB-19 AMB-21
func TestExpiryAppliesTheDefaultIfThereIsOne(t *testing.T) {
	inputSchema := fields{"type": "object", "properties": fields{"why": fields{"type": "string"}}}
	for _, tt := range []struct {
		name, body   string
		value, actor string
		defaulted    bool
		noDetail     bool
	}{
		{"select with a default", envelope("ask", "k", fields{"expires_at": in(time.Hour), "request": fields{
			"mode": "select", "options": []fields{{"value": "ship", "label": "S"}, {"value": "hold", "label": "H"}}, "default_on_expire": "hold"}}).json(),
			`"hold"`, types.ActorDefaultOnExpire, true, false},
		{"confirm with a default", confirmAsk("k", fields{"default_on_expire": "approve"}, fields{"expires_at": in(time.Hour)}),
			`"approve"`, types.ActorDefaultOnExpire, true, false},
		{"input with a default", envelope("ask", "k", fields{"expires_at": in(time.Hour), "request": fields{
			"mode": "input", "schema": inputSchema, "default_on_expire": fields{"why": "late"}}}).json(),
			`{"why":"late"}`, types.ActorDefaultOnExpire, true, false},
		{"a null default", confirmAsk("k", fields{"default_on_expire": nil}, fields{"expires_at": in(time.Hour)}), "", ActorExpired, false, false},
		{"no default", confirmAsk("k", nil, fields{"expires_at": in(time.Hour)}), "", ActorExpired, false, false},
		{"a task", task("k", fields{"expires_at": in(time.Hour)}), "", "", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start})
			w := memory(t, hub)
			id := w.submit(tt.body)
			hub.Advance(time.Hour)
			hub.RequireStatus(t, id, types.StatusOpen)
			hub.Advance(time.Millisecond)
			hub.RequireStatus(t, id, types.StatusExpired)
			r := w.do("GET", "/v1/messages/"+id, "").view(t).Response
			if r.Resolution != types.Expired || r.Defaulted != tt.defaulted {
				t.Errorf("%+v", r)
			}
			if tt.noDetail {
				if r.Response != nil {
					t.Errorf("a task's expiry carries %+v", r.Response)
				}
				return
			}
			if string(r.Response.Value) != tt.value || r.Response.Actor != tt.actor || r.Response.ResolvedAt != "2026-06-04T13:00:00Z" {
				t.Errorf("value %s actor %s at %s", []byte(r.Response.Value), r.Response.Actor, r.Response.ResolvedAt)
			}
		})
	}
}

// req: RES-13 FH-03
func TestAnAnswerAtExpiresAtWinsAndOneLaterLoses(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	body := func(key string) string {
		return confirmAsk(key, fields{"default_on_expire": "deny"}, fields{"expires_at": in(time.Hour)})
	}
	inTime, late := w.submit(body("k1")), w.submit(body("k2"))
	hub.Advance(time.Hour)
	if err := hub.Answer(inTime, "approve"); err != nil {
		t.Fatal(err)
	}
	hub.Advance(time.Nanosecond)
	err := hub.Answer(late, "approve")
	e, ok := errors.AsType[*Error](err)
	if !ok || !isError(err, ErrTerminal) || e.Outcome == nil || e.Outcome.Status != types.StatusExpired || e.Outcome.ResolutionID == "" {
		t.Fatalf("%v", err)
	}
	hub.RequireStatus(t, inTime, types.StatusAnswered)
	hub.RequireStatus(t, late, types.StatusExpired)
}

// req: RES-13 FH-03
func TestExpiryComesByItselfWithTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		w := memory(t, hub)
		id := w.submit(confirmAsk("k1", nil, fields{"expires_at": time.Now().Add(time.Minute).UTC().Format(time.RFC3339Nano)}))
		ended := make(chan string, 1)
		hub.mu.Lock()
		hub.observers = append(hub.observers, func(r *Resolved) { ended <- r.MessageID })
		hub.mu.Unlock()
		began := time.Now()
		if got := <-ended; got != id || time.Since(began) != time.Minute+time.Nanosecond {
			t.Fatalf("%s after %v", got, time.Since(began))
		}
	})
}

func TestADeletedMessageExpiresNoMore(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	id := w.submit(ask("k1", fields{"expires_at": in(time.Hour)}))
	hub.Forget(id)
	hub.Advance(2 * time.Hour)
	if m, _ := hub.Message(id); m.Resolved != nil || !m.Forgotten {
		t.Fatalf("%+v", m.Resolved)
	}
}

// req: FH-02 RES-14 RES-10
func TestOfThreeHundredRacersOneEndsTheMessage(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	for round := range 10 {
		key := stamp(start.Add(time.Duration(round) * time.Second))
		id := w.submit(confirmAsk(key, fields{"default_on_expire": "deny", "allowed_resolvers": []string{alice, "human:bob"}},
			fields{"expires_at": hub.Now().Add(time.Hour).Format(time.RFC3339Nano)}))
		hub.Advance(time.Hour)
		resolved := make(chan string, 600)
		hub.mu.Lock()
		hub.observers = []func(*Resolved){func(r *Resolved) { resolved <- r.ResolutionID }}
		hub.mu.Unlock()
		told := make(chan string, 600)
		note := func(err error) {
			if e, ok := errors.AsType[*Error](err); ok && e.Outcome != nil {
				told <- e.Outcome.ResolutionID
			} else if err != nil {
				t.Error(err)
			}
		}
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				switch i % 5 {
				case 0:
					note(hub.Answer(id, "approve"))
				case 1:
					note(hub.Decline(id, By("human:bob")))
				case 2:
					if g, err := w.try(t.Context(), "POST", "/v1/messages/"+id+"/cancel", ""); err != nil || g.status != 200 && g.status != 409 {
						t.Error(g.status, err)
					}
				case 3:
					hub.Advance(time.Nanosecond)
				case 4:
					note(hub.Withdraw(id))
				}
			})
		}
		wg.Wait()
		close(resolved)
		close(told)
		m, _ := hub.Message(id)
		n := 0
		for rid := range resolved {
			if n++; rid != m.Resolved.ResolutionID {
				t.Errorf("round %d: observed %s, stored %s", round, rid, m.Resolved.ResolutionID)
			}
		}
		if n != 1 {
			t.Errorf("round %d: %d transitions", round, n)
		}
		for rid := range told {
			if rid != m.Resolved.ResolutionID {
				t.Errorf("round %d: a loser was told %s", round, rid)
			}
		}
	}
}
