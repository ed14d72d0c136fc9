package ma2h_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// callbackRig is a handler on stores that keep a diary.
type callbackRig struct {
	*CallbackHandler
	store *spyStore
	clock *trustClock
	acted []string
	act   func(context.Context, *Response) error // nil: it succeeds
	log   *syncBuffer
	mu    sync.Mutex
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newCallbackRig(t testing.TB, options ...func(*CallbackConfig, *VerifierConfig)) *callbackRig {
	t.Helper()
	r := &callbackRig{clock: newTrustClock(), log: &syncBuffer{}}
	r.store = newSpyStore(t, r.clock.Now)
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	vc := VerifierConfig{
		Keys: Keys(HMACKey(trustSecret)), DirectiveKeys: Keys(HMACKey(trustSecret)), CallbackURL: trustURL, AgentID: trustAgent,
		Replay: r.store, Now: r.clock.Now, Logger: logger,
	}
	cc := CallbackConfig{Ledger: r.store}
	cc.Handle = func(ctx context.Context, resp *Response) error {
		r.mu.Lock()
		r.acted = append(r.acted, resp.ResolutionID())
		act := r.act
		r.mu.Unlock()
		if act != nil {
			return act(ctx, resp)
		}
		return nil
	}
	cc.HandleDirective = func(_ context.Context, d *Directive) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.acted = append(r.acted, d.ID())
		return nil
	}
	cc.Authorize = AllowFrom("human:alice")
	for _, o := range options {
		o(&cc, &vc)
	}
	v, err := NewVerifier(vc)
	if err != nil {
		t.Fatal(err)
	}
	if cc.Verifier == nil {
		cc.Verifier = v
	}
	if r.CallbackHandler, err = NewCallbackHandler(cc); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *callbackRig) acts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.acted)
}

// post sends a push as a Hub does.
func (r *callbackRig) post(head http.Header, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, "/anywhere", strings.NewReader(body))
	req.Header = head.Clone()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w
}

func trustHead(t testing.TB, jti string) http.Header {
	return hubSigner{}.header(t, "response", trustBody, trustUnix, jti)
}

