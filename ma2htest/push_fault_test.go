package ma2htest

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

func faultsOf(pushes []Push) (out []string) {
	for _, p := range pushes {
		out = append(out, p.Fault)
	}
	return out
}

// req: FH-15
func TestAFaultOfAPushStrikesAsOftenAsSaid(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault Fault
		want  []string
	}{
		{"twice", WrongKey(2), []string{"WrongKey", "WrongKey", "", ""}},
		{"after two", WrongKey(1).After(2), []string{"", "", "WrongKey", ""}},
		{"until healed", WrongKey(0), []string{"WrongKey", "WrongKey", "WrongKey", "WrongKey"}},
		{"elsewhere", WrongKey(0).On(Submit), []string{"", "", "", ""}},
		{"everywhere", WrongKey(1).On(""), []string{"WrongKey", "", "", ""}},
		{"only on a retry", IdenticalResend(2), []string{"", "", "", ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start})
			serve(t, hub, nil)
			hub.Fault(tc.fault)
			for i, want := range tc.want {
				id := answered(t, hub, pushAsk(string(rune('a'+i)), nil))
				hub.Advance(time.Minute)
				if got := faultsOf(hub.Pushes(id)); len(got) != 1 || got[0] != want {
					t.Fatalf("push %d: %q, want %q", i, got, want)
				}
			}
		})
	}
}

// req: FH-15
func TestAFaultOfTheBytesStrikesBesideOneOfTheRequest(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := serve(t, hub, nil)
	hub.Fault(CorruptSignature(1), ResetAfter(1).On(PushCallback))
	id := answered(t, hub, pushAsk("k", nil))
	hub.Advance(time.Minute)
	got := hub.Pushes(id)
	if len(got) != 2 || got[0].Fault != "ResetAfter, CorruptSignature" || got[1].Fault != "" || len(r.arrivals()) != 2 {
		t.Fatalf("%q", faultsOf(got))
	}
}

func TestAReplayIsNobodysDelivery(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := serve(t, hub, first(503, 200, 400))
	hub.Fault(Replay(1))
	id := answered(t, hub, pushAsk("k", nil))
	hub.Advance(0)
	hub.RequireDelivery(t, id, "")
	hub.Advance(time.Minute)
	pushes := hub.Pushes(id)
	if len(pushes) != 3 || pushes[0].Status != 503 || pushes[1].Status != 200 || pushes[1].Attempt != 1 || pushes[2].Attempt != 2 {
		t.Fatalf("%+v", pushes)
	}
	got := r.arrivals()
	if string(got[0].body) != string(got[1].body) || got[0].header.Get(signatureHeader) != got[1].header.Get(signatureHeader) {
		t.Fatal("the replay is not the same to the byte")
	}
}

func TestADuplicateHasASignatureOfItsOwnAndEitherDelivers(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := serve(t, hub, first(503, 200))
	hub.Fault(DuplicatePush(1))
	id := answered(t, hub, pushAsk("k", nil))
	hub.Advance(time.Minute)
	got := r.arrivals()
	if len(got) != 2 || string(got[0].body) != string(got[1].body) || got[0].header.Get(signatureHeader) == got[1].header.Get(signatureHeader) {
		t.Fatalf("%d arrivals", len(got))
	}
	hub.RequireDelivery(t, id, types.DeliveredToAgent)
}

func TestALostAnswerOfARefusedDestinationIsStillARefusal(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	hub.Fault(ResetAfter(1).On(PushCallback))
	id := answered(t, hub, pushAsk("k", fields{"url": "https://127.0.0.1/"}))
	hub.Advance(time.Hour)
	hub.RequirePushes(t, id, 1)
	if err := hub.Pushes(id)[0].Err; !errors.Is(err, ErrPushRefused) {
		t.Fatal(err)
	}
}

func TestALostAckOfTwoRefusalsStrikesTheNextSuccessOnce(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	serve(t, hub, first(503, 503, 200))
	hub.Fault(LoseAck(1).On(PushCallback), DuplicatePush(1))
	id := answered(t, hub, pushAsk("k", nil))
	hub.Advance(time.Hour)
	p := hub.Pushes(id)
	if len(p) != 4 || p[2].Err == nil || p[3].Status != 200 {
		t.Fatalf("%+v", p)
	}
}

// req: FH-15
func TestTheTamperedValueIsAnotherOfTheOptions(t *testing.T) {
	for given, want := range map[string]string{"ship": `"hold"`, "hold": `"ship"`} {
		hub := NewHub(t, Options{Start: start})
		r := serve(t, hub, nil)
		hub.Fault(TamperPayload(1))
		id := memory(t, hub).submit(pushAsk("k", nil))
		if err := hub.Answer(id, given); err != nil {
			t.Fatal(err)
		}
		hub.Advance(0)
		var got types.Response
		if err := types.Decode(r.arrivals()[0].body, &got); err != nil || string(got.Response.Value) != want {
			t.Fatalf("%s became %s (%v)", given, got.Response.Value, err)
		}
		if pulled := memory(t, hub).do("GET", "/v1/messages/"+id, "").view(t); string(pulled.Response.Response.Value) != `"`+given+`"` {
			t.Fatal("the record was changed too")
		}
	}
}

