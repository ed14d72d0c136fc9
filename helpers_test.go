package ma2h_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
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