// req: HND-01 HND-05 HND-06 HND-09 HND-11 RES-10
// report: B066
func TestEachPushGetsTheAnswerThatKeepsTheHubRight(t *testing.T) {
	second := strings.Replace(trustBody, "res_01HZXR3SOLVE", "res_second", 1)
	foreign := strings.Replace(trustDirective, "agent:deploybot/dev-team", "agent:other/bot", 1)
	stranger := strings.Replace(trustDirective, "human:alice", "human:mallory", 1)
	shapeless := strings.Replace(trustBody, `"answered"`, `"ignored"`, 1)
	old := strings.Replace(trustBody, `"0.3"`, `"0.2"`, 1)
	next := strings.Replace(trustBody, `"0.3"`, `"1.0"`, 1)
	s := hubSigner{}
	for _, row := range []struct {
		name   string
		head   http.Header
		body   string
		before func(*callbackRig)
		status int
		reason error
		acted  int
		diary  string
	}{
		{"a genuine push", trustHead(t, "j"), trustBody, nil, 200, nil, 1, "[Lookup ClaimJTI Reserve Commit SettleJTI true]"},
		{"a push acted on before, the same bytes", trustHead(t, "j"), trustBody, func(r *callbackRig) { r.post(trustHead(t, "j"), trustBody) }, 200, ErrAlreadyActed, 1, "[Lookup]"},
		{"a push acted on before, signed anew", trustHead(t, "k"), trustBody, func(r *callbackRig) { r.post(trustHead(t, "j"), trustBody) }, 200, ErrAlreadyActed, 1, "[Lookup]"},
		{"a second decision", s.header(t, "response", second, trustUnix, "k"), second, func(r *callbackRig) { r.post(trustHead(t, "j"), trustBody) }, 400, ErrSecondResolution, 1, "[Lookup]"},
		{"a replay that nobody acted on", trustHead(t, "j"), trustBody, func(r *callbackRig) {
			if _, err := r.Configured().Verifier.Response(t.Context(), trustHead(t, "j"), []byte(trustBody)); err != nil {
				t.Fatal(err)
			}
		}, 401, ErrReplay, 0, "[Lookup ClaimJTI Lookup]"},
		{"no signature", http.Header{"Content-Type": {"application/json"}}, trustBody, nil, 401, ErrSignature, 0, "[]"},
		{"a forged signature", hubSigner{secret: "the secret of a forger"}.header(t, "response", trustBody, trustUnix, "j"), trustBody, nil, 401, ErrSignature, 0, "[]"},
		{"an old signature", s.header(t, "response", trustBody, trustUnix-121, "j"), trustBody, nil, 401, ErrStale, 0, "[]"},
		{"a changed value", trustHead(t, "j"), strings.Replace(trustBody, `"hold"`, `"ship"`, 1), nil, 401, ErrSignature, 0, "[]"},
		{"a body that is cut", trustHead(t, "j"), trustBody[:100], nil, 400, ErrMalformed, 0, "[]"},
		{"a forbidden shape", s.header(t, "response", shapeless, trustUnix, "j"), shapeless, nil, 400, ErrMalformed, 0, "[]"},
		{"a push of 0.2", s.header(t, "response", old, trustUnix, "j"), old, nil, 400, ErrUnboundPayload, 0, "[]"},
		{"another major", s.header(t, "response", next, trustUnix, "j"), next, nil, 400, ErrVersion, 0, "[]"},
		{"a body too large", trustHead(t, "j"), trustBody + strings.Repeat(" ", 1<<20), nil, 413, ErrTooLarge, 0, "[]"},
		{"no content type", http.Header{"Ma2h-Signature": trustHead(t, "j")["Ma2h-Signature"]}, trustBody, nil, 415, ErrType, 0, "[]"},
		{"a form", http.Header{"Ma2h-Signature": trustHead(t, "j")["Ma2h-Signature"], "Content-Type": {"application/x-www-form-urlencoded"}}, trustBody, nil, 415, ErrType, 0, "[]"},
		{"a content type with a charset", http.Header{"Ma2h-Signature": trustHead(t, "j")["Ma2h-Signature"], "Content-Type": {"Application/JSON; charset=utf-8"}}, trustBody, nil, 200, nil, 1, "[Lookup ClaimJTI Reserve Commit SettleJTI true]"},
		{"a content type with a broken parameter", http.Header{"Ma2h-Signature": trustHead(t, "j")["Ma2h-Signature"], "Content-Type": {"application/json; charset"}}, trustBody, nil, 200, nil, 1, "[Lookup ClaimJTI Reserve Commit SettleJTI true]"},
		{"a directive", s.header(t, "directive", trustDirective, trustUnix, "j"), trustDirective, nil, 200, nil, 1, "[Lookup ClaimJTI Reserve Commit SettleJTI true]"},
		{"a directive for another agent", s.header(t, "directive", foreign, trustUnix, "j"), foreign, nil, 403, ErrAddressee, 0, "[]"},
		{"a directive of a stranger", s.header(t, "directive", stranger, trustUnix, "j"), stranger, nil, 403, ErrNotAuthorized, 0, "[]"},
		{"a directive without a signature", http.Header{"Content-Type": {"application/json"}}, trustDirective, nil, 401, ErrSignature, 0, "[]"},
		{"a Response that says it is a directive", s.header(t, "response", strings.Replace(trustBody, `{`, `{"type":"directive",`, 1), trustUnix, "j"), strings.Replace(trustBody, `{`, `{"type":"directive",`, 1), nil, 400, ErrVersion, 0, "[]"},
		{"the store down at the look-up", trustHead(t, "j"), trustBody, func(r *callbackRig) { r.store.failing("Lookup", errors.New("down")) }, 503, ErrStoreUnavailable, 0, "[Lookup]"},
		{"the store down at the replay claim", trustHead(t, "j"), trustBody, func(r *callbackRig) { r.store.failing("ClaimJTI", errors.New("down")) }, 503, ErrStoreUnavailable, 0, "[Lookup ClaimJTI]"},
		{"the store full", trustHead(t, "j"), trustBody, func(r *callbackRig) { r.store.failing("ClaimJTI", ErrStoreFull) }, 503, ErrStoreFull, 0, "[Lookup ClaimJTI]"},
		{"the store down at the reservation", trustHead(t, "j"), trustBody, func(r *callbackRig) { r.store.failing("Reserve", errors.New("down")) }, 503, ErrStoreUnavailable, 0, "[Lookup ClaimJTI Reserve SettleJTI false]"},
		{"a store whose error is a final one", trustHead(t, "j"), trustBody, func(r *callbackRig) {
			r.store.failing("Reserve", fmt.Errorf("%w %w %w", ErrMalformed, ErrAlreadyActed, ErrSignature))
		}, 503, ErrStoreUnavailable, 0, "[Lookup ClaimJTI Reserve SettleJTI false]"},
		{"a push while another is at it", trustHead(t, "k"), trustBody, func(r *callbackRig) {
			reserve(t, r.store, ActOf(pushed(t, trustBody), trustAgent))
		}, 503, ErrInFlight, 0, "[Lookup ClaimJTI Reserve SettleJTI false]"},
		{"a push whose bytes are being acted on", trustHead(t, "j"), trustBody, func(r *callbackRig) {
			Claims(t, r.store.Store, "jti\x00Keys\x00"+trustAgent+"\x00j", time.Minute, Fresh)
		}, 503, ErrInFlight, 0, "[Lookup ClaimJTI]"},
		{"a push whose holder vanished", trustHead(t, "k"), trustBody, func(r *callbackRig) {
			reserve(t, r.store, ActOf(pushed(t, trustBody), trustAgent))
			r.clock.Add(time.Minute)
		}, 503, ErrInDoubt, 0, "[Lookup ClaimJTI Reserve SettleJTI false]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, way := range []string{"ServeHTTP", "Process"} {
				r := newCallbackRig(t)
				if row.before != nil {
					row.before(r)
				}
				r.store.diary()
				out := Outcome{}
				var w *httptest.ResponseRecorder
				if way == "Process" {
					if row.status == 415 || row.head.Get("Content-Type") == "" {
						continue // Process leaves the type to the router
					}
					out = r.Process(t.Context(), row.head, []byte(row.body))
				} else {
					w = r.post(row.head, row.body)
					out.Status = w.Code
				}
				if out.Status != row.status || len(r.acts()) != row.acted {
					t.Errorf("%s: status %d and %d acts, want %d and %d\n%s", way, out.Status, len(r.acts()), row.status, row.acted, r.log)
				}
				if d := fmt.Sprint(r.store.diary()); d != row.diary {
					t.Errorf("%s: store calls %s, want %s", way, d, row.diary)
				}
				if way == "Process" {
					if row.reason != nil && !errors.Is(out.Err, row.reason) || out.Acted != (row.status == 200 && row.reason == nil) {
						t.Errorf("%v: %v", out, out.Err)
					}
					if (out.RetryAfter == DefaultRetryAfter) != (row.status == 503) {
						t.Errorf("RetryAfter is %s", out.RetryAfter)
					}
					continue
				}
				if row.reason != nil && !strings.Contains(r.log.String(), row.reason.Error()) {
					t.Errorf("the log does not say %q:\n%s", row.reason, r.log)
				}
				if got := w.Header().Get("Retry-After"); got != map[bool]string{true: "5"}[row.status == 503] {
					t.Errorf("Retry-After is %q", got)
				}
				for _, leak := range []string{"hold", "alice", "msg_", "res_", "jti", "window", "sample", "Pause"} {
					if strings.Contains(w.Body.String(), leak) {
						t.Errorf("the answer says %q", w.Body)
					}
				}
				if w.Header().Get("Content-Type") != "application/json" || w.Header().Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(w.Body.String(), "{") {
					t.Errorf("the answer is %v %q", w.Header(), w.Body)
				}
			}
		})
	}
	r := newCallbackRig(t)
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "post"} {
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(trustBody))
		req.Method, req.Header = method, trustHead(t, "j")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != 405 || w.Header().Get("Allow") != "POST" || len(r.acts()) != 0 || r.store.diary() != nil {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

func reserve(t testing.TB, l *spyStore, act Act) Token {
	t.Helper()
	r, err := l.Store.Reserve(context.Background(), act, time.Minute, false)
	if err != nil || r.State != ActClaimed {
		t.Fatal(r, err)
	}
	return r.Token
}

// Whatever the caller's function returns says nothing about the delivery.
//
// req: HND-05 HND-07
// report: B111
func TestAHandlerThatFailsIsAnswered503WhateverItsErrorWraps(t *testing.T) {
	for _, e := range []error{
		errors.New("no"), ErrMalformed, ErrAlreadyActed, ErrSignature, ErrReplay, ErrStale, ErrAddressee, ErrNotAuthorized, ErrSecondResolution, ErrUnboundPayload,
		ErrVersion, ErrTooLarge, ErrMethod, ErrType, ErrUnsent, ErrToken, ErrInFlight, ErrInDoubt, ErrStoreFull, context.Canceled, context.DeadlineExceeded,
		fmt.Errorf("while shipping: %w", ErrAlreadyActed), errors.Join(ErrMalformed, ErrAlreadyActed),
	} {
		r := newCallbackRig(t)
		r.act = func(context.Context, *Response) error { return e }
		out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody))
		if out.Status != 503 || out.Acted || !errors.Is(out.Err, e) || out.RetryAfter == 0 {
			t.Errorf("%v is answered %d", e, out.Status)
		}
		if d := fmt.Sprint(r.store.diary()); d != "[Lookup ClaimJTI Reserve Release SettleJTI false]" {
			t.Errorf("%v: store calls %s", e, d)
		}
		if !strings.Contains(r.log.String(), "level=ERROR") || !strings.Contains(r.log.String(), "the handler failed") {
			t.Errorf("the log says %s", r.log)
		}
		// The identical resend is served, and the sender ends at 200.
		r.act = nil
		if w := r.post(trustHead(t, "j"), trustBody); w.Code != 200 || len(r.acts()) != 2 {
			t.Errorf("%v: the resend is answered %d", e, w.Code)
		}
		if w := r.post(trustHead(t, "j"), trustBody); w.Code != 200 || len(r.acts()) != 2 {
			t.Errorf("%v: the next resend is answered %d", e, w.Code)
		}
	}
}

