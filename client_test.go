package ma2h_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

const (
	asker = "deploybot/dev-team"
	alice = "human:alice"
)

// connect makes a Client; edits change its Config before.
func connect(t testing.TB, cfg ma2h.Config, edits ...func(*ma2h.Config)) *ma2h.Client {
	t.Helper()
	for _, edit := range edits {
		edit(&cfg)
	}
	c, err := ma2h.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bubble runs f in a bubble of fake time with a Hub in memory.
func bubble(t *testing.T, opts ma2htest.Options, f func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := ma2htest.NewHub(t, opts)
		f(t, hub, connect(t, hub.Config(asker)))
	})
}

func shipOrHold(key string) ma2h.Ask {
	return ma2h.Ask{
		Title: "Ship 1.4 to prod?", IdempotencyKey: key, AllowedResolvers: []string{alice},
		Request: ma2h.Select(ma2h.Option{Value: "ship", Label: "Ship now"}, ma2h.Option{Value: "hold", Label: "Hold"}),
	}
}

func rotate(key string) ma2h.Task {
	return ma2h.Task{
		Title: "Rotate the key", IdempotencyKey: key, AllowedResolvers: []string{alice},
		Action: ma2h.Action{Instructions: "Rotate it by hand", Checklist: []string{"make", "swap"}, Verification: "the old one fails"},
	}
}

func mustAsk(t testing.TB, c *ma2h.Client, a ma2h.Ask) string {
	t.Helper()
	ack, err := c.Ask(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return ack.ID
}

func mustNot(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// roundTrip is an http.RoundTripper of one func.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stub is a Hub of canned answers: one that offers everything, and what answer
// says to every other call. It counts the calls that are not for discovery.
type stub struct {
	version string // default 0.4
	answer  func(*http.Request) *http.Response
	calls   atomic.Int64
}

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	version := s.version
	if version == "" {
		version = "0.4"
	}
	var resp *http.Response
	if strings.HasSuffix(r.URL.Path, "/.well-known/ma2h") && version != "none" {
		resp = canned(200, `{"ma2h_version":"`+version+`","ack":{"enabled":true},"presence":{"enabled":true}}`)
	} else {
		s.calls.Add(1)
		resp = s.answer(r)
	}
	resp.Request = r
	return resp, nil
}

func canned(status int, body string, header ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

// always answers every call alike.
func always(status int, body string, header ...string) *stub {
	return &stub{answer: func(*http.Request) *http.Response { return canned(status, body, header...) }}
}

func (s *stub) config() ma2h.Config { return over(s) }

func over(rt http.RoundTripper) ma2h.Config {
	return ma2h.Config{
		HubURL: "https://hub.test", Credential: ma2h.Bearer("token"),
		Agent: ma2h.Agent{ID: asker, RunID: "run_1"}, HTTPClient: &http.Client{Transport: rt},
	}
}

// bodies counts the answers whose body is open, and every request.
type bodies struct {
	base     http.RoundTripper
	open     atomic.Int64
	requests atomic.Int64
}

func (b *bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	b.requests.Add(1)
	resp, err := b.base.RoundTrip(r)
	if err == nil {
		b.open.Add(1)
		resp.Body = &openBody{ReadCloser: resp.Body, count: &b.open}
	}
	return resp, err
}

type openBody struct {
	io.ReadCloser
	count *atomic.Int64
	once  sync.Once
}

func (o *openBody) Close() error {
	o.once.Do(func() { o.count.Add(-1) })
	return o.ReadCloser.Close()
}

// pulls counts the recorded polls.
func pulls(hub *ma2htest.Hub) int { return count(hub, ma2htest.Pull) }

func count(hub *ma2htest.Hub, endpoint string) (n int) {
	for _, r := range hub.Requests() {
		if endpoint == "" || r.Endpoint == endpoint {
			n++
		}
	}
	return n
}

// wants fails unless err is exactly one of the sentinels, this one.
func wants(t testing.TB, err, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Fatalf("%v, want %v", err, sentinel)
	}
}

// wantsField fails unless err is a FieldError on the field.
func wantsField(t testing.TB, err error, field string) {
	t.Helper()
	fe, ok := errors.AsType[*ma2h.FieldError](err)
	if !ok || !strings.Contains(fe.Field, field) {
		t.Fatalf("%v, want a FieldError on %s", err, field)
	}
}

// req: SUB-01 SUB-02 SUB-03 PUL-01 ENV-01
func TestAnAskIsAnsweredAndAcknowledged(t *testing.T) {
	for _, version := range []string{types.V02, types.V03, types.V04} {
		bubble(t, ma2htest.Options{Version: version}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			ctx := t.Context()
			ack, err := c.Ask(ctx, shipOrHold("k"))
			mustNot(t, err)
			if ack.Status != types.StatusOpen || ack.Key != "k" || ack.ID == "" || ack.PollURL == "" || ack.ReviewURL == "" {
				t.Fatalf("%+v", ack)
			}
			go func() {
				time.Sleep(90 * time.Second)
				if err := hub.Answer(ack.ID, "ship", ma2htest.By(alice), ma2htest.Comment("go")); err != nil {
					t.Error(err)
				}
			}()
			r, err := c.Wait(ctx, ack.ID)
			mustNot(t, err)
			if !r.Answered("ship") || r.Answered("hold") || !r.By(alice) || r.By("human:bob") || r.Defaulted() || !r.Pulled() || r.Comment() != "go" {
				t.Errorf("%v", r)
			}
			m, err := c.Message(ctx, ack.ID)
			mustNot(t, err)
			if m.Wire.Status != types.StatusAnswered || m.Response.ResolutionID() != r.ResolutionID() || m.Wire.Version == types.V04 {
				t.Errorf("%+v", m)
			}
			receipt, err := c.Acknowledge(ctx, ack.ID, "on it")
			if version != types.V04 {
				wants(t, err, ma2h.ErrUnsupported)
				hub.RequireRequests(t, ma2htest.Ack, 0)
				return
			}
			mustNot(t, err)
			if receipt.Note != "on it" || receipt.ResolutionID != r.ResolutionID() || receipt.By != "agent:"+asker {
				t.Errorf("%+v", receipt)
			}
			hub.RequireDelivery(t, ack.ID, types.Acknowledged)
		})
	}
}

