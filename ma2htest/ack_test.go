package ma2htest

import (
	"net/http"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

func (g got) receipt(t testing.TB) types.Ack {
	t.Helper()
	var a types.Ack
	if err := types.Decode(g.body, &a); err != nil {
		t.Fatal(err)
	}
	if err := a.Validate(); err != nil || g.status != http.StatusOK {
		t.Fatalf("%d %v", g.status, err)
	}
	return a
}

// req: ACK-01 ACK-03 ACK-04 ACK-05 ACK-07 PUL-13 AMB-29
func TestTheFirstAckStandsAndTheHubStampsIt(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	if err := hub.Answer(id, "ship"); err != nil {
		t.Fatal(err)
	}
	hub.RequireDelivery(t, id, "")
	v := w.do("GET", "/v1/messages/"+id, "").view(t)
	if v.Delivery == nil || v.Delivery.State != types.DeliveredToAgent || v.Delivery.DeliveredAt != "2026-06-04T12:00:00Z" {
		t.Fatalf("%+v", v.Delivery)
	}
	hub.Advance(time.Minute)
	a := w.do("POST", "/v1/messages/"+id+"/ack", `{"note":"on it","resolution_id":"res_wrong","by":"human:mallory"}`).receipt(t)
	if a.By != "agent:"+bot || a.InReplyTo != id || a.ResolutionID != v.Response.ResolutionID || a.Note != "on it" || a.AckedAt != "2026-06-04T12:01:00Z" || a.Version != "0.4" {
		t.Fatalf("%+v", a)
	}
	hub.Advance(time.Minute)
	if b := w.do("POST", "/v1/messages/"+id+"/ack", `{"note":"again"}`).receipt(t); b != a {
		t.Fatalf("the second ack is %+v", b)
	}
	v = w.do("GET", "/v1/messages/"+id, "").view(t)
	if v.Status != types.StatusAnswered || v.Delivery.State != types.Acknowledged || v.Delivery.Ack.Note != "on it" || v.Delivery.DeliveredAt == "" {
		t.Fatalf("%+v", v.Delivery)
	}
	hub.RequireDelivery(t, id, types.Acknowledged)
}

// req: ACK-02
func TestAnOpenMessageCannotBeAcknowledged(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	for _, id := range []string{w.submit(ask("k1")), w.submit(task("k2")), w.submit(notify(""))} {
		w.do("POST", "/v1/messages/"+id+"/ack", `{}`).wantError(t, http.StatusConflict, types.CodeNotAcknowledgeable)
		hub.RequireDelivery(t, id, "")
	}
}

// req: ACK-01 ACK-02
func TestAnUnreadAnswerCanBeAcknowledgedWithoutABody(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(task("k1"))
	if err := hub.Complete(id); err != nil {
		t.Fatal(err)
	}
	if a := w.do("POST", "/v1/messages/"+id+"/ack", "").receipt(t); a.Note != "" {
		t.Fatal(a.Note)
	}
	if v := w.do("GET", "/v1/messages/"+id, "").view(t); v.Delivery.DeliveredAt != "" || v.Delivery.State != types.Acknowledged {
		t.Fatalf("%+v", v.Delivery)
	}
}

func TestAnAckThatIsNotJSONIsRefused(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(task("k1"))
	if err := hub.Complete(id); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`[]`, `{"note":7}`, `{"note":null}`, `{`} {
		w.do("POST", "/v1/messages/"+id+"/ack", body).wantError(t, http.StatusBadRequest, types.CodeValidation)
	}
	hub.RequireDelivery(t, id, "")
}

// req: VER-05 DISC-02
func TestBefore04ThereIsNoAckNoDeliveryAndNoPresence(t *testing.T) {
	for _, opts := range []Options{
		{Version: types.V02}, {Version: types.V03},
		{Capability: func(c *types.Capability) { c.Ack, c.Presence = nil, nil }},
		{Capability: func(c *types.Capability) { c.Ack.Enabled, c.Presence.Enabled = false, false }},
	} {
		hub := NewHub(t, opts)
		w := memory(t, hub)
		id := w.submit(ask("k1"))
		if err := hub.Answer(id, "ship"); err != nil {
			t.Fatal(err)
		}
		if v := w.do("GET", "/v1/messages/"+id, "").view(t); v.Delivery != nil {
			t.Fatalf("delivery %+v", v.Delivery)
		}
		w.do("POST", "/v1/messages/"+id+"/ack", `{}`).wantError(t, http.StatusNotFound, types.CodeNotFound)
		w.as(hub.OwnerToken()).do("GET", "/v1/agents/x/presence", "").wantError(t, http.StatusNotFound, types.CodeNotFound)
	}
}
