package ma2h_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// req: ENV-01 ENV-05 ENV-08 ENV-10 ENV-11 ENV-12 ENV-13 ENV-14 ENV-15 ENV-16 ENV-18 ENV-19 ASK-01 ASK-02 ASK-03 ASK-04 ASK-05 ASK-06 ASK-07 ASK-08 CB-01 CB-02 CB-03 CB-04 CB-05 CB-06 SUB-15
func TestAQuestionIsTakenOrRefusedBeforeAnythingIsSent(t *testing.T) {
	opt := func(values ...string) (out []ma2h.Option) {
		for _, v := range values {
			out = append(out, ma2h.Option{Value: v, Label: "L"})
		}
		return out
	}
	no := false
	push := func(u string) func(*ma2h.Ask) { return func(a *ma2h.Ask) { a.Callback = ma2h.PushTo(u) } }
	auth := func(au ma2h.CallbackAuth) func(*ma2h.Ask) {
		return func(a *ma2h.Ask) { a.Callback = ma2h.PushTo("https://bot.example/cb"); a.Callback.Auth = &au }
	}
	flat := `{"type":"object","properties":{"reason":{"type":"string"},"n":{"type":"integer"}},"required":["reason"]}`
	input := func(s string) func(*ma2h.Ask) { return func(a *ma2h.Ask) { a.Request = ma2h.Input([]byte(s)) } }
	byDefault := func(v any) func(*ma2h.Ask) {
		return func(a *ma2h.Ask) { a.DefaultOnExpire, a.ExpiresAt = v, time.Now().Add(time.Hour) }
	}
	both := func(fs ...func(*ma2h.Ask)) func(*ma2h.Ask) {
		return func(a *ma2h.Ask) {
			for _, f := range fs {
				f(a)
			}
		}
	}
	state := func(s string) func(*ma2h.Ask) { return func(a *ma2h.Ask) { a.State = types.Raw(s) } }
	tests := []struct {
		name  string
		edit  func(*ma2h.Ask)
		names string // in the error; "": taken
	}{
		{"as it is", func(*ma2h.Ask) {}, ""},
		{"a title of 200 emoji", func(a *ma2h.Ask) { a.Title = strings.Repeat("🚀", 200) }, ""},
		{"a title of 201", func(a *ma2h.Ask) { a.Title = strings.Repeat("x", 201) }, "title"},
		{"no title", func(a *ma2h.Ask) { a.Title = "" }, "title"},
		{"a title that is no text", func(a *ma2h.Ask) { a.Title = "\xff" }, "JSON"},
		{"no key", func(a *ma2h.Ask) { a.IdempotencyKey = "" }, "IdempotencyKey"},
		{"a key of 512", func(a *ma2h.Ask) { a.IdempotencyKey = strings.Repeat("k", 512) }, ""},
		{"a key of 513", func(a *ma2h.Ask) { a.IdempotencyKey = strings.Repeat("k", 513) }, "idempotency_key"},
		{"no request", func(a *ma2h.Ask) { a.Request = ma2h.Request{} }, "Request"},
		{"a select of none", func(a *ma2h.Ask) { a.Request = ma2h.Select() }, "options"},
		{"a select of one", func(a *ma2h.Ask) { a.Request = ma2h.Select(opt("a")...) }, ""},
		{"a value twice", func(a *ma2h.Ask) { a.Request = ma2h.Select(opt("a", "b", "a")...) }, "options"},
		{"a confirm", func(a *ma2h.Ask) { a.Request = ma2h.Confirm() }, ""},
		{"a confirm of two", func(a *ma2h.Ask) { a.Request = ma2h.Confirm(opt("a", "b")...) }, ""},
		{"a confirm of one", func(a *ma2h.Ask) { a.Request = ma2h.Confirm(opt("a")...) }, "options"},
		{"a confirm of three", func(a *ma2h.Ask) { a.Request = ma2h.Confirm(opt("a", "b", "c")...) }, "options"},
		{"an input", input(flat), ""},
		{"an input without schema", func(a *ma2h.Ask) { a.Request = ma2h.Input(nil) }, "schema"},
		{"an input that nests", input(`{"type":"object","properties":{"a":{"type":"object"}}}`), "Request"},
		{"an input that refers", input(`{"type":"object","properties":{"a":{"$ref":"https://evil.test/s.json"}}}`), "Request"},
		{"an input that is no JSON", input(`{`), "Request"},
		{"an input that is an array", input(`[]`), "Request"},
		{"nobody", func(a *ma2h.Ask) { a.AllowedResolvers = nil }, "ResolverSelf"},
		{"an empty list", func(a *ma2h.Ask) { a.AllowedResolvers = []string{} }, "human:alice"},
		{"itself by name", func(a *ma2h.Ask) { a.AllowedResolvers = []string{ma2h.ResolverSelf} }, ""},
		{"a name", func(a *ma2h.Ask) { a.AllowedResolvers = []string{alice, "bob"} }, "allowed_resolvers[1]"},
		{"another kind", func(a *ma2h.Ask) { a.AllowedResolvers = []string{"group:x"} }, "allowed_resolvers[0]"},
		{"a priority", func(a *ma2h.Ask) { a.Priority = ma2h.Urgent }, ""},
		{"no such priority", func(a *ma2h.Ask) { a.Priority = "medium" }, "priority"},
		{"permissions", func(a *ma2h.Ask) { a.Permissions = &ma2h.Permissions{AllowRespond: &no} }, ""},
		{"sensitive, tagged, labelled", func(a *ma2h.Ask) { a.Sensitive, a.Tags, a.ClientRef = true, []string{"x"}, "ref" }, ""},

		{"a default of the options", byDefault("hold"), ""},
		{"a default of none of them", byDefault("later"), "DefaultOnExpire"},
		{"a default of another kind", byDefault(7), "DefaultOnExpire"},
		{"a default that is an object", byDefault(map[string]any{"value": "hold"}), "DefaultOnExpire"},
		{"a default of a confirm", both(func(a *ma2h.Ask) { a.Request = ma2h.Confirm() }, byDefault("deny")), ""},
		{"a default of another word", both(func(a *ma2h.Ask) { a.Request = ma2h.Confirm() }, byDefault("no")), "DefaultOnExpire"},
		{"a default of an input", both(input(flat), byDefault(map[string]any{"reason": "x"})), ""},
		{"a default that lacks a member", both(input(flat), byDefault(map[string]any{"n": 1})), "DefaultOnExpire"},
		{"a default that does not encode", byDefault(make(chan int)), "DefaultOnExpire"},
		{"a default for ever", func(a *ma2h.Ask) { a.DefaultOnExpire = "hold" }, "DefaultOnExpire"},

		{"a state", state(`{"sealed":"x"}`), ""},
		{"a state of a string", state(`"x"`), "state"},
		{"a state of an array", state(`[]`), "state"},
		{"a state cut short", state(`{"x":`), "JSON"},
		{"a state with a name twice", state(`{"x":1,"x":2}`), "JSON"},
		{"a state with a lone surrogate", state(`{"x":"\ud800"}`), "JSON"},
		{"a state out of range", state(`{"x":1e400}`), "number"},
		{"a state of 64 levels", state(`{"x":` + strings.Repeat("[", 62) + strings.Repeat("]", 62) + `}`), ""},
		{"a state of 65 levels", state(`{"x":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`), "nested"},

		{"a part of each kind", func(a *ma2h.Ask) {
			a.Context = []ma2h.Part{ma2h.Text("x"), ma2h.File("https://f.test/x", "", ""), {Kind: types.PartData, Data: types.Raw(`{}`)}}
		}, ""},
		{"a part without a kind", func(a *ma2h.Ask) { a.Context = []ma2h.Part{{Text: "x"}} }, "context[0]"},
		{"a text part without text", func(a *ma2h.Ask) {
			a.Context = []ma2h.Part{ma2h.Text("x"), {Kind: types.PartText, Data: types.Raw(`{}`)}}
		}, "context[1]"},
		{"a data part of an array", func(a *ma2h.Ask) { a.Context = []ma2h.Part{{Kind: types.PartData, Data: types.Raw(`[]`)}} }, "context[0]"},
		{"a data part cut short", func(a *ma2h.Ask) {
			a.Context = []ma2h.Part{ma2h.Text("x"), {Kind: types.PartData, Data: types.Raw(`{"a":`)}}
		}, "context[1]"},
		{"a file without a URI", func(a *ma2h.Ask) { a.Context = []ma2h.Part{ma2h.File("plan.txt", "", "")} }, "context[0]"},

		{"a push", push("https://bot.example/ma2h"), ""},
		{"a push with a query", push("https://bot.example/ma2h?run=1"), ""},
		{"a push to nowhere", push(""), "callback.url"},
		{"a push over plain http", push("http://bot.example/ma2h"), "callback.url"},
		{"a push to plain loopback", push("http://127.0.0.1/ma2h"), "callback.url"},
		{"a push with a user", push("https://me:secret@bot.example/"), "callback.url"},
		{"a push with a fragment", push("https://bot.example/#x"), "callback.url"},
		{"a push to no host", push("https:///ma2h"), "callback.url"},
		{"a push to a path", push("/ma2h"), "callback.url"},
		{"no such mode", func(a *ma2h.Ask) { a.Callback = &ma2h.Callback{Mode: "poll", URL: "https://bot.example/"} }, "callback"},
		{"hmac", auth(ma2h.CallbackAuth{Scheme: types.AuthHMAC, SecretRef: "env:MA2H_SECRET"}), ""},
		{"a vault", auth(ma2h.CallbackAuth{Scheme: types.AuthHMAC, SecretRef: "vault://kv/ma2h#key"}), ""},
		{"bearer", auth(ma2h.CallbackAuth{Scheme: types.AuthBearer, TokenRef: "env:T"}), ""},
		{"apikey", auth(ma2h.CallbackAuth{Scheme: types.AuthAPIKey, TokenRef: "env:T"}), ""},
		{"a secret itself", auth(ma2h.CallbackAuth{Scheme: types.AuthHMAC, SecretRef: "SECRETsecretsecretsecretsecretsecret1234"}), "secret_ref"},
		{"a token itself", auth(ma2h.CallbackAuth{Scheme: types.AuthBearer, TokenRef: "SECRETsecret=="}), "token_ref"},
		{"hmac without a reference", auth(ma2h.CallbackAuth{Scheme: types.AuthHMAC}), "callback.auth"},
		{"bearer without a reference", auth(ma2h.CallbackAuth{Scheme: types.AuthBearer}), "callback.auth"},
		{"hmac with a token", auth(ma2h.CallbackAuth{Scheme: types.AuthHMAC, SecretRef: "env:A", TokenRef: "env:B"}), "auth"},
		{"bearer with a secret", auth(ma2h.CallbackAuth{Scheme: types.AuthBearer, TokenRef: "env:A", SecretRef: "env:B"}), "auth"},
		{"no such scheme", auth(ma2h.CallbackAuth{Scheme: "basic", TokenRef: "env:A"}), "auth"},
	}
	for _, tt := range tests {
		bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			a := shipOrHold("k")
			tt.edit(&a)
			_, err := c.Ask(t.Context(), a)
			if tt.names == "" {
				if err != nil {
					t.Errorf("%s: %v", tt.name, err)
				}
				hub.RequireMessages(t, 1)
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.names) || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "secret@") {
				t.Errorf("%s: %v", tt.name, err)
			}
			if _, ok := errors.AsType[*ma2h.APIError](err); ok {
				t.Errorf("%s: the Hub had to refuse it", tt.name)
			}
			hub.RequireRequests(t, ma2htest.Submit, 0)
		})
	}
}