// req: HND-07
// report: B082
func TestAHandlerThatPanicsIsContainedAndReleased(t *testing.T) {
	r := newCallbackRig(t)
	r.act = func(context.Context, *Response) error { panic("CANARY in the panic") }
	w := r.post(trustHead(t, "j"), trustBody)
	if w.Code != 503 || strings.Contains(w.Body.String(), "CANARY") {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	if log := r.log.String(); !strings.Contains(log, ErrActPanicked.Error()) || !strings.Contains(log, "callback_test.go") || strings.Contains(log, "CANARY") {
		t.Errorf("the log says %s", log)
	}
	if d := fmt.Sprint(r.store.diary()); d != "[Lookup ClaimJTI Reserve Release SettleJTI false]" {
		t.Errorf("store calls %s", d)
	}
	r.act = nil
	if w := r.post(trustHead(t, "j"), trustBody); w.Code != 200 || len(r.acts()) != 2 {
		t.Errorf("the next delivery is answered %d", w.Code)
	}
}

// report: B082
func TestAPanicInAPolicyIsContainedAndHoldsNothing(t *testing.T) {
	boom := func() { panic("CANARY in the panic") }
	directive := hubSigner{}.header(t, "directive", trustDirective, trustUnix, "d")
	for name, row := range map[string]struct {
		option func(*CallbackConfig, *VerifierConfig)
		head   http.Header
		body   string
	}{
		"Expect": {func(c *CallbackConfig, _ *VerifierConfig) {
			c.Expect = func(context.Context, string) (bool, error) { boom(); return true, nil }
		}, trustHead(t, "j"), trustBody},
		"Authorize": {func(c *CallbackConfig, _ *VerifierConfig) { c.Authorize = func(string) bool { boom(); return true } }, directive, trustDirective},
		"KeysFunc": {func(_ *CallbackConfig, v *VerifierConfig) {
			v.Keys = KeysFunc(func(context.Context) ([]Key, error) { boom(); return nil, nil })
		}, trustHead(t, "j"), trustBody},
		"InDoubt": {func(c *CallbackConfig, _ *VerifierConfig) {
			c.InDoubt = func(context.Context, Act) (Doubt, error) { boom(); return ActAgain, nil }
		}, trustHead(t, "j"), trustBody},
	} {
		r := newCallbackRig(t, row.option)
		if name == "InDoubt" {
			reserve(t, r.store, ActOf(pushed(t, trustBody), trustAgent))
			r.clock.Add(time.Minute)
		}
		w := r.post(row.head, row.body)
		if w.Code != 503 || len(r.acts()) != 0 || strings.Contains(w.Body.String()+r.log.String(), "CANARY") || !strings.Contains(r.log.String(), `"`+ErrPanicked.Error()+`" stack=`) {
			t.Errorf("%s: answered %d, log %s", name, w.Code, r.log)
		}
		if d := r.store.diary(); slices.Contains(d, "ClaimJTI") && !slices.Contains(d, "SettleJTI false") {
			t.Errorf("%s: the delivery is held: %v", name, d)
		}
		if err := r.Shutdown(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The whole order, in one diary.
//
// req: HND-04 STA-09
// report: B069
func TestAPushRunsThroughItsStepsInOneOrder(t *testing.T) {
	var r *callbackRig
	say := func(s string) { _ = r.store.note(s) }
	r = newCallbackRig(t, func(c *CallbackConfig, v *VerifierConfig) {
		c.BearerToken = []string{"token-of-the-hub"}
		c.Expect = func(context.Context, string) (bool, error) { say("Expect"); return true, nil }
		v.Keys = KeysFunc(func(context.Context) ([]Key, error) { say("Keys"); return []Key{HMACKey(trustSecret)}, nil })
	})
	r.act = func(context.Context, *Response) error { say("act"); return nil }
	head := trustHead(t, "j")
	head.Set("Authorization", "Bearer token-of-the-hub")
	if w := r.post(head, trustBody); w.Code != 200 {
		t.Fatal(w.Code)
	}
	if d := fmt.Sprint(r.store.diary()); d != "[Keys Expect Lookup ClaimJTI Reserve act Commit SettleJTI true]" {
		t.Errorf("the order is %s", d)
	}
	// Nothing of it happens before the signature held.
	forged := hubSigner{secret: "the secret of a forger"}.header(t, "response", trustBody, trustUnix, "j")
	forged.Set("Authorization", "Bearer token-of-the-hub")
	if w := r.post(forged, trustBody); w.Code != 401 {
		t.Error(w.Code)
	}
	if d := fmt.Sprint(r.store.diary()); d != "[Keys]" {
		t.Errorf("a forged push gets as far as %s", d)
	}
	head.Set("Authorization", "Bearer another")
	if w := r.post(head, "{"); w.Code != 401 || r.store.diary() != nil {
		t.Error("a body is looked at before the token")
	}
}

// req: HND-03 SGR-02 AMB-06 AMB-15
func TestACallbackCredentialIsNeededBesideTheSignature(t *testing.T) {
	forged := hubSigner{secret: "the secret of a forger"}.header(t, "response", trustBody, trustUnix, "j")
	bearer := func(c *CallbackConfig, _ *VerifierConfig) { c.BearerToken = []string{"new-token", "old-token"} }
	apikey := func(c *CallbackConfig, _ *VerifierConfig) { c.APIKey = []string{"new-key", "old-key"} }
	custom := func(c *CallbackConfig, _ *VerifierConfig) {
		c.APIKey, c.APIKeyHeader = []string{"new-key"}, "X-Hub-Key"
	}
	for _, row := range []struct {
		name   string
		option func(*CallbackConfig, *VerifierConfig)
		forged bool
		header http.Header
		status int
	}{
		{"right token", bearer, false, http.Header{"Authorization": {"Bearer new-token"}}, 200},
		{"old token", bearer, false, http.Header{"Authorization": {"Bearer old-token"}}, 200},
		{"right token, scheme in lower case", bearer, false, http.Header{"Authorization": {"bearer new-token"}}, 200},
		{"right token, header map of another make", bearer, false, http.Header{"authorization": {"Bearer new-token"}}, 200},
		{"right token, no signature", bearer, false, http.Header{"Authorization": {"Bearer new-token"}, "Ma2h-Signature": nil}, 401},
		{"right token, an empty signature", bearer, false, http.Header{"Authorization": {"Bearer new-token"}, "Ma2h-Signature": {""}}, 401},
		{"right token, bad signature", bearer, true, http.Header{"Authorization": {"Bearer new-token"}}, 401},
		{"wrong token", bearer, false, http.Header{"Authorization": {"Bearer new-tokem"}}, 401},
		{"a longer token", bearer, false, http.Header{"Authorization": {"Bearer new-token2"}}, 401},
		{"token without scheme", bearer, false, http.Header{"Authorization": {"new-token"}}, 401},
		{"scheme without token", bearer, false, http.Header{"Authorization": {"Bearer "}}, 401},
		{"token under another scheme", bearer, false, http.Header{"Authorization": {"Basic new-token"}}, 401},
		{"no token", bearer, false, nil, 401},
		{"two tokens, the right one last", bearer, false, http.Header{"Authorization": {"Bearer other", "Bearer new-token"}}, 401},
		{"two tokens", bearer, false, http.Header{"Authorization": {"Bearer new-token", "Bearer other"}}, 401},
		{"token as key", bearer, false, http.Header{"X-Api-Key": {"new-token"}}, 401},
		{"right key", apikey, false, http.Header{"X-Api-Key": {"new-key"}}, 200},
		{"old key", apikey, false, http.Header{"X-Api-Key": {"old-key"}}, 200},
		{"right key, bad signature", apikey, true, http.Header{"X-Api-Key": {"new-key"}}, 401},
		{"wrong key", apikey, false, http.Header{"X-Api-Key": {"new-kez"}}, 401},
		{"an empty key", apikey, false, http.Header{"X-Api-Key": {""}}, 401},
		{"no key", apikey, false, nil, 401},
		{"right key, header of another name", custom, false, http.Header{"X-Api-Key": {"new-key"}}, 401},
		{"right key, header of that name", custom, false, http.Header{"X-Hub-Key": {"new-key"}}, 200},
	} {
		r := newCallbackRig(t, row.option)
		head := trustHead(t, "j")
		if row.forged {
			head = forged.Clone()
		}
		for k, v := range row.header {
			head[k] = v
		}
		out := r.Process(t.Context(), head, []byte(trustBody))
		if out.Status != row.status || len(r.acts()) != map[int]int{200: 1}[row.status] {
			t.Errorf("%s: %v", row.name, out)
		}
		if d := r.store.diary(); row.status != 200 && d != nil {
			t.Errorf("%s: store calls %v", row.name, d)
		}
	}
}

// req: HND-02 AMB-05 GO-12
func TestWhereTheRequestSaysItCameToDoesNotCount(t *testing.T) {
	r := newCallbackRig(t)
	mux := http.NewServeMux()
	mux.Handle("/deep/inside/", http.StripPrefix("/deep/inside", r))
	agent := httptest.NewServer(mux)
	defer agent.Close()
	to, err := url.Parse(agent.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(to)
		p.Out.URL.Path = "/deep/inside/other/name"
		p.Out.Host = "internal.example"
		p.SetXForwarded()
	}})
	defer proxy.Close()
	send := func(head http.Header) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, proxy.URL+"/ma2h/resume?x=1", strings.NewReader(trustBody))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = head
		req.Host = "spoofed.example"
		for k, v := range map[string]string{"X-Forwarded-Host": "spoofed.example", "X-Forwarded-Proto": "http", "X-Original-Url": "https://spoofed.example/", "Forwarded": "host=spoofed.example"} {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := send(trustHead(t, "j")); got != 200 || len(r.acts()) != 1 {
		t.Errorf("a genuine push behind a proxy is answered %d", got)
	}
	// Signed for the place that the request names, it is not for this endpoint.
	for _, elsewhere := range []string{"https://spoofed.example/ma2h/resume", "http://spoofed.example/", agent.URL + "/deep/inside/other/name"} {
		body := trustHead(t, "j")
		body.Set("MA2H-Signature", hubSigner{url: elsewhere}.value(t, "response", trustBody, trustUnix, "k"))
		if got := send(body); got != 401 || len(r.acts()) != 1 {
			t.Errorf("a push for %s is answered %d", elsewhere, got)
		}
	}
}

// bodyReader counts what is read of it.
type bodyReader struct {
	io.Reader
	n int64
}

func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.n += int64(n)
	return n, err
}
func (*bodyReader) Close() error { return nil }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// report: B066
func TestABodyPastTheBoundIsRefusedEarly(t *testing.T) {
	r := newCallbackRig(t)
	send := func(length int64) (int, int64) {
		body := &bodyReader{Reader: endless{}}
		req := httptest.NewRequest(http.MethodPost, "/", body)
		req.Header, req.ContentLength, req.Body = trustHead(t, "j"), length, body
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		return w.Code, body.n
	}
	if code, read := send(10 << 30); code != 413 || read != 0 {
		t.Errorf("10 GiB announced: %d after %d bytes", code, read)
	}
	before := heapInUse()
	if code, read := send(-1); code != 413 || read > 2<<20 {
		t.Errorf("an endless body: %d after %d bytes", code, read)
	}
	if grown := int64(heapInUse()) - int64(before); grown > 1<<20 {
		t.Errorf("the heap has grown by %d", grown)
	}
	if d := r.store.diary(); d != nil || len(r.acts()) != 0 {
		t.Errorf("store calls %v", d)
	}
}

// report: B066
func TestASlowBodyEndsAtTheReadTimeout(t *testing.T) {
	r := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) { c.ReadTimeout = 50 * time.Millisecond })
	agent := httptest.NewServer(r)
	defer agent.Close()
	conn, err := net.Dial("tcp", agent.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nMA2H-Signature: %s\r\nContent-Length: %d\r\n\r\n%s", trustHead(t, "j").Get("MA2H-Signature"), len(trustBody), trustBody[:10])
	answer, err := io.ReadAll(conn) // until the server ends it
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 503 ") {
		t.Errorf("answered %q, %v", answer, err)
	}
	if d := r.store.diary(); d != nil || len(r.acts()) != 0 {
		t.Errorf("store calls %v", d)
	}
	// One that is in time is served on the same settings.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, agent.URL, strings.NewReader(trustBody))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = trustHead(t, "j")
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
}