// req: SUB-03 TSK-01 RES-03
func TestANotifyIsDeliveredAndATaskEnds(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		ctx := t.Context()
		ack, err := c.Notify(ctx, ma2h.Notify{Title: "Digest", Body: "**all well**"})
		mustNot(t, err)
		if ack.Status != types.StatusDelivered || ack.Key != "" {
			t.Fatalf("%+v", ack)
		}
		if _, err := c.Wait(ctx, ack.ID); !errors.Is(err, ma2h.ErrNoAnswer) {
			t.Fatalf("a notify has no answer: %v", err)
		}
		for _, end := range []ma2h.Resolution{ma2h.Completed, ma2h.Dismissed} {
			ack, err := c.Task(ctx, rotate(string(end)))
			mustNot(t, err)
			act := hub.Complete
			if end == ma2h.Dismissed {
				act = hub.Dismiss
			}
			mustNot(t, act(ack.ID, ma2htest.By(alice)))
			r, err := c.Wait(ctx, ack.ID)
			mustNot(t, err)
			if r.Resolution() != end || r.Answered("") || r.Defaulted() || r.MessageID() != ack.ID {
				t.Errorf("%v, want %s", r, end)
			}
			if _, ok := r.Text(); ok || r.ResolutionID() == "" {
				t.Error("a task has a value, or no resolution id")
			}
		}
	})
}

