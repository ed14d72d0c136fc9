package ma2htest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

const (
	bot   = "deploybot/dev-team"
	alice = "human:alice"
)

var start = time.Date(2026, 6, 4, 12, 0, 0, 0, time.UTC)

// wire is a bare client: what it sends is what the test says.
type wire struct {
	t     testing.TB
	hub   *Hub
	base  string
	http  *http.Client
	token string
}

// memory and overTLS are the two ways to the Hub.
func memory(t testing.TB, h *Hub) *wire {
	return &wire{t, h, h.MemoryURL(), &http.Client{Transport: h.Transport()}, h.Token(bot)}
}

func overTLS(t testing.TB, h *Hub) *wire {
	return &wire{t, h, h.URL(), h.Client(), h.Token(bot)}
}

func (w *wire) as(token string) *wire { c := *w; c.token = token; return &c }

type got struct {
	status int
	header http.Header
	body   []byte
}

func (w *wire) request(ctx context.Context, method, path, body string) *http.Request {
	w.t.Helper()
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.base+path, rd)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

func (w *wire) try(ctx context.Context, method, path, body string) (got, error) {
	resp, err := w.http.Do(w.request(ctx, method, path, body))
	if err != nil {
		return got{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return got{resp.StatusCode, resp.Header, b}, err
}

func (w *wire) do(method, path, body string) got {
	w.t.Helper()
	g, err := w.try(w.t.Context(), method, path, body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return g
}

func (w *wire) submit(body string) string {
	w.t.Helper()
	g := w.do("POST", "/v1/messages", body)
	if g.status != http.StatusAccepted {
		w.t.Fatalf("submit: %d %s", g.status, g.body)
	}
	return g.ack(w.t).ID
}

func (g got) ack(t testing.TB) types.SubmitAck {
	t.Helper()
	var a types.SubmitAck
	if err := types.Decode(g.body, &a); err != nil {
		t.Fatalf("%v in %s", err, g.body)
	}
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	return a
}

func (g got) view(t testing.TB) types.MessageView {
	t.Helper()
	if g.status != http.StatusOK {
		t.Fatalf("pull: %d %s", g.status, g.body)
	}
	var v types.MessageView
	if err := types.Decode(g.body, &v); err != nil {
		t.Fatalf("%v in %s", err, g.body)
	}
	if err := v.Validate(); err != nil {
		t.Fatalf("%v in %s", err, g.body)
	}
	return v
}

func (g got) wantError(t testing.TB, status int, code string) {
	t.Helper()
	var e types.ErrorBody
	if err := types.Decode(g.body, &e); err != nil {
		t.Fatalf("status %d: %v in %q", g.status, err, g.body)
	}
	if g.status != status || e.Error.Code != code {
		t.Fatalf("got %d %s, want %d %s: %s", g.status, e.Error.Code, status, code, g.body)
	}
	if e.Error.Message == "" {
		t.Fatal("the error has no message")
	}
}

// fields is a JSON object that a test changes before it sends it.
type fields map[string]any

func envelope(kind, key string, more ...fields) fields {
	f := fields{
		"ma2h_version": "0.3", "type": kind, "created_at": "2026-06-04T12:00:00Z", "title": "Ship 1.4?",
		"agent": fields{"id": bot, "run_id": "run_1", "runtime": "cli"},
	}
	if key != "" {
		f["idempotency_key"] = key
	}
	for _, m := range more {
		for k, v := range m {
			if v == nil {
				delete(f, k)
			} else {
				f[k] = v
			}
		}
	}
	return f
}

func ask(key string, more ...fields) string {
	base := fields{"request": fields{
		"mode":              "select",
		"options":           []fields{{"value": "ship", "label": "Ship"}, {"value": "hold", "label": "Hold"}},
		"allowed_resolvers": []string{alice, "agent:" + bot},
	}}
	return envelope("ask", key, append([]fields{base}, more...)...).json()
}

func confirmAsk(key string, request fields, more ...fields) string {
	r := fields{"mode": "confirm", "allowed_resolvers": []string{alice}}
	for k, v := range request {
		r[k] = v
	}
	return envelope("ask", key, append([]fields{{"request": r}}, more...)...).json()
}

func task(key string, more ...fields) string {
	base := fields{"action": fields{"instructions": "Rotate the key.", "allowed_resolvers": []string{alice}}}
	return envelope("task", key, append([]fields{base}, more...)...).json()
}

func notify(key string, more ...fields) string { return envelope("notify", key, more...).json() }

func (f fields) json() string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(f); err != nil {
		panic(err)
	}
	return b.String()
}

func in(d time.Duration) string { return start.Add(d).Format(time.RFC3339Nano) }

func isError(err, want error) bool { return errors.Is(err, want) }