// A read deadline is of the connection: it must not outlive the body.
func TestTheReadTimeoutEndsWithTheBody(t *testing.T) {
	var deadlines []bool
	r := newCallbackRig(t)
	w := deadlineWriter{httptest.NewRecorder(), &deadlines}
	req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(trustBody))
	req.Header = trustHead(t, "j")
	r.ServeHTTP(w, req)
	if w.Code != 200 || !slices.Equal(deadlines, []bool{true, false}) {
		t.Errorf("answered %d, deadlines %v", w.Code, deadlines)
	}
	deadlines = nil
	req = httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("{"), brokenReader{}))
	req.Header = trustHead(t, "j")
	w = deadlineWriter{httptest.NewRecorder(), &deadlines}
	r.ServeHTTP(w, req)
	if w.Code != 503 || !slices.Equal(deadlines, []bool{true}) {
		t.Errorf("answered %d, deadlines %v: the server still drains the body", w.Code, deadlines)
	}
}

type deadlineWriter struct {
	*httptest.ResponseRecorder
	set *[]bool
}

func (w deadlineWriter) SetReadDeadline(t time.Time) error {
	*w.set = append(*w.set, !t.IsZero())
	return nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// report: B069
func TestABodyThatMiddlewareHasReadIsAnswered5xxAndLogged(t *testing.T) {
	for name, middleware := range map[string]func(*http.Request){
		"all of it":             func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		"half of it":            func(r *http.Request) { _, _ = io.CopyN(io.Discard, r.Body, 100) },
		"all, and put an end":   func(r *http.Request) { r.Body = http.NoBody },
		"all, and took it away": func(r *http.Request) { r.Body = nil },
		"all of a chunked one":  func(r *http.Request) { r.ContentLength = -1; r.Body = http.NoBody },
		"a broken one":          func(r *http.Request) { r.Body = io.NopCloser(brokenReader{}) },
	} {
		r := newCallbackRig(t)
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(trustBody))
		req.Header = trustHead(t, "j")
		middleware(req)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		want := "something before this handler has read it"
		if name == "a broken one" {
			want = "did not arrive whole"
		}
		if w.Code != 503 || !strings.Contains(r.log.String(), want) || len(r.acts()) != 0 || r.store.diary() != nil {
			t.Errorf("%s: answered %d, log %s", name, w.Code, r.log)
		}
		if (name != "a broken one") != strings.Contains(r.log.String(), "level=ERROR") {
			t.Errorf("%s: log %s", name, r.log)
		}
		if w := r.post(trustHead(t, "j"), trustBody); w.Code != 200 {
			t.Errorf("%s: without the middleware it is answered %d", name, w.Code)
		}
	}
	// One that puts it back does no harm.
	r := newCallbackRig(t)
	req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(trustBody))
	req.Header = trustHead(t, "j")
	b, _ := io.ReadAll(req.Body)
	req.Body = io.NopCloser(bytes.NewReader(b))
	w := httptest.NewRecorder()
	if r.ServeHTTP(w, req); w.Code != 200 {
		t.Errorf("answered %d", w.Code)
	}
}