// req: ENV-22 SUB-12 ENV-17 ENV-10 ENV-11
// report: B018
func TestWhatIsSentIsWhatTheCallerSaidAndNoMore(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		hub.Fault(ma2htest.LoseAck(2))
		a := shipOrHold("k")
		data, err := ma2h.Data(map[string]any{"b": time.Now(), "a": 1, "c": map[string]int{"z": 1, "y": 2}})
		mustNot(t, err)
		a.Context = []ma2h.Part{ma2h.Text("log"), data, ma2h.File("https://files.test/plan.txt", "plan", "text/plain")}
		a.State = types.Raw(`{"n":9007199254740993,"s":"A"}`)
		a.Tags = []string{"one"}
		id := mustAsk(t, c, a)
		var sent [][]byte
		for _, r := range hub.Requests() {
			if r.Endpoint == ma2htest.Submit {
				sent = append(sent, r.Body)
			}
		}
		if len(sent) != 3 || !bytes.Equal(sent[0], sent[1]) || !bytes.Equal(sent[0], sent[2]) {
			t.Fatalf("%d attempts, not all the same bytes", len(sent))
		}
		hub.RequireMessages(t, 1)
		text := string(sent[0])
		for _, absent := range []string{`"priority"`, `"id":"msg`, `"status"`, `"from"`, `"sensitive"`, `"callback"`, `"expires_at"`, `"default_on_expire"`} {
			if strings.Contains(text, absent) {
				t.Errorf("%s was sent: %s", absent, text)
			}
		}
		if !strings.Contains(text, `"ma2h_version":"0.3"`) || !strings.Contains(text, `9007199254740993`) {
			t.Errorf("%s", text)
		}
		// The Hub never fetches a file, and neither does the agent.
		hub.RequireRequests(t, "", 4)
		if m, err := c.Message(t.Context(), id); err != nil || string(m.Wire.State) == "" {
			t.Errorf("%v", err)
		}
	})
}

// req: DISC-12 DISC-13 PUL-07
func TestAnIdIsOneSegmentOfThePathWhateverItHolds(t *testing.T) {
	ids := map[string]string{
		"a/b": "a%2Fb", "a%2Fb": "a%252Fb", "🚀": "%F0%9F%9A%80", "a b?c#d": "a%20b%3Fc%23d", "..a": "..a", "...": "...", "a/../../b": "a%2F..%2F..%2Fb", "a\nb": "a%0Ab",
	}
	for _, prefix := range []string{"", "/hub", "/a%2Fb/", "/one//two"} {
		for id, want := range ids {
			var path string
			s := &stub{answer: func(r *http.Request) *http.Response {
				path = r.URL.EscapedPath()
				return canned(404, `{"error":{"code":"not_found","message":""}}`)
			}}
			c := connect(t, s.config(), func(cfg *ma2h.Config) { cfg.HubURL += prefix })
			base := strings.TrimRight(prefix, "/")
			_, err := c.Message(t.Context(), id)
			wants(t, err, ma2h.ErrNotFound)
			if path != base+"/v1/messages/"+want {
				t.Errorf("GET of %q went to %s", id, path)
			}
			wants(t, c.Cancel(t.Context(), id), ma2h.ErrNotFound)
			if path != base+"/v1/messages/"+want+"/cancel" {
				t.Errorf("cancel of %q went to %s", id, path)
			}
			_, err = c.Presence(t.Context(), id)
			wants(t, err, ma2h.ErrNotFound)
			if path != base+"/v1/agents/"+want+"/presence" {
				t.Errorf("presence of %q went to %s", id, path)
			}
		}
	}
}

func TestAnIdThatCannotBeASegmentIsRefusedAndNothingSent(t *testing.T) {
	s := always(200, `{}`)
	c := connect(t, s.config())
	ctx := t.Context()
	for _, id := range []string{"", ".", "..", strings.Repeat("x", 513)} {
		_, err := c.Message(ctx, id)
		wantsField(t, err, "id")
		_, err = c.Wait(ctx, id)
		wantsField(t, err, "id")
		_, err = c.Acknowledge(ctx, id, "")
		wantsField(t, err, "id")
		_, err = c.Presence(ctx, id)
		wantsField(t, err, "id")
		wantsField(t, c.Cancel(ctx, id), "id")
	}
	if n := s.calls.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
	if _, err := c.Message(ctx, strings.Repeat("x", 512)); !errors.Is(err, ma2h.ErrProtocol) || s.calls.Load() != 1 {
		t.Errorf("an id of 512 bytes: %v", err)
	}
}

