package ma2h_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

const canary = "CANARY7c1f"

// shows are the forms in which a leak of the canary could show: as it is, in
// hexadecimal of either case, as decimal bytes, in base64.
var shows = []string{canary, "43414e415259", "43414E415259", "67 65 78 65 82 89", "0x43, 0x41, 0x4e", "Q0FOQVJZ"}

// sink takes whatever the client prints.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

// print writes v under every verb and flag, alone, by pointer and inside
// others, and through log/slog.
func (s *sink) print(name string, v any) {
	verbs := "vsqdxXtbcoOUeEfFgG"
	if _, ok := v.(error); ok {
		// Of an error that wraps another, fmt shows the fields of both under a
		// verb that fits neither; APIError.Message is one, by design.
		verbs = "vsqdxX"
	}
	for _, verb := range verbs {
		for _, flags := range []string{"", "+", "#", " ", "0", "-30.9"} {
			format := "%" + flags + string(verb)
			fmt.Fprintf(s, name+" "+format+" "+format+"\n", v, []any{v, struct{ V any }{v}})
		}
	}
	fmt.Fprintln(s, v)
	for _, h := range []slog.Handler{slog.NewTextHandler(s, nil), slog.NewJSONHandler(s, nil)} {
		slog.New(h).Info(name, "v", v)
	}
}

func (s *sink) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	left := 5
	for line := range strings.Lines(s.buf.String()) {
		for _, leak := range shows {
			if i := strings.Index(line, leak); i >= 0 && left > 0 {
				left--
				t.Errorf("the canary shows: %.60q ... %q", line, line[max(0, i-100):min(len(line), i+20)])
				break
			}
		}
	}
}

// secretAsk has the canary wherever a person's or an agent's own text goes.
func secretAsk(t testing.TB, key string) ma2h.Ask {
	data, err := ma2h.Data(map[string]any{canary: canary})
	mustNot(t, err)
	part := ma2h.Text(canary)
	part.Metadata = types.Raw(`{"m":"` + canary + `"}`)
	return ma2h.Ask{
		Title: canary, Body: canary, IdempotencyKey: key, AllowedResolvers: []string{alice}, ClientRef: canary, Sensitive: true,
		Request: ma2h.Select(ma2h.Option{Value: canary, Label: canary, Description: canary}, ma2h.Option{Value: "b", Label: canary}),
		State:   types.Raw(`{"` + canary + `":"` + canary + `"}`), Tags: []string{canary},
		Context:         []ma2h.Part{part, data, ma2h.File("https://f.test/"+canary, canary, "text/plain")},
		DefaultOnExpire: canary, ExpiresAt: time.Now().Add(time.Hour),
	}
}

func secretTask(key string) ma2h.Task {
	return ma2h.Task{
		Title: canary, Body: canary, IdempotencyKey: key, AllowedResolvers: []string{alice}, ClientRef: canary, State: types.Raw(`{"a":"` + canary + `"}`),
		Tags: []string{canary}, Context: []ma2h.Part{ma2h.Text(canary)},
		Action: ma2h.Action{Instructions: canary, Checklist: []string{canary}, Verification: canary},
	}
}

type secretInput struct {
	Reason string `json:"reason" jsonschema:"CANARY7c1f" ma2h:"enum=CANARY7c1f|other,sensitive"`
}

