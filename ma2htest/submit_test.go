package ma2htest

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// req: SUB-01 SUB-02 SUB-03 PUL-01 FH-01
func TestAnAskIsAnsweredAndPulled(t *testing.T) {
	for name, via := range map[string]func(testing.TB, *Hub) *wire{"memory": memory, "tls": overTLS} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t)
			w := via(t, hub)
			ack := w.do("POST", "/v1/messages", ask("k1")).ack(t)
			if ack.Status != types.StatusOpen || ack.PollURL != w.base+"/v1/messages/"+ack.ID || !strings.HasPrefix(ack.ID, "msg_") {
				t.Fatalf("ack %+v", ack)
			}
			if v := w.do("GET", "/v1/messages/"+ack.ID, "").view(t); v.Status != types.StatusOpen || v.Response != nil || v.Delivery != nil {
				t.Fatalf("before the answer: %v", v)
			}
			if err := hub.Answer(ack.ID, "ship", Comment("go")); err != nil {
				t.Fatal(err)
			}
			v := w.do("GET", "/v1/messages/"+ack.ID, "").view(t)
			d := v.Response.Response
			if v.Status != types.StatusAnswered || string(d.Value) != `"ship"` || d.Actor != alice || d.Comment != "go" {
				t.Fatalf("got %s %s %s", v.Status, d.Value, d.Actor)
			}
			hub.RequireMessages(t, 1)
			hub.RequireRequests(t, Pull, 2)
		})
	}
}

// req: SUB-03 PUL-09
func TestANotifyIsDeliveredOnAcceptanceAndStaysPullable(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	ack := w.do("POST", "/v1/messages", notify("")).ack(t)
	if ack.Status != types.StatusDelivered {
		t.Fatalf("status %s", ack.Status)
	}
	v := w.do("GET", "/v1/messages/"+ack.ID+"?wait=60", "").view(t)
	if v.Status != types.StatusDelivered || v.Response != nil || v.Delivery != nil {
		t.Fatalf("%v", v)
	}
	if err := hub.Answer(ack.ID, "ship"); !isError(err, ErrInvalid) {
		t.Fatalf("answering a notify: %v", err)
	}
}

