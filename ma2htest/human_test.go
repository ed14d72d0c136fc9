package ma2htest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/types"
)

// req: ASK-08 FH-14
func TestWithoutAListOnlyTheSubmitterResolves(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	for i, body := range []string{
		envelope("ask", "k1", fields{"request": fields{"mode": "confirm"}}).json(),
		envelope("ask", "k2", fields{"request": fields{"mode": "confirm", "allowed_resolvers": []string{}}}).json(),
	} {
		id := w.submit(body)
		for _, by := range []ResolveOption{By("human:operator"), By(alice), By("agent:other/bot"), By("agent:deploybot"), func(*act) {}} {
			if err := hub.Answer(id, "approve", by); !isError(err, ErrNotAuthorized) {
				t.Fatalf("%d: %v", i, err)
			}
		}
		hub.RequireStatus(t, id, types.StatusOpen)
		if err := hub.Answer(id, "approve", By("agent:"+bot)); err != nil {
			t.Fatal(err)
		}
	}
}

// req: ASK-07 FH-14
func TestOnlyAListedResolverResolves(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(task("k1"))
	for _, by := range []string{"human:alic", "human:alice2", "Human:alice", "alice", "", "agent:" + bot, "system:x"} {
		if by == "" {
			continue
		}
		if err := hub.Complete(id, By(by)); !isError(err, ErrNotAuthorized) {
			t.Fatalf("%s: %v", by, err)
		}
	}
	if err := hub.Complete(id); err != nil {
		t.Fatal(err)
	}
	if err := hub.Complete(id, By("human:mallory")); !isError(err, ErrNotAuthorized) || isError(err, ErrTerminal) {
		t.Fatalf("a stranger learned the outcome: %v", err)
	}
}

// req: ASK-05 FH-14 AMB-36
func TestPermissionsTakeAffordancesAway(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	onlyDecline := w.submit(confirmAsk("k1", fields{"permissions": fields{"allow_respond": false}}))
	onlyAnswer := w.submit(confirmAsk("k2", fields{"permissions": fields{"allow_ignore": false, "allow_respond": true}}))
	if err := hub.Answer(onlyDecline, "approve"); !isError(err, ErrInvalid) {
		t.Fatal(err)
	}
	if err := hub.Decline(onlyAnswer); !isError(err, ErrInvalid) {
		t.Fatal(err)
	}
	hub.RequireStatus(t, onlyDecline, types.StatusOpen)
	hub.RequireStatus(t, onlyAnswer, types.StatusOpen)
	if err := hub.Decline(onlyDecline); err != nil {
		t.Fatal(err)
	}
	if err := hub.Answer(onlyAnswer, "approve"); err != nil {
		t.Fatal(err)
	}
}