// req: HND-06
// report: B076 B109
func TestOfManyCopiesOfAPushOneActs(t *testing.T) {
	n := 200
	r := newCallbackRig(t)
	var acts, ok, later atomic.Int64
	r.act = func(context.Context, *Response) error { acts.Add(1); return nil }
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			switch w := r.post(trustHead(t, fmt.Sprint("j", i%2*i)), trustBody); w.Code { // half of them the same bytes
			case 200:
				ok.Add(1)
			case 503:
				later.Add(1)
			default:
				t.Errorf("answered %d", w.Code)
			}
		})
	}
	close(start)
	wg.Wait()
	if acts.Load() != 1 || ok.Load() < 1 || ok.Load()+later.Load() != int64(n) {
		t.Errorf("%d acts, %d answered 200, %d answered 503", acts.Load(), ok.Load(), later.Load())
	}
	if w := r.post(trustHead(t, "j0"), trustBody); w.Code != 200 || acts.Load() != 1 {
		t.Errorf("a late copy is answered %d", w.Code)
	}
}

// req: HND-06
// report: B081
func TestACopyThatComesDuringTheActIsSentAwayAndServedAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCallbackRig(t)
		r.act = func(context.Context, *Response) error { time.Sleep(30 * time.Second); return nil }
		impatient, hangUp := context.WithTimeout(t.Context(), 10*time.Second)
		defer hangUp()
		first := make(chan Outcome, 1)
		go func() { first <- r.Process(impatient, trustHead(t, "j"), []byte(trustBody)) }()
		time.Sleep(11 * time.Second)
		for _, jti := range []string{"j", "k"} {
			if out := r.Process(t.Context(), trustHead(t, jti), []byte(trustBody)); out.Status != 503 || !errors.Is(out.Err, ErrInFlight) {
				t.Errorf("a copy at 11 s is answered %v", out)
			}
		}
		// The Hub has hung up; the act goes on and is recorded.
		if out := <-first; out.Status != 200 || !out.Acted || len(r.acts()) != 1 {
			t.Errorf("the first is answered %v", out)
		}
		for _, jti := range []string{"j", "l"} {
			if out := r.Process(t.Context(), trustHead(t, jti), []byte(trustBody)); out.Status != 200 || out.Acted || len(r.acts()) != 1 {
				t.Errorf("a copy after it is answered %v", out)
			}
		}
	})
}

func TestTheActHasATimeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for lease, want := range map[time.Duration]time.Duration{0: 270 * time.Second, 10 * time.Second: 9 * time.Second} {
			r := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) { c.Lease = lease })
			type key struct{}
			r.act = func(ctx context.Context, _ *Response) error {
				end, ok := ctx.Deadline()
				if !ok || time.Until(end) != want || ctx.Value(key{}) != "value" {
					t.Errorf("lease %s: the act has %s, %t", lease, time.Until(end), ok)
				}
				<-ctx.Done()
				return nil
			}
			begin := time.Now()
			ctx := context.WithValue(t.Context(), key{}, "value")
			if out := r.Process(ctx, trustHead(t, "j"), []byte(trustBody)); out.Status != 200 || time.Since(begin) != want {
				t.Errorf("answered %v after %s", out, time.Since(begin))
			}
		}
	})
}

func TestAHubThatHangsUpWhileTheStoreAnswersLeavesNothingInDoubt(t *testing.T) {
	r := newCallbackRig(t)
	ctx, hangUp := context.WithCancel(t.Context())
	r.store.after["ClaimJTI"] = hangUp
	out := r.Process(ctx, trustHead(t, "j"), []byte(trustBody))
	if out.Status != 503 || len(r.acts()) != 0 || fmt.Sprint(r.store.diary()) != "[Lookup ClaimJTI SettleJTI false]" {
		t.Errorf("before the reservation: %v", out)
	}
	// Once the reservation is on its way its outcome would be unknown, so it is
	// seen through.
	for _, hook := range []func(*spyStore) map[string]func(){
		func(s *spyStore) map[string]func() { return s.before },
		func(s *spyStore) map[string]func() { return s.after },
	} {
		r := newCallbackRig(t)
		ctx, hangUp := context.WithCancel(t.Context())
		hook(r.store)["Reserve"] = hangUp
		if out := r.Process(ctx, trustHead(t, "j"), []byte(trustBody)); out.Status != 200 || len(r.acts()) != 1 || ctx.Err() == nil {
			t.Errorf("during it: %v %v", out, out.Err)
		}
	}
}

func TestShutdownSendsNewDeliveriesAwayAndWaitsForTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCallbackRig(t)
		r.act = func(context.Context, *Response) error { time.Sleep(time.Minute); return nil }
		first := make(chan Outcome, 1)
		go func() { first <- r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody)) }()
		synctest.Wait()
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := r.Shutdown(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown with 10 s: %v", err)
		}
		r.store.diary()
		if out := r.Process(t.Context(), trustHead(t, "k"), []byte(trustBody)); out.Status != 503 || out.RetryAfter == 0 || !errors.Is(out.Err, ErrClosing) || r.store.diary() != nil {
			t.Errorf("a delivery during the shutdown: %v", out)
		}
		begin := time.Now()
		if err := r.Shutdown(t.Context()); err != nil || time.Since(begin) != 50*time.Second {
			t.Errorf("Shutdown: %v after %s", err, time.Since(begin))
		}
		if out := <-first; out.Status != 200 || len(r.acts()) != 1 {
			t.Errorf("the act that ran: %v", out)
		}
	})
}