// report: B123
// req: TEL-01 TEL-02 TEL-03 TEL-05 TEL-06
func TestNoPathOfTheClientPrintsWhatItCarries(t *testing.T) {
	out := &sink{}
	level := &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}
	logger := slog.New(slog.NewJSONHandler(out, level))
	fail := func(err error) {
		t.Helper()
		if err == nil {
			t.Error("a path that must fail did not")
			return
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			out.print("error", e)
		}
	}
	secret := func(cfg *ma2h.Config) {
		cfg.Logger = logger
		cfg.Agent.Labels = map[string]string{"l": canary}
	}
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, _ *ma2h.Client) {
		c := connect(t, hub.Config(asker), secret)
		ctx := t.Context()
		hub.Fault(ma2htest.LoseAck(1), ma2htest.TornBody(1, 9), ma2htest.Status(503, 1), ma2htest.Status(429, 1), ma2htest.Hang(1))
		ack, err := c.Ask(ctx, secretAsk(t, "k"))
		mustNot(t, err)
		out.print("ack", ack)
		_, err = c.Acknowledge(ctx, ack.ID, canary)
		fail(err)
		pull := []ma2htest.Fault{ma2htest.Status(503, 1, ma2htest.Body(canary)), ma2htest.ResetBefore(1), ma2htest.CorruptJSON(0)}
		for _, f := range pull[:2] {
			hub.Fault(f.On(ma2htest.Pull))
		}
		mustNot(t, hub.Answer(ack.ID, canary, ma2htest.Comment(canary)))
		r, err := c.Wait(ctx, ack.ID)
		mustNot(t, err)
		out.print("response", r)
		out.print("response by value", *r)
		out.print("response inside", struct{ r ma2h.Response }{*r}.r)
		out.print("checklist", r.Checklist())
		out.print("state", r.State())
		m, err := c.Message(ctx, ack.ID)
		mustNot(t, err)
		out.print("message", m)
		out.print("message by value", *m)
		receipt, err := c.Acknowledge(ctx, ack.ID, canary)
		mustNot(t, err)
		out.print("receipt", receipt)
		fail(c.Cancel(ctx, ack.ID))
		_, err = ma2h.ReadFor[secretInput](r, alice)
		fail(err)
		fail(r.Decode(new(secretInput)))

		// Refused on this side.
		for _, edit := range []func(*ma2h.Ask){
			func(a *ma2h.Ask) { a.Title = strings.Repeat(canary, 30) },
			func(a *ma2h.Ask) { a.State = types.Raw(`{"a":"` + canary) },
			func(a *ma2h.Ask) { a.State = types.Raw(`{"` + canary + `":1,"` + canary + `":2}`) },
			func(a *ma2h.Ask) { a.State = types.Raw(`"` + canary + `"`) },
			func(a *ma2h.Ask) { a.Body = canary + "\xff" },
			func(a *ma2h.Ask) { a.Body = strings.Repeat(canary, 1<<14) },
			func(a *ma2h.Ask) { a.DefaultOnExpire = canary + "x" },
			func(a *ma2h.Ask) { a.DefaultOnExpire = map[string]any{canary: func() {}} },
			func(a *ma2h.Ask) { a.Context = []ma2h.Part{{Kind: types.PartData, Data: types.Raw(canary)}} },
			func(a *ma2h.Ask) { a.Request = ma2h.Input([]byte(`{"type":"` + canary + `"`)) },
			func(a *ma2h.Ask) {
				a.Request = ma2h.Input([]byte(`{"type":"object","properties":{"a":{"type":"object","description":"` + canary + `"}}}`))
			},
			func(a *ma2h.Ask) {
				a.Request = ma2h.Select(ma2h.Option{Value: canary, Label: "x"}, ma2h.Option{Value: canary, Label: "x"})
			},
			func(a *ma2h.Ask) { a.Callback = ma2h.PushTo("http://" + canary + ":" + canary + "@bot.example/") },
			func(a *ma2h.Ask) { a.Callback = ma2h.PushTo("https://bot.example/%zz" + canary) },
			func(a *ma2h.Ask) {
				a.Callback = ma2h.PushTo("https://bot.example/")
				a.Callback.Auth = &ma2h.CallbackAuth{Scheme: types.AuthHMAC, SecretRef: canary}
			},
		} {
			a := secretAsk(t, "k2")
			edit(&a)
			_, err := c.Ask(ctx, a)
			fail(err)
		}
		_, err = c.Acknowledge(ctx, ack.ID, strings.Repeat(canary, 1000))
		fail(err)
		_, err = c.Acknowledge(ctx, ack.ID, canary+"\xff")
		fail(err)

		// Refused by the Hub, in its own words.
		_, err = connect(t, hub.Config(asker), secret).Ask(ctx, secretAsk(t, "k"))
		fail(err)
		echo := ma2htest.Body(`{"error":{"code":"new","message":"` + canary + `"},"` + canary + `":1}`)
		for _, code := range []int{400, 409, 410, 422, 500, 501} {
			hub.Fault(ma2htest.Status(code, 0, echo).On(""))
			short, cancel := context.WithTimeout(ctx, 3*time.Second)
			_, err = c.Ask(short, secretAsk(t, "k3"))
			fail(err)
			_, err = c.Task(short, secretTask("k4"))
			fail(err)
			_, err = c.Notify(short, ma2h.Notify{Title: canary, Body: canary})
			fail(err)
			if code != 500 {
				_, err = c.Wait(short, ack.ID)
				fail(err)
			}
			_, err = c.Message(short, ack.ID)
			fail(err)
			fail(c.Cancel(short, ack.ID))
			_, err = c.Acknowledge(short, ack.ID, canary)
			fail(err)
			cancel()
			hub.Heal()
		}
		// An answer that is not one.
		hub.Fault(ma2htest.Status(200, 0, ma2htest.Body(`{"title":"`+canary+`","`+canary+`":`)).On(""))
		_, err = c.Wait(ctx, ack.ID)
		fail(err)
		_, err = c.Message(ctx, ack.ID)
		fail(err)
		_, err = c.Acknowledge(ctx, ack.ID, canary)
		fail(err)
		_, err = c.Ask(ctx, secretAsk(t, "k5"))
		fail(err)
		hub.Heal()

		// Typed and untyped decisions.
		q := ma2h.Ask{Title: canary, AllowedResolvers: []string{alice}, IdempotencyKey: "k6", Body: canary}
		sent, err := ma2h.SubmitFor[secretInput](ctx, c, q)
		mustNot(t, err)
		mustNot(t, hub.Answer(sent.ID, secretInput{canary}, ma2htest.Comment(canary)))
		answer, err := ma2h.AwaitFor[secretInput](ctx, c, sent.ID, alice)
		mustNot(t, err)
		out.print("answer", answer)
		out.print("answer by pointer", &answer)
		_, err = ma2h.AwaitFor[struct{ Other string }](ctx, c, sent.ID, alice)
		fail(err)
		_, err = ma2h.AwaitFor[secretInput](ctx, c, sent.ID, "human:bob")
		fail(err)
		ap := ma2h.Approval{Title: canary, Body: canary, By: []string{alice}, IdempotencyKey: "k7", Options: []ma2h.Option{{Value: canary, Label: canary}, {Value: "no", Label: "no"}}, Yes: canary, State: types.Raw(`{"a":"` + canary + `"}`)}
		sent, err = c.AskApproval(ctx, ap)
		mustNot(t, err)
		mustNot(t, hub.Answer(sent.ID, canary, ma2htest.Comment(canary)))
		v, err := c.AwaitApproval(ctx, sent.ID, ap)
		mustNot(t, err)
		out.print("verdict", v)
		out.print("verdict by pointer", &v)
		bad := ap
		bad.Yes = canary + "x"
		_, err = c.AskApproval(ctx, bad)
		fail(err)
	})
	credentials(t, out, logger, fail)
	out.check(t)
	if out.buf.Len() < 100_000 || !strings.Contains(out.buf.String(), "will send again") || !strings.Contains(out.buf.String(), "poll got no") {
		t.Errorf("only %d bytes were looked at", out.buf.Len())
	}
}

