package ma2htest

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// req: SUB-05 SUB-06 FH-05
func TestAReplayReturnsTheOriginalIDAndTheStatusOfNow(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	body := ask("k1", fields{"expires_at": in(time.Hour)})
	id := w.submit(body)
	if ack := w.do("POST", "/v1/messages", body).ack(t); ack.ID != id || ack.Status != types.StatusOpen {
		t.Fatalf("replay %+v", ack)
	}
	hub.Advance(2 * time.Hour)
	if ack := w.do("POST", "/v1/messages", body).ack(t); ack.ID != id || ack.Status != types.StatusExpired {
		t.Fatalf("replay after expires_at %+v", ack)
	}
	hub.RequireMessages(t, 1)
}

// req: SUB-06 FH-05
func TestKeyOrderAndNumberSpellingDoNotMakeAnotherPayload(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	a := `{"ma2h_version":"0.3","type":"notify","idempotency_key":"k","title":"t","created_at":"2026-06-04T12:00:00Z","agent":{"id":"deploybot/dev-team","run_id":"r","runtime":"cli"},"state":{"n":1.0,"s":"A"}}`
	b := `{ "state":{"s":"\u0041","n":1e0}, "agent":{"runtime":"cli","run_id":"r","id":"deploybot/dev-team"},"created_at":"2026-06-04T12:00:00Z","title":"t","idempotency_key":"k","type":"notify","ma2h_version":"0.3"}`
	if first, second := w.submit(a), w.submit(b); first != second {
		t.Fatalf("%s and %s", first, second)
	}
	hub.RequireMessages(t, 1)
}

// req: SUB-07 FH-05 AMB-14 AMB-21
func TestAnyOtherMemberUnderTheSameKeyIsAConflict(t *testing.T) {
	for name, change := range map[string]fields{
		"title":            {"title": "Another"},
		"created_at":       {"created_at": "2026-06-04T12:00:01Z"},
		"state":            {"state": fields{"sealed": "other"}},
		"version":          {"ma2h_version": "0.4"},
		"run_id":           {"agent": fields{"id": bot, "run_id": "run_2", "runtime": "cli"}},
		"unknown member":   {"x_new": true},
		"null default":     {"request": fields{"mode": "select", "options": []fields{{"value": "ship", "label": "Ship"}, {"value": "hold", "label": "Hold"}}, "allowed_resolvers": []string{alice, "agent:" + bot}, "default_on_expire": nil}},
		"additional limit": {"expires_at": in(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start})
			w := memory(t, hub)
			id := w.submit(ask("k1"))
			w.do("POST", "/v1/messages", ask("k1", change)).wantError(t, http.StatusConflict, types.CodeIdempotencyConflict)
			hub.RequireMessages(t, 1)
			if again := w.submit(ask("k1")); again != id {
				t.Fatal("the conflict changed what the key stands for")
			}
		})
	}
}

// req: SUB-05
func TestAKeyBelongsToItsAgent(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	first := w.submit(ask("k1"))
	other := w.as(hub.Token("other/bot")).submit(ask("k1", fields{"agent": fields{"id": "other/bot", "run_id": "run_1", "runtime": "cli"}}))
	if first == other {
		t.Fatal("two agents share one message")
	}
	hub.RequireMessages(t, 2)
}

// req: SUB-05 SUB-06 AMB-40
func TestANotifyWithAKeyIsDedupedAndOneWithoutIsNot(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	if first, again := w.submit(notify("k")), w.submit(notify("k")); first != again {
		t.Fatal("a keyed notify was stored twice")
	}
	if first, again := w.submit(notify("")), w.submit(notify("")); first == again {
		t.Fatal("a notify without key was deduped")
	}
	hub.RequireMessages(t, 3)
}

// req: SUB-05
func TestAKeyIsForgottenAfterItsTime(t *testing.T) {
	hub := NewHub(t, Options{Start: start, KeyTTL: time.Hour})
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	hub.Advance(time.Hour)
	if again := w.submit(ask("k1")); again != id {
		t.Fatal("forgotten at the hour")
	}
	hub.Advance(time.Nanosecond)
	if again := w.submit(ask("k1", fields{"title": "Anew"})); again == id {
		t.Fatal("remembered past the hour")
	}
}

// req: ENV-14
func TestClientRefDedupsNothing(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	w.submit(notify("", fields{"client_ref": "same"}))
	w.submit(notify("", fields{"client_ref": "same"}))
	hub.RequireMessages(t, 2)
}

// req: SUB-06 FH-02
func TestFiftySubmitsUnderOneKeyMakeOneMessage(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	ids := make([]string, 50)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			g, err := w.try(t.Context(), "POST", "/v1/messages", ask("k1"))
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = g.ack(t).ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("%s and %s", id, ids[0])
		}
	}
	hub.RequireMessages(t, 1)
	if n := len(hub.Inbox(alice)); n != 1 {
		t.Fatalf("the human sees %d items", n)
	}
}

func TestAReplayOfAForgottenMessageIsGone(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	if !hub.Forget(id) || hub.Forget(id) || hub.Forget("msg_unknown") {
		t.Fatal("Forget reports wrongly")
	}
	w.do("POST", "/v1/messages", ask("k1")).wantError(t, http.StatusGone, types.CodeGone)
}