// req: CB-06
func TestACallbackToLoopbackIsForWhoAllowsIt(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, _ *ma2h.Client) {
		c := connect(t, hub.Config(asker), func(cfg *ma2h.Config) { cfg.AllowInsecureLoopback = true })
		a := shipOrHold("k")
		a.Callback = ma2h.PushTo("http://bot.example/ma2h")
		_, err := c.Ask(t.Context(), a)
		wantsField(t, err, "callback.url")
		hub.RequireRequests(t, ma2htest.Submit, 0)
	})
}

// req: ENV-15 ENV-18 TSK-01 TSK-02 CB-01
func TestATaskAndANotifyAreHeldToTheirRules(t *testing.T) {
	task := func(edit func(*ma2h.Task)) ma2h.Task { x := rotate("k"); edit(&x); return x }
	for _, tt := range []struct {
		name  string
		task  ma2h.Task
		names string
	}{
		{"as it is", task(func(*ma2h.Task) {}), ""},
		{"a callback", task(func(x *ma2h.Task) { x.Callback = ma2h.PushTo("https://bot.example/") }), ""},
		{"no key", task(func(x *ma2h.Task) { x.IdempotencyKey = "" }), "IdempotencyKey"},
		{"no instructions", task(func(x *ma2h.Task) { x.Action.Instructions = "" }), "Instructions"},
		{"nobody", task(func(x *ma2h.Task) { x.AllowedResolvers = nil }), "AllowedResolvers"},
		{"a plain callback", task(func(x *ma2h.Task) { x.Callback = ma2h.PushTo("http://bot.example/") }), "callback.url"},
		{"no title", task(func(x *ma2h.Task) { x.Title = "" }), "title"},
	} {
		bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			_, err := c.Task(t.Context(), tt.task)
			if (err == nil) != (tt.names == "") || err != nil && !strings.Contains(err.Error(), tt.names) {
				t.Errorf("%s: %v", tt.name, err)
			}
			want := 0
			if tt.names == "" {
				want = 1
			}
			hub.RequireRequests(t, ma2htest.Submit, want)
		})
	}
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		_, err := c.Notify(t.Context(), ma2h.Notify{})
		wantsField(t, err, "title")
		hub.RequireRequests(t, ma2htest.Submit, 0)
		n := ma2h.Notify{Title: "x", Body: "b", Priority: ma2h.Low, Tags: []string{"t"}, Context: []ma2h.Part{ma2h.Text("c")}, ClientRef: "r", Sensitive: true, IdempotencyKey: "k"}
		_, err = c.Notify(t.Context(), n)
		mustNot(t, err)
		var sent map[string]any
		mustNot(t, json.Unmarshal(hub.Messages()[0].Submitted, &sent))
		for _, member := range []string{"body", "priority", "tags", "context", "client_ref", "sensitive", "idempotency_key"} {
			if sent[member] == nil {
				t.Errorf("%s was not sent", member)
			}
		}
	})
}