// report: B063
func TestAKeySourceThatIsDownIsAnswered503WhateverItsErrorWraps(t *testing.T) {
	for _, e := range []error{errors.New("vault is sealed"), ErrSignature, ErrMalformed, ErrAlreadyActed, ErrStale, ErrVersion} {
		r := newCallbackRig(t, func(_ *CallbackConfig, v *VerifierConfig) {
			v.Keys = KeysFunc(func(context.Context) ([]Key, error) { return nil, e })
		})
		out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody))
		if out.Status != 503 || out.RetryAfter == 0 || !errors.Is(out.Err, ErrKeySource) || len(r.acts()) != 0 || r.store.diary() != nil {
			t.Errorf("%v is answered %v", e, out)
		}
	}
}

// req: HND-08
func TestAMessageThatThisAgentDidNotSendIsNotActedOn(t *testing.T) {
	known := map[string]bool{"msg_01HZXASK0001": true}
	var failure error
	r := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) {
		c.Expect = func(_ context.Context, id string) (bool, error) { return known[id], failure }
	})
	other := strings.Replace(trustBody, "msg_01HZXASK0001", "msg_other", 1)
	if out := r.Process(t.Context(), hubSigner{}.header(t, "response", other, trustUnix, "k"), []byte(other)); out.Status != 503 || len(r.acts()) != 0 || r.store.diary() != nil {
		t.Errorf("a push that overtook the answer to its submit: %v", out)
	}
	forged := `{"ma2h_version":"0.3","in_reply_to":"msg_other","resolution_id":"res_1","agent":{"id":"a","run_id":"r"},"resolution":"completed"}`
	if out := r.Process(t.Context(), trustHead(t, "k"), []byte(forged)); out.Status != 404 || len(r.acts()) != 0 || r.store.diary() != nil {
		t.Errorf("an unproven push of a message that was never sent: %v", out)
	}
	for _, failure = range []error{errors.New("down"), ErrMalformed, ErrAlreadyActed, ErrUnsent} {
		if out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody)); out.Status != 503 || !errors.Is(out.Err, ErrStoreUnavailable) || len(r.acts()) != 0 || r.store.diary() != nil {
			t.Errorf("Expect fails with %v: %v", failure, out)
		}
	}
	failure = nil
	if out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody)); out.Status != 200 || len(r.acts()) != 1 {
		t.Errorf("a known message: %v", out)
	}
}