// req: FH-14 ENV-01 ENV-02 ENV-04 ENV-05 ENV-06 ENV-08 ENV-10 ENV-12 ENV-13 ENV-15 ENV-16 ENV-18
// req: ASK-01 ASK-02 ASK-03 ASK-04 ASK-06 ASK-07 TSK-01 CB-01 CB-02 CB-07 VER-01 RL-04 AMB-18
func TestAWrongEnvelopeIsRefusedAndNotStored(t *testing.T) {
	const bad, field = http.StatusBadRequest, http.StatusUnprocessableEntity
	drop := func(name string) string { return notify("", fields{name: nil}) }
	request := func(r fields) string { return envelope("ask", "k", fields{"request": r}).json() }
	options := []fields{{"value": "a", "label": "A"}}
	push := fields{"mode": "push", "url": "https://bot.example/cb"}
	tests := []struct {
		name   string
		body   string
		status int
		code   string
	}{
		{"not JSON", `{"ma2h_version":`, bad, types.CodeValidation},
		{"an array", `[]`, bad, types.CodeValidation},
		{"a duplicate member", strings.Replace(notify(""), `"title"`, `"title":"x","title"`, 1), bad, types.CodeValidation},
		{"a lone surrogate", strings.Replace(notify(""), `Ship`, `\ud800`, 1), bad, types.CodeValidation},
		{"no version", drop("ma2h_version"), bad, types.CodeValidation},
		{"no type", drop("type"), bad, types.CodeValidation},
		{"no created_at", drop("created_at"), bad, types.CodeValidation},
		{"no agent", drop("agent"), bad, types.CodeValidation},
		{"no title", drop("title"), bad, types.CodeValidation},
		{"version 0.03", notify("", fields{"ma2h_version": "0.03"}), bad, types.CodeValidation},
		{"version 0.3.1", notify("", fields{"ma2h_version": "0.3.1"}), bad, types.CodeValidation},
		{"version 0", notify("", fields{"ma2h_version": "0"}), bad, types.CodeValidation},
		{"version 1.0", notify("", fields{"ma2h_version": "1.0"}), bad, types.CodeVersionNotSupported},
		{"version 1.0 of another shape", `{"ma2h_version":"1.0","type":7}`, bad, types.CodeVersionNotSupported},
		{"type directive", envelope("directive", "").json(), bad, types.CodeValidation},
		{"a date without time", notify("", fields{"created_at": "2026-06-04"}), bad, types.CodeValidation},
		{"runtime docker", notify("", fields{"agent": fields{"id": bot, "run_id": "r", "runtime": "docker"}}), bad, types.CodeValidation},
		{"201 characters of title", notify("", fields{"title": strings.Repeat("é", 201)}), bad, types.CodeValidation},
		{"priority medium", notify("", fields{"priority": "medium"}), bad, types.CodeValidation},
		{"state that is a string", notify("", fields{"state": "x"}), bad, types.CodeValidation},
		{"a part of two kinds", notify("", fields{"context": []fields{{"kind": "text", "text": "a", "data": fields{}}}}), bad, types.CodeValidation},
		{"an ask without a key", ask(""), bad, types.CodeValidation},
		{"a task without a key", task(""), bad, types.CodeValidation},
		{"a notify with a request", notify("", fields{"request": fields{"mode": "confirm"}}), bad, types.CodeValidation},
		{"an ask with an action", ask("k", fields{"action": fields{"instructions": "x"}}), bad, types.CodeValidation},
		{"a task without action", task("k", fields{"action": nil}), bad, types.CodeValidation},
		{"mode other", request(fields{"mode": "other"}), bad, types.CodeValidation},
		{"select without options", request(fields{"mode": "select", "options": []fields{}}), bad, types.CodeValidation},
		{"confirm with one option", request(fields{"mode": "confirm", "options": options}), bad, types.CodeValidation},
		{"input without schema", request(fields{"mode": "input"}), bad, types.CodeValidation},
		{"a resolver without type", request(fields{"mode": "confirm", "allowed_resolvers": []string{"alice"}}), bad, types.CodeValidation},
		{"push without url", request(fields{"mode": "confirm", "callback": fields{"mode": "push"}}), bad, types.CodeValidation},
		{"hmac with a token_ref", request(fields{"mode": "confirm", "callback": fields{"mode": "push", "url": "https://b.example/", "auth": fields{"scheme": "hmac", "token_ref": "env:T"}}}), bad, types.CodeValidation},
		{"push at 0.2", confirmAsk("k", fields{"callback": push}, fields{"ma2h_version": "0.2"}), bad, types.CodeVersionNotSupported},
		{"push of a task at 0.2", task("k", fields{"ma2h_version": "0.2", "action": fields{"instructions": "x", "callback": push}}), bad, types.CodeVersionNotSupported},
		{"expires_at of now", ask("k", fields{"expires_at": in(0)}), field, types.CodeInvalidField},
		{"expires_at in the past", ask("k", fields{"expires_at": in(-time.Hour)}), field, types.CodeInvalidField},
		{"a default outside the options", request(fields{"mode": "select", "options": options, "default_on_expire": "b"}), field, types.CodeInvalidField},
		{"a default outside a confirm", request(fields{"mode": "confirm", "default_on_expire": "yes"}), field, types.CodeInvalidField},
		{"a default that is no object", request(fields{"mode": "input", "schema": fields{"type": "object"}, "default_on_expire": "x"}), field, types.CodeInvalidField},
		{"a default that does not fit the schema", request(fields{"mode": "input", "schema": fields{"type": "object", "properties": fields{"n": fields{"type": "integer"}}}, "default_on_expire": fields{"n": "x"}}), field, types.CodeInvalidField},
		{"a schema that nests", request(fields{"mode": "input", "schema": fields{"type": "object", "properties": fields{"n": fields{"type": "object"}}}}), field, types.CodeInvalidField},
		{"two options of one value", request(fields{"mode": "select", "options": []fields{{"value": "a", "label": "A"}, {"value": "a", "label": "B"}}}), bad, types.CodeValidation},
		{"a body over the limit", notify("", fields{"body": strings.Repeat("é", 33<<10)}), field, types.CodeInvalidField},
		{"a part over the limit", notify("", fields{"context": []fields{{"kind": "text", "text": strings.Repeat("x", 256<<10)}}}), field, types.CodeInvalidField},
		{"17 parts", notify("", fields{"context": repeat(fields{"kind": "text", "text": "x"}, 17)}), field, types.CodeInvalidField},
		{"an envelope over the limit", notify("", fields{"tags": []string{strings.Repeat("x", maxRequestBody)}}), field, types.CodeInvalidField},
	}
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := *w
			w.t = t
			w.do("POST", "/v1/messages", tt.body).wantError(t, tt.status, tt.code)
			hub.RequireMessages(t, 0)
		})
	}
}