// req: ENV-02 ENV-05 ENV-16 TSK-01 ENV-19 AMB-37
func TestEveryFieldOfAQuestionReachesTheHub(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		a := shipOrHold("k")
		at := time.Now().Add(90*time.Minute + 1500*time.Microsecond).In(time.FixedZone("x", 7200))
		yes := true
		a.Body, a.ExpiresAt, a.DefaultOnExpire, a.Permissions = "b", at, "hold", &ma2h.Permissions{AllowIgnore: &yes}
		a.Callback, a.Priority, a.Tags, a.Context = &ma2h.Callback{Mode: types.CallbackPull}, ma2h.High, []string{"t"}, []ma2h.Part{ma2h.Text("c")}
		a.State, a.ClientRef, a.Sensitive = types.Raw(`{"s":1}`), "r", true
		m, err := c.Message(t.Context(), mustAsk(t, c, a))
		mustNot(t, err)
		w := m.Wire
		if w.Body != "b" || w.Priority != ma2h.High || len(w.Tags) != 1 || len(w.Context) != 1 || string(w.State) != `{"s":1}` || w.ClientRef != "r" || !w.Sensitive ||
			w.IdempotencyKey != "k" || string(w.Request.DefaultOnExpire) != `"hold"` || !*w.Request.Permissions.AllowIgnore || w.Request.Callback.Mode != types.CallbackPull {
			t.Errorf("%+v", w)
		}
		if got, err := time.Parse(time.RFC3339Nano, w.ExpiresAt); err != nil || !got.Equal(at) || !strings.HasSuffix(w.ExpiresAt, "Z") {
			t.Errorf("expires_at %s: %v", w.ExpiresAt, err)
		}
		if w.CreatedAt != time.Now().UTC().Format(time.RFC3339Nano) {
			t.Errorf("created_at %s", w.CreatedAt)
		}
		task, err := c.Task(t.Context(), ma2h.Task{
			Title: "t", Body: "b", IdempotencyKey: "t", AllowedResolvers: []string{alice}, ExpiresAt: at, Priority: ma2h.Low, Tags: []string{"t"},
			Context: []ma2h.Part{ma2h.Text("c")}, State: types.Raw(`{"s":2}`), ClientRef: "r", Sensitive: true, Callback: &ma2h.Callback{Mode: types.CallbackPull},
			Action: ma2h.Action{Instructions: "i", Checklist: []string{"1", "2"}, Verification: "v"},
		})
		mustNot(t, err)
		m, err = c.Message(t.Context(), task.ID)
		mustNot(t, err)
		w = m.Wire
		if w.Body != "b" || w.Priority != ma2h.Low || w.ClientRef != "r" || !w.Sensitive || string(w.State) != `{"s":2}` || w.ExpiresAt == "" || len(w.Tags) != 1 || len(w.Context) != 1 ||
			w.Action.Instructions != "i" || len(w.Action.Checklist) != 2 || w.Action.Checklist[0].Done || w.Action.Verification != "v" ||
			w.Action.AllowedResolvers[0] != alice || w.Action.Callback.Mode != types.CallbackPull {
			t.Errorf("%+v", w.Action)
		}
	})
}