// req: HND-07
// report: B075
func TestACallbackHandlerRefusesABadConfiguration(t *testing.T) {
	memory := TrustMemory(t, MemoryConfig{})
	shared := newSpyStore(t, time.Now)
	client := trustClient(t, ma2htest.NewHub(t), nil)
	otherClient, err := NewClient(Config{HubURL: "https://hub.test", Credential: Bearer("token"), Agent: Agent{ID: "other/bot"}})
	if err != nil {
		t.Fatal(err)
	}
	handle := func(context.Context, *Response) error { return nil }
	both := trustVerifier(t, shared)
	responses := trustVerifier(t, shared, func(c *VerifierConfig) { c.DirectiveKeys = KeyRing{} })
	directives := trustVerifier(t, shared, func(c *VerifierConfig) { c.Keys = KeyRing{} })
	sealer, err := NewSealer(SealerConfig{AgentID: trustAgent, Keys: []SealKey{SealKeyRaw("k", SealKeyBytes('k'))}})
	if err != nil {
		t.Fatal(err)
	}
	sealing := trustVerifier(t, shared, func(c *VerifierConfig) { c.Sealer = sealer })
	good := func() CallbackConfig { return CallbackConfig{Verifier: both, Ledger: shared, Handle: handle} }
	for _, row := range []struct {
		name, field string
		change      func(*CallbackConfig)
	}{
		{"no Verifier", "Verifier", func(c *CallbackConfig) { c.Verifier = nil }},
		{"no Ledger", "Ledger", func(c *CallbackConfig) { c.Ledger = nil }},
		{"a ledger in memory", "Ledger", func(c *CallbackConfig) { c.Ledger = memory }},
		{"a ledger that embeds one in memory", "Ledger", func(c *CallbackConfig) { c.Ledger = struct{ *MemoryStore }{memory} }},
		{"a replay store in memory", "Ledger", func(c *CallbackConfig) { c.Verifier = trustVerifier(t, memory) }},
		{"no Handle", "Handle", func(c *CallbackConfig) { c.Handle = nil }},
		{"a Handle without keys", "Handle", func(c *CallbackConfig) { c.Verifier = directives }},
		{"keys and no Handle beside HandleDirective", "Handle", func(c *CallbackConfig) {
			c.Handle, c.HandleDirective, c.Authorize = nil, func(context.Context, *Directive) error { return nil }, AllowFrom()
		}},
		{"HandleDirective without keys", "HandleDirective", func(c *CallbackConfig) {
			c.Verifier, c.HandleDirective, c.Authorize = responses, func(context.Context, *Directive) error { return nil }, AllowFrom()
		}},
		{"HandleDirective without Authorize", "Authorize", func(c *CallbackConfig) { c.HandleDirective = func(context.Context, *Directive) error { return nil } }},
		{"Authorize without HandleDirective", "Authorize", func(c *CallbackConfig) { c.Authorize = AllowFrom() }},
		{"nothing to handle", "Handle", func(c *CallbackConfig) { c.Verifier, c.Handle = directives, nil }},
		{"ConfirmByGet without Client", "ConfirmByGet", func(c *CallbackConfig) { c.ConfirmByGet = true }},
		{"0.2 without Client", "Client", func(c *CallbackConfig) {
			c.Verifier = trustVerifier(t, shared, func(v *VerifierConfig) { v.AllowUnboundPayload = true })
		}},
		{"Acknowledge without Client", "Acknowledge", func(c *CallbackConfig) { c.Acknowledge = func(*Response) string { return "" } }},
		{"a Client of another agent", "Client", func(c *CallbackConfig) { c.Client = otherClient }},
		{"a Verifier for one delivery", "Verifier", func(c *CallbackConfig) { c.Verifier = both.ReceivedAt(time.Now()) }},
		{"two schemes", "APIKey", func(c *CallbackConfig) { c.BearerToken, c.APIKey = []string{"token"}, []string{"key"} }},
		{"a blank token", "BearerToken", func(c *CallbackConfig) { c.BearerToken = []string{"token", " "} }},
		{"an empty key", "APIKey", func(c *CallbackConfig) { c.APIKey = []string{""} }},
		{"a token with a line end", "BearerToken", func(c *CallbackConfig) { c.BearerToken = []string{"token\n"} }},
		{"a token that is a seal key", "BearerToken", func(c *CallbackConfig) { c.Verifier, c.BearerToken = sealing, []string{strings.Repeat("k", 32)} }},
		{"a key that is a seal key in hex", "APIKey", func(c *CallbackConfig) { c.Verifier, c.APIKey = sealing, []string{strings.Repeat("6b", 32)} }},
		{"a lease below a second", "Lease", func(c *CallbackConfig) { c.Lease = time.Second - 1 }},
		{"a negative lease", "Lease", func(c *CallbackConfig) { c.Lease = -time.Second }},
		{"a negative read timeout", "ReadTimeout", func(c *CallbackConfig) { c.ReadTimeout = -1 }},
		{"a negative Retry-After", "ReadTimeout", func(c *CallbackConfig) { c.RetryAfter = -1 }},
	} {
		cfg := good()
		row.change(&cfg)
		h, err := NewCallbackHandler(cfg)
		fe, ok := errors.AsType[*types.FieldError](err)
		if !ok || h != nil || fe.Field != "CallbackConfig."+row.field {
			t.Errorf("%s: %v", row.name, err)
		}
	}
	for name, change := range map[string]func(*CallbackConfig){
		"the good one": func(*CallbackConfig) {},
		"directives alone": func(c *CallbackConfig) {
			c.Verifier, c.Handle, c.HandleDirective, c.Authorize = directives, nil, func(context.Context, *Directive) error { return nil }, AllowFrom()
		},
		"memory, by name":        func(c *CallbackConfig) { c.Ledger, c.SingleReplica = memory, true },
		"a client of this agent": func(c *CallbackConfig) { c.Client, c.ConfirmByGet = client, true },
		"a lease of a second":    func(c *CallbackConfig) { c.Lease = time.Second },
		"a token beside a seal":  func(c *CallbackConfig) { c.Verifier, c.BearerToken = sealing, []string{"token"} },
	} {
		cfg := good()
		change(&cfg)
		if _, err := NewCallbackHandler(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A handler without directives, or with nothing else, refuses what it has no
// function for, as what it is.
func TestAHandlerTakesOnlyWhatItHasAFunctionFor(t *testing.T) {
	responses := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) { c.HandleDirective, c.Authorize = nil, nil })
	directives := newCallbackRig(t, func(c *CallbackConfig, v *VerifierConfig) { c.Handle, v.Keys = nil, KeyRing{} })
	directive := hubSigner{}.header(t, "directive", trustDirective, trustUnix, "d")
	for name, row := range map[string]struct {
		r      *callbackRig
		head   http.Header
		body   string
		status int
	}{
		"a directive where there are none":   {responses, directive, trustDirective, 400},
		"a Response where there are none":    {directives, trustHead(t, "j"), trustBody, 400},
		"a broken body where there are none": {directives, trustHead(t, "j"), "{", 400},
	} {
		if out := row.r.Process(t.Context(), row.head, []byte(row.body)); out.Status != row.status || len(row.r.acts()) != 0 || row.r.store.diary() != nil {
			t.Errorf("%s: %v %v", name, out, out.Err)
		}
	}
	if out := responses.Process(t.Context(), trustHead(t, "j"), []byte(trustBody)); out.Status != 200 || len(responses.acts()) != 1 {
		t.Errorf("a Response: %v", out)
	}
	if out := directives.Process(t.Context(), directive, []byte(trustDirective)); out.Status != 200 || len(directives.acts()) != 1 {
		t.Errorf("a directive: %v", out)
	}
}

// report: B075
func TestTwoReplicasOnOneStoreActOnce(t *testing.T) {
	store := newSpyStore(t, newTrustClock().Now)
	acts := 0
	for i := range 2 {
		h, err := NewCallbackHandler(CallbackConfig{Verifier: trustVerifier(t, store), Ledger: store, Handle: func(context.Context, *Response) error { acts++; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		if out := h.Process(t.Context(), trustHead(t, "j"), []byte(trustBody)); out.Status != 200 || out.Acted != (i == 0) || acts != 1 {
			t.Errorf("replica %d: %v, %d acts", i, out, acts)
		}
	}
}

// req: JCS-07
func TestIdsAsLongAsTheyMayBeAreActedOn(t *testing.T) {
	id := strings.Repeat("a", 512)
	r := newCallbackRig(t, func(_ *CallbackConfig, v *VerifierConfig) { v.AgentID = id })
	body := strings.Replace(trustBody, "msg_01HZXASK0001", strings.Repeat("m", 512), 1)
	if out := r.Process(t.Context(), hubSigner{}.header(t, "response", body, trustUnix, "j"), []byte(body)); out.Status != 200 || len(r.acts()) != 1 {
		t.Errorf("%v: %v", out, out.Err)
	}
	a, b := ActKey("response", id, strings.Repeat("m", 512)), ActKey("response", id[1:]+"b", strings.Repeat("m", 512))
	if a == b || len(a) > MaxStoreKey || (Act{Key: a}).MessageID() != strings.Repeat("m", 512) {
		t.Error("long ids share a key, or lose the message's")
	}
}