// req: PUL-06 PUL-07 CAN-01 ACK-01
func TestAMessageOfAnotherAgentIsNotFoundAndStaysAsItIs(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		id := mustAsk(t, c, shipOrHold("k"))
		other := connect(t, hub.Config("other/bot"))
		ctx := t.Context()
		for _, id := range []string{id, "msg_unknown"} {
			_, err := other.Message(ctx, id)
			wants(t, err, ma2h.ErrNotFound)
			_, err = other.Wait(ctx, id)
			wants(t, err, ma2h.ErrNotFound)
			wants(t, other.Cancel(ctx, id), ma2h.ErrNotFound)
			_, err = other.Acknowledge(ctx, id, "")
			wants(t, err, ma2h.ErrNotFound)
		}
		hub.RequireStatus(t, id, types.StatusOpen)
		if !hub.Forget(id) {
			t.Fatal("nothing to forget")
		}
		_, err := c.Message(ctx, id)
		wants(t, err, ma2h.ErrGone)
		_, err = c.Wait(ctx, id)
		wants(t, err, ma2h.ErrGone)
	})
}

// view is a GET body of an ask, edited by replacing text.
func view(edits ...string) string {
	text := `{"ma2h_version":"0.3","type":"ask","created_at":"2026-06-01T12:00:00Z","agent":{"id":"deploybot/dev-team","run_id":"run_1","runtime":"other"},` +
		`"title":"Ship?","idempotency_key":"k","request":{"mode":"confirm","allowed_resolvers":["human:alice"]},"id":"msg_1","status":"answered",` +
		`"response":{"ma2h_version":"0.3","in_reply_to":"msg_1","resolution_id":"res_1","agent":{"id":"deploybot/dev-team","run_id":"run_1"},"resolution":"answered",` +
		`"response":{"value":"approve","actor":"human:alice","resolved_at":"2026-06-01T13:00:00Z"}}}`
	for i := 0; i+1 < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			panic("no " + edits[i])
		}
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	return text
}