// req: ENV-16
func TestAnExpiryInThePastIsTheHubsToRefuse(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		for _, d := range []time.Duration{0, -time.Hour} {
			a := shipOrHold("k")
			a.ExpiresAt = time.Now().Add(d)
			_, err := c.Ask(t.Context(), a)
			wants(t, err, ma2h.ErrInvalidField)
			if !strings.Contains(err.Error(), "ExpiresAt is not ahead") {
				t.Errorf("it does not say what is wrong: %v", err)
			}
		}
		for _, d := range []time.Duration{time.Hour, -time.Hour} {
			a := shipOrHold("k")
			code := 422
			if a.ExpiresAt = time.Now().Add(d); d < 0 {
				code = 403
			}
			hub.Fault(ma2htest.Status(code, 1))
			if _, err := c.Ask(t.Context(), a); err == nil || strings.Contains(err.Error(), "ExpiresAt") {
				t.Errorf("the expiry is blamed for another fault: %v", err)
			}
		}
		hub.RequireMessages(t, 0)
	})
}

// req: ENV-12
// report: B039
func TestDataIsAnObject(t *testing.T) {
	if p, err := ma2h.Data(map[string]int{"b": 1, "a": 2}); err != nil || string(p.Data) != `{"a":2,"b":1}` || p.Kind != types.PartData {
		t.Errorf("%s %v", string(p.Data), err)
	}
	for _, bad := range []any{
		1, "x", []int{1}, nil, make(chan int), map[string]any{"x": func() {}},
		map[string]any{"x": math.NaN()}, map[string]any{"x": []float64{math.Inf(1)}}, struct{ X float64 }{math.Inf(-1)},
	} {
		if _, err := ma2h.Data(bad); err == nil {
			t.Errorf("%T was taken", bad)
		}
	}
}

// req: ENV-22
func TestARequestCopiesItsOptions(t *testing.T) {
	options := []ma2h.Option{{Value: "a", Label: "A"}, {Value: "b", Label: "B"}}
	text := []byte(`{"type":"object","properties":{"a":{"type":"string"}}}`)
	for _, r := range []ma2h.Request{ma2h.Select(options...), ma2h.Confirm(options...), ma2h.Input(text)} {
		options[0].Value = "evil"
		text[0] = 'x'
		bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			a := shipOrHold("k")
			a.Request = r
			mustAsk(t, c, a)
			if strings.Contains(string(hub.Messages()[0].Submitted), "evil") {
				t.Error("the options were not copied")
			}
		})
		options[0].Value = "a"
		text[0] = '{'
	}
}
