package hubtest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/ma2htest/hubtest"
	"github.com/ma2h/ma2h-go/types"
)

// bench is the fake Hub behind a handler that breaks one thing.
type bench struct {
	t      testing.TB
	hub    *ma2htest.Hub
	target hubtest.Target
	serve  func(w http.ResponseWriter, r *http.Request, next http.Handler) // if set
	plain  bool                                                            // answers http too

	mu   sync.Mutex
	seen map[string]string // a memory for a breakage
}

// newBench is the fake Hub as it is, behind a handler that breaks nothing.
func newBench(t testing.TB, options ma2htest.Options) *bench {
	options.Start = start
	limits := options.Capability
	options.Capability = func(c *types.Capability) {
		// Small, so that hundreds of Hubs are quick.
		c.MaxBodyBytes, c.MaxPartBytes, c.Inbound = 4<<10, 8<<10, smaller(c.Inbound)
		if limits != nil {
			limits(c)
		}
	}
	b := &bench{t: t, hub: ma2htest.NewHub(t, options), seen: make(map[string]string)}
	b.target = fake(b.hub)
	b.target.HTTPClient = &http.Client{Transport: b}
	b.target.Patience = 5 * time.Second
	return b
}

func smaller(in *types.Inbound) *types.Inbound {
	if in != nil {
		in.MaxBatch = 6
	}
	return in
}

func (b *bench) once(key, value string) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.seen[key]; ok {
		return false
	}
	b.seen[key] = value
	return true
}

func (b *bench) note(key, value string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[key] = value
}

func (b *bench) noted(key string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[key]
}

// RoundTrip serves a request in the goroutine of the caller.
func (b *bench) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	if req.URL.Scheme != "https" && !b.plain {
		return nil, errors.New("no plaintext")
	}
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler {
				panic(p)
			}
			resp, err = nil, errors.Join(errors.New("the connection broke"), req.Context().Err())
		}
	}()
	in := req.Clone(req.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	in.TLS = &tls.ConnectionState{HandshakeComplete: true}
	in.Host = req.URL.Host
	w := httptest.NewRecorder()
	if b.serve == nil {
		b.hub.ServeHTTP(w, in)
	} else {
		b.serve(w, in, b.hub)
	}
	return w.Result(), nil
}

// doc is a JSON object that a breakage changes.
type doc = map[string]any

func decode(body []byte) doc {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var d doc
	if err := dec.Decode(&d); err != nil {
		return nil
	}
	return d
}

func encode(d any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		panic(err) // the body of an object that was read
	}
	return b.Bytes()
}

func inner(d doc, names ...string) doc {
	for _, n := range names {
		d, _ = d[n].(doc)
	}
	return d
}

// answer is what the Hub said, before it is passed on.
type answer struct {
	status int
	header http.Header
	doc    doc // the body; nil if it is no object
	body   []byte
}

func ask(next http.Handler, r *http.Request) *answer {
	w := httptest.NewRecorder()
	next.ServeHTTP(w, r)
	return &answer{status: w.Code, header: w.Header(), doc: decode(w.Body.Bytes()), body: w.Body.Bytes()}
}

func (a *answer) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	if a.doc != nil {
		a.body = encode(a.doc)
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

func refusal(status int, code string) *answer {
	return &answer{status: status, header: jsonHeader(), doc: doc{"error": doc{"code": code, "message": "no"}}}
}

// is reports whether a request goes to an endpoint of the Hub.
func is(r *http.Request, endpoint string) bool {
	method, pattern, _ := strings.Cut(endpoint, " ")
	want, got := strings.Split(pattern, "/"), strings.Split(r.URL.EscapedPath(), "/")
	if r.Method != method || len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != "{id}" && want[i] != got[i] {
			return false
		}
	}
	return true
}

// idOf is the {id} of a message's path.
func idOf(r *http.Request) string {
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) < 4 {
		return ""
	}
	return parts[3]
}

// The ways to break a Hub. Each returns what a breakage does to its bench.

// answers changes what the Hub says at an endpoint.
func answers(endpoint string, change func(r *http.Request, a *answer)) func(*bench) {
	return serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !is(r, endpoint) {
			next.ServeHTTP(w, r)
			return
		}
		a := ask(next, r)
		change(r, a)
		a.write(w)
	})
}

// says is answers for what is a JSON object with this status.
func says(endpoint string, status int, change func(d doc)) func(*bench) {
	return answers(endpoint, func(_ *http.Request, a *answer) {
		if a.status == status && a.doc != nil {
			change(a.doc)
		}
	})
}

// reads changes the messages of which one is pulled.
func reads(change func(m doc)) func(*bench) { return says(ma2htest.Pull, 200, change) }

// takes changes what is submitted before the Hub sees it.
func takes(change func(b *bench, e doc)) func(*bench) {
	return serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.Submit) {
			body, _ := io.ReadAll(r.Body)
			if e := decode(body); e != nil {
				change(b, e)
				body = encode(e)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}

func serves(f func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler)) func(*bench) {
	return func(b *bench) {
		b.serve = func(w http.ResponseWriter, r *http.Request, next http.Handler) { f(b, w, r, next) }
	}
}

// authorizes changes the credential of requests to an endpoint.
func authorizes(endpoint string, change func(b *bench, h http.Header)) func(*bench) {
	return serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if endpoint == "" || is(r, endpoint) {
			change(b, r.Header)
		}
		next.ServeHTTP(w, r)
	})
}

// asOne has agentTwo be taken for agentOne.
func asOne(b *bench, h http.Header) {
	if h.Get("Authorization") == "Bearer "+b.hub.Token(agentTwo) {
		h.Set("Authorization", "Bearer "+b.hub.Token(agentOne))
	}
}

// resolves changes what a human's act does.
func resolves(change func(b *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error) func(*bench) {
	return func(b *bench) {
		next := b.target.Human.Resolve
		b.target.Human.Resolve = func(ctx context.Context, r hubtest.Resolution) error {
			return change(b, r, func(r hubtest.Resolution) error { return next(ctx, r) })
		}
	}
}

// pushes changes what happens on the way to a callback.
func pushes(change func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler)) func(*bench) {
	return func(b *bench) {
		callback, webhook, pushAck := b.target.Callback, b.target.Webhook, b.target.Human.PushAck
		around := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { change(b, w, r, next) })
		}
		b.target.Callback = func(ctx context.Context, scheme string, h http.Handler) (hubtest.Callback, error) {
			return callback(ctx, scheme, around(h))
		}
		b.target.Webhook = func(ctx context.Context, h http.Handler) (func(), error) { return webhook(ctx, around(h)) }
		b.target.Human.PushAck = func(ctx context.Context, id string, h http.Handler) error { return pushAck(ctx, id, around(h)) }
	}
}

// pushed changes the body of what is pushed.
func pushed(change func(d doc)) func(*bench) {
	return pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		body, _ := io.ReadAll(r.Body)
		if d := decode(body); d != nil {
			change(d)
			body = encode(d)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// faulty arms faults of the fake.
func faulty(faults ...ma2htest.Fault) func(*bench) {
	return func(b *bench) { b.hub.Fault(faults...) }
}

func all(breaks ...func(*bench)) func(*bench) {
	return func(b *bench) {
		for _, f := range breaks {
			inner := b.serve
			b.serve = nil
			f(b)
			outer := b.serve
			b.serve = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if inner != nil {
					hub := next
					next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner(w, r, hub) })
				}
				if outer == nil {
					next.ServeHTTP(w, r)
					return
				}
				outer(w, r, next)
			}
		}
	}
}