// req: FH-15
func TestAnEndWithoutAnswerIsTamperedInItsResolution(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		end  func(*Hub, string) error
	}{
		"completed": {pushTask("k"), func(h *Hub, id string) error { return h.Complete(id) }},
		"dismissed": {pushTask("k"), func(h *Hub, id string) error { return h.Dismiss(id) }},
		"declined":  {pushAsk("k", nil), func(h *Hub, id string) error { return h.Decline(id) }},
		"cancelled": {pushAsk("k", nil), func(h *Hub, id string) error { return h.Withdraw(id) }},
	} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start})
			r := serve(t, hub, nil)
			hub.Fault(TamperPayload(1))
			id := memory(t, hub).submit(tc.body)
			if err := tc.end(hub, id); err != nil {
				t.Fatal(err)
			}
			hub.Advance(0)
			var got types.Response
			if err := types.Decode(r.arrivals()[0].body, &got); err != nil || string(got.Resolution) == name || !got.Resolution.Of(hub.Messages()[0].Type) {
				t.Fatalf("%s became %s (%v)", name, got.Resolution, err)
			}
		})
	}
}

// req: FH-15
func TestAnInputIsTamperedToAnotherObject(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := serve(t, hub, nil)
	hub.Fault(TamperPayload(1))
	id := memory(t, hub).submit(pushInput("k"))
	if err := hub.Answer(id, map[string]any{"n": 1}); err != nil {
		t.Fatal(err)
	}
	hub.Advance(0)
	var got types.Response
	if err := types.Decode(r.arrivals()[0].body, &got); err != nil || string(got.Response.Value) != `{"tampered":true}` {
		t.Fatalf("%s (%v)", got.Response.Value, err)
	}
}

func pushInput(key string) string {
	return pushAsk(key, nil, fields{"request": fields{
		"mode": "input", "schema": fields{"type": "object", "properties": fields{"n": fields{"type": "number"}}},
		"allowed_resolvers": []string{alice}, "callback": fields{"mode": "push", "url": callbackURL},
	}})
}

func TestAnAnswerWithoutCanonicalFormIsNotPushedAndNotRetried(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := serve(t, hub, nil)
	id := memory(t, hub).submit(pushInput("k"))
	if err := hub.Answer(id, types.Raw(`{"n":1e400}`)); err != nil {
		t.Skipf("the Hub takes no such answer: %v", err)
	}
	hub.Advance(time.Hour)
	hub.RequirePushes(t, id, 1)
	if err := hub.Pushes(id)[0].Err; !errors.Is(err, ErrPushUnsigned) || len(r.arrivals()) != 0 {
		t.Fatalf("%v, %d arrivals", err, len(r.arrivals()))
	}
}

// req: FH-15
func TestRandomFaultsMayBeThoseOfPushes(t *testing.T) {
	for _, tc := range []struct {
		fault Fault
		want  string
	}{
		{WrongKey(1), "WrongKey"}, {NullResolvedAtAsClock(1), ""}, {Status(503, 1), "Status 503"}, {TornBody(1, 1), ""},
	} {
		hub := NewHub(t, Options{Start: start})
		serve(t, hub, nil)
		hub.Fault(RandomFaults(1, 0, Chance{1, tc.fault}).On(PushCallback))
		id := answered(t, hub, pushAsk("k", nil))
		hub.Advance(0)
		if got := hub.Pushes(id)[0].Fault; got != tc.want {
			t.Fatalf("%q, want %q", got, tc.want)
		}
	}
}

// req: FH-15
func TestOnlyASubmitThatWillBePushedIsHeldBack(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	serve(t, hub, nil)
	w := memory(t, hub)
	hub.Fault(PushBefore202(1))
	w.do("POST", "/v1/messages", `{}`).wantError(t, http.StatusBadRequest, types.CodeValidation)
	w.submit(ask("plain"))
	w.submit(pushAsk("pull", fields{"mode": "pull"}))
	submitted := make(chan got)
	go func() {
		g, err := w.try(t.Context(), "POST", "/v1/messages", pushAsk("held", nil))
		if err != nil {
			t.Error(err)
		}
		submitted <- g
	}()
	var id string
	for range 3 {
		m, err := hub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id = m.ID
	}
	select {
	case <-submitted:
		t.Fatal("not held back")
	default:
	}
	// What is deleted will never be pushed.
	hub.Forget(id)
	if g := <-submitted; g.status != http.StatusAccepted {
		t.Fatalf("%d %s", g.status, g.body)
	}
}