// req: ENV-01 ENV-08 ENV-16 ASK-06 CB-04 CB-07 VER-02 VER-03
func TestAnEnvelopeAtItsLimitIsAccepted(t *testing.T) {
	push := fields{"mode": "push", "url": "https://bot.example/cb"}
	bodies := map[string]string{
		"200 emoji of title":      notify("", fields{"title": strings.Repeat("🚀", 200)}),
		"64 KiB of body":          notify("", fields{"body": strings.Repeat("é", 32<<10)}),
		"a part of 256 KiB":       notify("", fields{"context": []fields{{"kind": "text", "text": strings.Repeat("x", 256<<10-len(`{"kind":"text","text":""}`))}}}),
		"16 parts":                notify("", fields{"context": repeat(fields{"kind": "text", "text": "x"}, 16)}),
		"expires_at soon":         ask("k1", fields{"expires_at": in(time.Millisecond)}),
		"a null default":          confirmAsk("k2", fields{"default_on_expire": nil}),
		"a default of a confirm":  confirmAsk("k3", fields{"default_on_expire": "deny"}),
		"push at 0.3":             confirmAsk("k4", fields{"callback": push}),
		"pull at 0.2":             confirmAsk("k5", fields{"callback": fields{"mode": "pull"}}, fields{"ma2h_version": "0.2"}),
		"a minor of the future":   notify("", fields{"ma2h_version": "0.9"}),
		"members nobody knows":    notify("", fields{"x_new": fields{"a": 1}}),
		"a media type parameter":  notify(""),
		"an ask without a list":   envelope("ask", "k6", fields{"request": fields{"mode": "confirm"}}).json(),
		"a notify that expires":   notify("", fields{"expires_at": in(time.Hour)}),
		"a task without resolver": task("k7", fields{"action": fields{"instructions": ""}}),
	}
	for _, version := range []string{types.V02, types.V03, types.V04} {
		hub := NewHub(t, Options{Start: start, Version: version})
		w := memory(t, hub)
		for name, body := range bodies {
			if g := w.do("POST", "/v1/messages", body); g.status != http.StatusAccepted {
				t.Errorf("Hub of %s, %s: %d %s", version, name, g.status, g.body)
			}
		}
		hub.RequireMessages(t, len(bodies))
	}
}

// req: CB-07 VER-03
func TestAHubOf02TakesAPushOf02(t *testing.T) {
	body := confirmAsk("k", fields{"callback": fields{"mode": "push", "url": "https://bot.example/cb"}}, fields{"ma2h_version": "0.2"})
	w := memory(t, NewHub(t, Options{Version: types.V02}))
	w.submit(body)
	w = memory(t, NewHub(t, Options{Version: types.V03}))
	w.do("POST", "/v1/messages", body).wantError(t, http.StatusBadRequest, types.CodeVersionNotSupported)
}

func TestABodyThatIsNotDeclaredJSONIsRefused(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	for contentType, want := range map[string]int{
		"":                                http.StatusUnsupportedMediaType,
		"text/plain":                      http.StatusUnsupportedMediaType,
		"application/json; charset=utf-8": http.StatusAccepted,
	} {
		req := w.request(t.Context(), "POST", "/v1/messages", notify(""))
		req.Header.Set("Content-Type", contentType)
		resp, err := w.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("Content-Type %q: %d, want %d", contentType, resp.StatusCode, want)
		}
	}
	hub.RequireMessages(t, 1)
}

// req: ENV-13 ENV-17 FH-10
func TestThePulledBodyIsTheSubmittedMessageVerbatim(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	sent := strings.TrimSpace(ask("k1", fields{"client_ref": "ref", "x_new": "kept", "id": "msg_forged", "status": "answered", "response": fields{}}))
	sent = sent[:len(sent)-1] + `,"state":{"n": 9007199254740993, "z":1.50,"s":"\u0041<"}}`
	id := w.submit(sent)
	if id == "msg_forged" {
		t.Fatal("the Hub took an id from the agent")
	}
	if err := hub.Answer(id, "hold"); err != nil {
		t.Fatal(err)
	}
	g := w.do("GET", "/v1/messages/"+id, "")
	v := g.view(t)
	const state = `{"n": 9007199254740993, "z":1.50,"s":"\u0041<"}`
	if string(v.State) != state || string(v.Response.State) != state {
		t.Errorf("state came back as %s and %s", []byte(v.State), []byte(v.Response.State))
	}
	if v.ID != id || v.Status != types.StatusAnswered || v.ClientRef != "ref" {
		t.Errorf("%v", v)
	}
	if !bytes.Contains(g.body, []byte(`"x_new":"kept"`)) || bytes.Contains(g.body, []byte("msg_forged")) {
		t.Errorf("members: %s", g.body)
	}
	r := v.Response
	if r.Version != "0.3" || r.Agent.ID != bot || r.Agent.RunID != "run_1" || r.InReplyTo != id || r.Defaulted {
		t.Errorf("Response %+v", r)
	}
	if len(r.ResolutionID) != len("res_")+26 || !strings.HasPrefix(r.ResolutionID, "res_") {
		t.Errorf("resolution_id %q", r.ResolutionID)
	}
	if m, _ := hub.Message(id); string(m.Submitted) != sent {
		t.Error("the snapshot has other bytes than were sent")
	}
}