func credentials(t *testing.T, out *sink, logger *slog.Logger, fail func(error)) {
	for _, cred := range []ma2h.Credential{
		ma2h.Bearer(canary), ma2h.APIKey(canary), ma2h.APIKeyHeader("X-Key", canary),
		ma2h.BearerFunc(func(context.Context) (string, error) { return canary, nil }),
	} {
		out.print("credential", cred)
		out.print("credential by pointer", &cred)
		out.print("credential inside", struct{ c ma2h.Credential }{cred})
		b, err := json.Marshal(cred)
		mustNot(t, err)
		out.print("credential as JSON", string(b))
		out.print("credential by name", cred.String()+cred.GoString())
		cfg := over(always(401, `{"error":{"code":"unauthenticated","message":"`+canary+`"}}`))
		cfg.Credential, cfg.Logger, cfg.Agent.Labels = cred, logger, map[string]string{"l": canary}
		out.print("config", cfg)
		out.print("config by pointer", &cfg)
		c := connect(t, cfg)
		out.print("client", c)
		out.print("client by value", *c)
		out.print("client inside", struct{ c ma2h.Client }{*c}.c)
		_, err = c.Ask(t.Context(), secretAsk(t, "k"))
		fail(err)
		_, err = c.Wait(t.Context(), "msg_1")
		fail(err)
	}
	for _, bad := range []ma2h.Credential{ma2h.Bearer(canary + "\n"), ma2h.APIKey(" " + canary), ma2h.APIKey(canary + "é"), ma2h.APIKeyHeader("bad "+canary, canary)} {
		cfg := over(always(401, ""))
		cfg.Credential = bad
		_, err := ma2h.NewClient(cfg)
		fail(err)
	}
	for _, u := range []string{"https://me:" + canary + "@hub.test", "https://hub.test/?k=" + canary, "https://hub.test/#" + canary, "https://hub.test/%zz" + canary} {
		cfg := over(always(401, ""))
		cfg.HubURL = u
		_, err := ma2h.NewClient(cfg)
		fail(err)
	}
	cfg := over(roundTrip(func(*http.Request) (*http.Response, error) {
		return canned(401, canary, "WWW-Authenticate", canary), nil
	}))
	cfg.Credential = ma2h.BearerFunc(func(context.Context) (string, error) { return canary + "\n", nil })
	_, err := connect(t, cfg).Wait(t.Context(), "msg_1")
	fail(err)
}