// req: RES-02 RES-05 ASK-04 FH-14 AMB-37
func TestAResolutionFitsItsMessageOrIsRefused(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	selectID := w.submit(ask("k1"))
	confirmID := w.submit(confirmAsk("k2", nil))
	ownWords := w.submit(confirmAsk("k3", fields{"options": []fields{{"value": "yes", "label": "Y"}, {"value": "no", "label": "N"}}}))
	inputID := w.submit(envelope("ask", "k4", fields{"request": fields{"mode": "input", "allowed_resolvers": []string{alice},
		"schema": fields{"type": "object", "properties": fields{"n": fields{"type": "integer"}}, "required": []string{"n"}}}}).json())
	taskID := w.submit(task("k5"))
	refused := map[string]error{
		"a value outside the options":      hub.Answer(selectID, "later"),
		"an option in other case":          hub.Answer(selectID, "Ship"),
		"an object for a select":           hub.Answer(selectID, fields{"value": "ship"}),
		"null for a select":                hub.Answer(selectID, nil),
		"a checklist on an ask":            hub.Answer(selectID, "ship", Checklist(types.ChecklistItem{Text: "x"})),
		"edited on a decline":              hub.Decline(selectID, Edited()),
		"completing an ask":                hub.Complete(selectID),
		"dismissing an ask":                hub.Dismiss(selectID),
		"a confirm by another word":        hub.Answer(confirmID, "yes"),
		"the synthesized word of another":  hub.Answer(ownWords, "approve"),
		"a string for an input":            hub.Answer(inputID, "n"),
		"another type for an input":        hub.Answer(inputID, fields{"n": "3"}),
		"a required member missing":        hub.Answer(inputID, fields{}),
		"a duplicate member in an input":   hub.Answer(inputID, json.RawMessage(`{"n":1,"n":2}`)),
		"an array for an input":            hub.Answer(inputID, []int{1}),
		"answering a task":                 hub.Answer(taskID, "done"),
		"declining a task":                 hub.Decline(taskID),
		"raw text that is not JSON at all": hub.Answer(inputID, json.RawMessage(`{`)),
	}
	for name, err := range refused {
		if !isError(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, id := range []string{selectID, confirmID, ownWords, inputID, taskID} {
		hub.RequireStatus(t, id, types.StatusOpen)
	}
	if err := hub.Answer(selectID, make(chan int)); err == nil || isError(err, ErrInvalid) {
		t.Errorf("a channel as answer: %v", err)
	}
	accepted := map[string]error{
		"select":  hub.Answer(selectID, "ship", Edited(), Comment("<b> & ü")),
		"confirm": hub.Answer(confirmID, "deny"),
		"words":   hub.Answer(ownWords, "yes"),
		"input":   hub.Answer(inputID, map[string]any{"n": 3}),
		"task":    hub.Complete(taskID, Comment("done"), Checklist(types.ChecklistItem{Text: "a", Done: true})),
	}
	for name, err := range accepted {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := w.do("GET", "/v1/messages/"+selectID, "").view(t).Response.Response
	if !d.Edited || d.Comment != "<b> & ü" {
		t.Errorf("%+v", d)
	}
	d = w.do("GET", "/v1/messages/"+taskID, "").view(t).Response.Response
	if d.Comment != "done" || len(d.Checklist) != 1 || !d.Checklist[0].Done || d.Value != nil {
		t.Errorf("%+v", d)
	}
}

// req: RES-03 FH-04
func TestATaskCarriesAResponseOnlyForACommentOrAChecklist(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	bare, said := w.submit(task("k1")), w.submit(task("k2"))
	if err := hub.Complete(bare); err != nil {
		t.Fatal(err)
	}
	if err := hub.Dismiss(said, Comment("no time")); err != nil {
		t.Fatal(err)
	}
	if r := w.do("GET", "/v1/messages/"+bare, "").view(t).Response; r.Response != nil {
		t.Fatalf("%+v", r.Response)
	}
	if r := w.do("GET", "/v1/messages/"+said, "").view(t).Response; r.Resolution != types.Dismissed || r.Response.Comment != "no time" || r.Response.Actor != alice {
		t.Fatalf("%+v", r.Response)
	}
	if m, _ := hub.Message(bare); m.Resolved.Actor != alice {
		t.Fatal("the snapshot does not say who completed the task")
	}
}

// req: FH-16 ENV-14
func TestAResolverSeesNeitherStateNorClientRefNorCallback(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	secret := fields{"state": fields{"s": "CANARY"}, "client_ref": "CANARY", "idempotency_key": "CANARY"}
	callback := fields{"mode": "push", "url": "https://b.example/CANARY", "auth": fields{"scheme": "hmac", "secret_ref": "env:CANARY"}}
	id := w.submit(confirmAsk("k", fields{"callback": callback}, secret))
	w.submit(task("k2", fields{"action": fields{"instructions": "i", "allowed_resolvers": []string{alice}, "callback": callback}, "client_ref": "CANARY"}))
	w.submit(notify("", fields{"client_ref": "CANARY", "priority": "high"}))
	items := hub.Inbox(alice)
	if len(items) != 3 || items[0].ID != id || items[0].Priority != types.PriorityNormal || items[2].Priority != types.PriorityHigh {
		t.Fatalf("%d items", len(items))
	}
	if b, err := json.Marshal(items); err != nil || strings.Contains(string(b), "CANARY") {
		t.Fatalf("%v %s", err, b)
	}
	if got := items[0].Request.Choices(); len(items[0].Request.Options) != 2 || got[0] != "approve" || got[1] != "deny" {
		t.Fatalf("a confirm shows %v", got)
	}
	if n := len(hub.Inbox("human:bob")); n != 1 {
		t.Fatalf("bob sees %d items, of which only the notify is his", n)
	}
	if n := len(hub.Inbox("agent:" + bot)); n != 0 {
		t.Fatalf("the agent sees %d items", n)
	}
	if err := hub.Answer(id, "approve"); err != nil {
		t.Fatal(err)
	}
	if n := len(hub.Inbox(alice)); n != 2 {
		t.Fatalf("%d items after the answer", n)
	}
}

func TestAnAnswerGivenAsRawJSONKeepsItsBytes(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(envelope("ask", "k", fields{"request": fields{"mode": "input", "allowed_resolvers": []string{alice},
		"schema": fields{"type": "object", "properties": fields{"n": fields{"type": "number"}}}}}).json())
	const value = `{"n": 9007199254740993}`
	if err := hub.Answer(id, types.Raw(value)); err != nil {
		t.Fatal(err)
	}
	if v := w.do("GET", "/v1/messages/"+id, "").view(t); string(v.Response.Response.Value) != value {
		t.Fatalf("%s", []byte(v.Response.Response.Value))
	}
}