// req: RL-01 FH-14
func TestOverTheRateTheHubSays429UntilTheMinuteIsOver(t *testing.T) {
	hub := NewHub(t, Options{Start: start, Capability: func(c *types.Capability) {
		c.RateLimit = &types.RateLimit{RequestsPerMinute: 2}
	}})
	w := memory(t, hub)
	w.submit(notify(""))
	hub.Advance(15 * time.Second)
	w.submit(notify(""))
	g := w.do("POST", "/v1/messages", notify(""))
	g.wantError(t, http.StatusTooManyRequests, types.CodeRateLimited)
	if got := g.header.Get("Retry-After"); got != "45" {
		t.Fatalf("Retry-After %q, want 45", got)
	}
	hub.RequireMessages(t, 2)
	w.as(hub.Token("other/bot")).submit(notify("", fields{"agent": fields{"id": "other/bot", "run_id": "r", "runtime": "cli"}}))
	hub.Advance(45*time.Second - time.Nanosecond)
	g = w.do("POST", "/v1/messages", notify(""))
	g.wantError(t, http.StatusTooManyRequests, types.CodeRateLimited)
	if got := g.header.Get("Retry-After"); got != "1" {
		t.Fatalf("Retry-After %q a nanosecond before, want 1", got)
	}
	hub.Advance(time.Nanosecond)
	w.submit(notify(""))
}

// req: RL-01 FH-14
func TestAFullInboxRefusesAsksAndStillReplays(t *testing.T) {
	hub := NewHub(t, Options{Capability: func(c *types.Capability) {
		c.RateLimit = &types.RateLimit{InboxDepth: 1}
	}})
	w := memory(t, hub)
	first := w.submit(ask("k1"))
	g := w.do("POST", "/v1/messages", ask("k2"))
	g.wantError(t, http.StatusTooManyRequests, types.CodeRateLimited)
	if g.header.Get("Retry-After") == "" {
		t.Fatal("no Retry-After")
	}
	w.as(hub.Token("other/bot")).submit(ask("k1", fields{"agent": fields{"id": "other/bot", "run_id": "r", "runtime": "cli"}}))
	if again := w.submit(ask("k1")); again != first {
		t.Fatalf("replay gave %s, want %s", again, first)
	}
	w.submit(notify(""))
	if err := hub.Answer(first, "ship"); err != nil {
		t.Fatal(err)
	}
	w.submit(ask("k2"))
}

// req: DISC-15 FH-14
func TestEditedLimitsAreAdvertisedAndEnforced(t *testing.T) {
	hub := NewHub(t, Options{Capability: func(c *types.Capability) {
		c.MaxBodyBytes, c.MaxPartBytes, c.MaxContextParts = 3, 0, new(int64)
	}})
	w := memory(t, hub)
	var caps types.Capability
	if err := types.Decode(w.as("").do("GET", "/.well-known/ma2h", "").body, &caps); err != nil {
		t.Fatal(err)
	}
	if caps.MaxBodyBytes != 3 || caps.MaxPartBytes != 0 || caps.MaxContextParts == nil || *caps.MaxContextParts != 0 {
		t.Fatalf("%+v", caps)
	}
	w.submit(notify("", fields{"body": "abc"}))
	w.do("POST", "/v1/messages", notify("", fields{"body": "abcd"})).wantError(t, http.StatusUnprocessableEntity, types.CodeInvalidField)
	w.do("POST", "/v1/messages", notify("", fields{"context": repeat(fields{"kind": "text", "text": "x"}, 1)})).
		wantError(t, http.StatusUnprocessableEntity, types.CodeInvalidField)
}

func repeat(f fields, n int) (out []fields) {
	for i := range n {
		c := fields{"metadata": fields{"n": fmt.Sprint(i)}}
		for k, v := range f {
			c[k] = v
		}
		out = append(out, c)
	}
	return out
}