// typesOfTheReturnLeg are covered by the tests of verification and acting.
var typesOfTheReturnLeg = strings.Fields(`
	Act Binding CallbackConfig CallbackHandler ConsumeOptions Delivery Directive DirectiveAdvisory DrainOptions Entry Inbox InboxConfig
	Key KeyRing MemoryConfig MemoryStore Outcome OutboxMismatchError RejectedError Reservation ResumeConfig Resumer SealKey Sealer SealerConfig
	Submit SubmitKey Verifier VerifierConfig`)

// req: TEL-01 TEL-02
func TestEveryExportedTypePrintsWithoutItsContent(t *testing.T) {
	r := pulled(t, view(`"value":"approve"`, `"value":"`+canary+`","comment":"`+canary+`"`, `"in_reply_to"`, `"state":{"s":"`+canary+`"},"in_reply_to"`))
	api := &ma2h.APIError{Op: "get", Status: 400, Code: "c", Message: canary, ID: "m"}
	values := map[string][]any{
		"Ack": {ma2h.Ack{ID: "m"}, &ma2h.Ack{}}, "Action": {secretTask("k").Action}, "Advisory": {r.Advisory()},
		"Answer":        {ma2h.Answer[secretInput]{Value: secretInput{canary}, Comment: canary}, &ma2h.Answer[string]{Value: canary}},
		"APIError":      {api, fmt.Errorf("x: %w", api)},
		"Approval":      {ma2h.Approval{Title: canary, Body: canary, Yes: canary, State: types.Raw(canary), Context: []ma2h.Part{ma2h.Text(canary)}}},
		"Ask":           {secretAsk(t, "k"), []ma2h.Ask{secretAsk(t, "k")}[0]},
		"Client":        {connect(t, over(always(200, "")))},
		"Config":        {ma2h.Config{Credential: ma2h.Bearer(canary), Agent: ma2h.Agent{ID: "a", Labels: map[string]string{"l": canary}}}},
		"ConflictError": {&ma2h.ConflictError{Key: "k", API: api}},
		"Credential":    {ma2h.Bearer(canary)}, "Handle": {ma2h.Handle{MessageID: "m"}},
		"Message":       {ma2h.Message{Wire: types.MessageView{Message: types.Message{Title: canary, State: types.Raw(canary)}}, Response: r}},
		"NoAnswerError": {&ma2h.NoAnswerError{ID: "m", Resolution: "declined"}},
		"Notify":        {ma2h.Notify{Title: canary, Body: canary, ClientRef: canary, Tags: []string{canary}, Context: []ma2h.Part{ma2h.Text(canary)}}},
		"Request":       {ma2h.Select(ma2h.Option{Value: canary, Label: canary}), ma2h.Input([]byte(canary))},
		"Response":      {r, *r}, "SubmitError": {&ma2h.SubmitError{Op: "ask", Key: "k", Err: api}},
		"Task":          {secretTask("k")},
		"TerminalError": {&ma2h.TerminalError{ID: "m"}}, "Verdict": {ma2h.Verdict{Comment: canary}},
	}
	for _, name := range exportedStructs(t) {
		vs, ok := values[name]
		elsewhere := false
		for _, n := range typesOfTheReturnLeg {
			elsewhere = elsewhere || n == name
		}
		if !ok && !elsewhere {
			t.Errorf("%s is new: say here how it prints", name)
		}
		for _, v := range vs {
			out := &sink{}
			out.print(name, v)
			out.check(t)
		}
	}
}

// exportedStructs are the names of all exported struct types of the package.
func exportedStructs(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	mustNot(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		src, err := os.ReadFile(path)
		mustNot(t, err)
		f, err := parser.ParseFile(token.NewFileSet(), path, src, 0)
		mustNot(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if ts, ok := n.(*ast.TypeSpec); ok && ts.Name.IsExported() {
				if _, ok := ts.Type.(*ast.StructType); ok {
					names = append(names, ts.Name.Name)
				}
			}
			return true
		})
	}
	if len(names) < 40 {
		t.Fatalf("found only %d exported structs", len(names))
	}
	return names
}