// req: PUL-01 PUL-08 PUL-09 PUL-13 RES-01 RES-02 RES-03 RES-04 RES-05 RES-06 VER-01
func TestAPulledMessageThatContradictsItselfIsNotActedOn(t *testing.T) {
	ok := map[string]string{
		"as it is":                   view(),
		"unknown members":            view(`"status"`, `"later":{"x":1},"status"`),
		"a later minor":              view(`"ma2h_version":"0.3","in_reply_to"`, `"ma2h_version":"0.9","in_reply_to"`),
		"a bare resolution id":       view(`res_1`, `f47ac10b`),
		"with a delivery track":      view(`"status"`, `"delivery":{"state":"delivered-to-agent","delivered_at":"2026-06-01T13:00:00Z"},"status"`),
		"a comment and edited":       view(`"actor"`, `"comment":"hm","edited":true,"actor"`),
		"the advisory agent differs": view(`"agent":{"id":"deploybot/dev-team","run_id":"run_1"},"resolution"`, `"agent":{"id":"evil","run_id":"x"},"resolution"`),
	}
	bad := map[string]string{
		"another id":                     view(`"id":"msg_1"`, `"id":"msg_2"`),
		"a reply to another":             view(`"in_reply_to":"msg_1"`, `"in_reply_to":"msg_2"`),
		"another resolution than status": view(`"status":"answered"`, `"status":"declined"`),
		"no response":                    strings.Replace(view(), `"response":{"ma2h`, `"later":{"ma2h`, 1),
		"a null response":                view()[:strings.Index(view(), `"response":{"ma2h`)] + `"response":null}`,
		"a status of a task":             view(`"answered"`, `"completed"`),
		"a status of an addressed one":   strings.Replace(view(), `"status":"answered"`, `"status":"delivered"`, 1),
		"open with a response":           view(`"status":"answered"`, `"status":"open"`),
		"no resolution id":               view(`"res_1"`, `""`),
		"no actor":                       view(`"actor":"human:alice",`, ``),
		"an actor without a kind":        view(`"actor":"human:alice"`, `"actor":"alice"`),
		"no resolved_at":                 view(`,"resolved_at":"2026-06-01T13:00:00Z"`, ``),
		"no value":                       view(`"value":"approve",`, ``),
		"a value that is a number":       view(`"value":"approve"`, `"value":1`),
		"a value twice":                  view(`"value":"approve"`, `"value":"approve","value":"deny"`),
		"defaulted by a human":           view(`"resolution":"answered"`, `"resolution":"answered","defaulted":true`),
		"another major":                  view(`"0.3"`, `"1.0"`),
		"a checklist on an ask":          view(`"actor"`, `"checklist":[{"text":"x","done":true}],"actor"`),
		"acknowledged without an ack":    view(`"status"`, `"delivery":{"state":"acknowledged","acknowledged_at":"2026-06-01T13:00:00Z"},"status"`),
		"an array":                       `[]`,
		"nothing":                        ``,
		"half":                           view()[:100],
		"a number out of range":          view(`"status"`, `"later":1e400,"status"`),
	}
	for name, body := range ok {
		c := connect(t, always(200, body).config())
		if r, err := c.Wait(t.Context(), "msg_1"); err != nil || !r.Answered("approve") || !r.By(alice) {
			t.Errorf("%s: %v %v", name, r, err)
		}
	}
	for name, body := range bad {
		s := always(200, body)
		c := connect(t, s.config())
		m, err := c.Message(t.Context(), "msg_1")
		if m != nil || !errors.Is(err, ma2h.ErrProtocol) {
			t.Errorf("Message, %s: %v %v", name, m, err)
		}
		r, err := c.Wait(t.Context(), "msg_1")
		if r != nil || !errors.Is(err, ma2h.ErrProtocol) {
			t.Errorf("Wait, %s: %v %v", name, r, err)
		}
		if n := s.calls.Load(); n != 2 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}

// req: VER-07 VER-08 PUL-09
func TestAStatusOfALaterMinorIsNeitherAnEndNorASuccess(t *testing.T) {
	for _, status := range []string{"escalated", "queued", "Answered", "answered ", "bounced"} {
		synctest.Test(t, func(t *testing.T) {
			s := always(200, view(`"status":"answered"`, `"status":"`+status+`"`))
			c := connect(t, s.config())
			m, err := c.Message(t.Context(), "msg_1")
			if err != nil || m.Response != nil || m.Wire.Response != nil || string(m.Wire.Status) != status {
				t.Errorf("%q: %+v %v", status, m, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if r, err := c.Wait(ctx, "msg_1"); r != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%q: %v %v", status, r, err)
			}
			// 3600 s at no less than 7.5 s each, after a start of growing gaps.
			if n := s.calls.Load(); n > 500 || n < 200 {
				t.Errorf("%q: %d polls in an hour", status, n)
			}
		})
	}
}

// report: B012
// req: DISC-13 DISC-14
func TestNoCredentialLeavesTheConfiguredOrigin(t *testing.T) {
	var foreign atomic.Int64
	rt := func(answer func(r *http.Request) *http.Response) roundTrip {
		return func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "hub.test" {
				foreign.Add(1)
			}
			s := stub{answer: answer}
			return s.RoundTrip(r)
		}
	}
	creds := []ma2h.Credential{
		ma2h.Bearer("t"), ma2h.APIKey("k"), ma2h.APIKeyHeader("X-Hub-Key", "k"),
		ma2h.BearerFunc(func(context.Context) (string, error) { return "t", nil }),
	}
	for _, cred := range creds {
		for _, code := range []int{301, 302, 303, 307, 308} {
			cfg := over(rt(func(*http.Request) *http.Response {
				return canned(code, `{}`, "Location", "https://evil.test/v1/messages")
			}))
			cfg.Credential = cred
			// A caller who would follow is not asked.
			cfg.HTTPClient.CheckRedirect = func(*http.Request, []*http.Request) error { return nil }
			c := connect(t, cfg)
			_, err := c.Ask(t.Context(), shipOrHold("k"))
			wants(t, err, ma2h.ErrRedirect)
			_, err = c.Wait(t.Context(), "msg_1")
			wants(t, err, ma2h.ErrRedirect)
			_, err = c.Acknowledge(t.Context(), "msg_1", "")
			wants(t, err, ma2h.ErrRedirect)
			wants(t, c.Cancel(t.Context(), "msg_1"), ma2h.ErrRedirect)
		}
	}
	c := connect(t, over(rt(func(r *http.Request) *http.Response {
		if r.Method == http.MethodPost {
			return canned(202, `{"id":"msg_1","status":"open","poll_url":"https://evil.test/v1/messages/msg_1","review_url":"https://evil.test/r"}`)
		}
		return canned(200, view())
	})))
	ack, err := c.Ask(t.Context(), shipOrHold("k"))
	mustNot(t, err)
	if _, err := c.Wait(t.Context(), ack.ID); err != nil {
		t.Error(err)
	}
	if n := foreign.Load(); n != 0 {
		t.Errorf("%d requests to another origin", n)
	}
}

// req: SUB-04 DISC-01
func TestACredentialIsSentWithEveryCallButDiscovery(t *testing.T) {
	type sent struct{ path, header string }
	tests := []struct {
		cred   ma2h.Credential
		header string
		want   string
	}{
		{ma2h.Bearer("tok-1"), "Authorization", "Bearer tok-1"},
		{ma2h.APIKey("key-1"), "X-Api-Key", "key-1"},
		{ma2h.APIKeyHeader("x-hub-key", "key-2"), "X-Hub-Key", "key-2"},
		{ma2h.BearerFunc(func(context.Context) (string, error) { return "tok-2", nil }), "Authorization", "Bearer tok-2"},
	}
	for _, tt := range tests {
		var all []sent
		s := &stub{answer: func(r *http.Request) *http.Response {
			return canned(401, `{"error":{"code":"unauthenticated","message":""}}`)
		}}
		cfg := over(roundTrip(func(r *http.Request) (*http.Response, error) {
			all = append(all, sent{r.URL.Path, strings.Join(r.Header.Values(tt.header), ",")})
			for _, h := range []string{"Authorization", "X-Api-Key", "X-Hub-Key"} {
				if h != tt.header && r.Header.Get(h) != "" {
					t.Errorf("%s beside %s", h, tt.header)
				}
			}
			return s.RoundTrip(r)
		}))
		cfg.Credential = tt.cred
		c := connect(t, cfg)
		ctx := t.Context()
		_, e1 := c.Notify(ctx, ma2h.Notify{Title: "x"})
		_, e2 := c.Message(ctx, "m")
		_, e3 := c.Wait(ctx, "m")
		_, e4 := c.Acknowledge(ctx, "m", "")
		_, e5 := c.Presence(ctx, "a/b")
		for _, err := range []error{e1, e2, e3, e4, e5, c.Cancel(ctx, "m")} {
			wants(t, err, ma2h.ErrUnauthenticated)
		}
		if len(all) != 7 {
			t.Fatalf("%d requests: a 401 is final", len(all))
		}
		for _, r := range all {
			want := tt.want
			if r.path == "/.well-known/ma2h" {
				want = ""
			}
			if r.header != want {
				t.Errorf("%s carried %q, want %q", r.path, r.header, want)
			}
		}
	}
}

func TestATokenThatCannotBeHadEndsTheCallAndNothingIsSent(t *testing.T) {
	down := errors.New("token service down")
	for name, f := range map[string]func(context.Context) (string, error){
		"an error":       func(context.Context) (string, error) { return "", down },
		"empty":          func(context.Context) (string, error) { return "", nil },
		"a line end":     func(context.Context) (string, error) { return "tok\n", nil },
		"a header in it": func(context.Context) (string, error) { return "tok\r\nX-Evil: 1", nil },
	} {
		s := always(200, `{}`)
		cfg := s.config()
		cfg.Credential = ma2h.BearerFunc(f)
		c := connect(t, cfg)
		_, err1 := c.Notify(t.Context(), ma2h.Notify{Title: "x"})
		_, err2 := c.Wait(t.Context(), "msg_1")
		for _, err := range []error{err1, err2, c.Cancel(t.Context(), "msg_1")} {
			if name == "an error" {
				wants(t, err, down)
			} else {
				wantsField(t, err, "Credential")
			}
			if strings.Contains(fmt.Sprint(err), "tok") && name != "an error" {
				t.Errorf("%s: the token is in %v", name, err)
			}
		}
		if n := s.calls.Load(); n != 0 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}

// req: ACK-01 ACK-02 ACK-03 ACK-04
func TestAnAcknowledgmentIsHeldToItsRules(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		ctx := t.Context()
		id := mustAsk(t, c, shipOrHold("k"))
		_, err := c.Acknowledge(ctx, id, "")
		wants(t, err, ma2h.ErrNotAcknowledgeable)
		mustNot(t, hub.Answer(id, "ship"))
		_, err = c.Wait(ctx, id)
		mustNot(t, err)
		hub.Fault(ma2htest.LoseAck(1).On(ma2htest.Ack))
		first, err := c.Acknowledge(ctx, id, strings.Repeat("x", 4096))
		mustNot(t, err)
		second, err := c.Acknowledge(ctx, id, "other")
		mustNot(t, err)
		if *first != *second {
			t.Errorf("the first stands: %+v, %+v", first, second)
		}
		before := count(hub, ma2htest.Ack)
		_, err = c.Acknowledge(ctx, id, strings.Repeat("x", 4097))
		wantsField(t, err, "note")
		_, err = c.Acknowledge(ctx, id, "\xff")
		wants(t, err, ma2h.ErrMalformed)
		hub.RequireRequests(t, ma2htest.Ack, before)
	})
	receipt := `{"ma2h_version":"0.4","type":"ack","in_reply_to":"msg_1","by":"agent:x","acked_at":"2026-06-01T12:00:00Z"}`
	for name, body := range map[string]string{
		"of another message": strings.Replace(receipt, "msg_1", "msg_2", 1),
		"of another type":    strings.Replace(receipt, `"ack"`, `"nack"`, 1),
		"at 0.3":             strings.Replace(receipt, `0.4`, `0.3`, 1),
		"by nobody":          strings.Replace(receipt, `agent:x`, `x`, 1),
		"without a time":     strings.Replace(receipt, `2026-06-01T12:00:00Z`, ``, 1),
		"no JSON":            `ok`,
	} {
		c := connect(t, always(200, body).config())
		if a, err := c.Acknowledge(t.Context(), "msg_1", ""); a != nil || !errors.Is(err, ma2h.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := connect(t, always(200, receipt).config())
	if _, err := c.Acknowledge(t.Context(), "msg_1", ""); err != nil {
		t.Error(err)
	}
}

// req: VER-05
func TestPresenceIsForTheOwnerAndItsOwnAgent(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		id := mustAsk(t, c, shipOrHold("k"))
		_, err := c.Wait(ctx, id)
		wants(t, err, context.DeadlineExceeded)
		owner := connect(t, hub.Config(asker), func(cfg *ma2h.Config) { cfg.Credential = ma2h.Bearer(hub.OwnerToken()) })
		p, err := owner.Presence(t.Context(), asker)
		mustNot(t, err)
		if p.State != types.Online || p.AgentID != asker {
			t.Errorf("%+v", p)
		}
		p, err = c.Presence(t.Context(), asker)
		mustNot(t, err)
		if p.State != types.Unknown {
			t.Errorf("an agent learns %+v", p)
		}
	})
	p := `{"agent_id":"a/b","state":"online","last_seen":"2026-06-01T12:00:00Z","freshness_seconds":90}`
	for name, tt := range map[string]struct {
		body string
		want error
	}{
		"as it is":      {p, nil},
		"another's":     {strings.Replace(p, "a/b", "a/c", 1), ma2h.ErrProtocol},
		"no such state": {strings.Replace(p, `"online"`, `"ONLINE"`, 1), ma2h.ErrProtocol},
		"no JSON":       {`<html>`, ma2h.ErrProtocol},
	} {
		c := connect(t, always(200, tt.body).config())
		if got, err := c.Presence(t.Context(), "a/b"); !errors.Is(err, tt.want) || (err == nil) != (got != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
