package ma2h_test

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gowebpki/jcs"

	. "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// The Hub's side of a delivery, made from the text of the protocol with the
// second canonicaliser: nothing of the verifier is used.

const (
	trustAgent  = "deploybot/dev-team"
	trustURL    = "https://deploybot.example/ma2h/resume"
	trustSecret = "ma2h-test-secret-key-0123456789ab"
	trustUnix   = 1749050910
)

// trustBody is a Response as a Hub pushes it.
const trustBody = `{"ma2h_version":"0.3","in_reply_to":"msg_01HZXASK0001","resolution_id":"res_01HZXR3SOLVE",` +
	`"agent":{"id":"deploybot/dev-team","run_id":"run_01HZXRUN0001"},"resolution":"answered",` +
	`"response":{"value":"hold","edited":false,"actor":"human:alice","resolved_at":"2026-06-04T15:48:30Z","comment":"Let's wait."},` +
	`"defaulted":false,"state":{"sealed":"MA2HSEALv1.sample"}}`

// trustDirective is a directive as a Hub delivers it.
const trustDirective = `{"ma2h_version":"0.4","type":"directive","id":"dir_1","from":"human:alice","to":"agent:deploybot/dev-team",` +
	`"created_at":"2026-06-21T12:00:00Z","title":"Pause deploys","body":"Until I say so.","priority":"urgent","tags":["incident","freeze"],` +
	`"context":[{"kind":"text","text":"see the channel"}],"expires_at":"2026-06-22T12:00:00Z","sensitive":false}`

// trustAck is an acknowledgment as a Hub pushes it.
const trustAck = `{"ma2h_version":"0.4","type":"ack","in_reply_to":"msg_1","by":"agent:deploybot/dev-team","acked_at":"2026-06-30T15:49:00Z","note":"on it"}`

// hubSigner signs as a Hub: with secret, or with private where that is set.
type hubSigner struct {
	secret  string
	private ed25519.PrivateKey
	url     string // "" means trustURL
}

func (s hubSigner) mac(text string) string {
	if s.private != nil {
		return base64.RawURLEncoding.EncodeToString(ed25519.Sign(s.private, []byte(text)))
	}
	secret := s.secret
	if secret == "" {
		secret = trustSecret
	}
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// value is the header value for a body of kind response, directive or ack.
func (s hubSigner) value(t testing.TB, kind, body string, at int64, jti string) string {
	t.Helper()
	url := s.url
	if url == "" {
		url = trustURL
	}
	ts := strconv.FormatInt(at, 10)
	return "t=" + ts + ",jti=" + jti + ",v1=" + s.mac(specContext(t, kind, body, url, ts, jti))
}

func (s hubSigner) header(t testing.TB, kind, body string, at int64, jti string) http.Header {
	t.Helper()
	return http.Header{"Ma2h-Signature": {s.value(t, kind, body, at, jti)}, "Content-Type": {"application/json"}}
}

// specContext writes out §9.2, §9.7 and §14.4.
func specContext(t testing.TB, kind, body, url, ts, jti string) string {
	t.Helper()
	var m map[string]stdjson.RawMessage
	if err := stdjson.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("the test signs a body that is not JSON: %v", err)
	}
	ctx := map[string]any{"jti": jti, "t": ts, "ma2h_version": m["ma2h_version"]}
	take := func(names ...string) {
		for _, n := range names {
			ctx[n] = m[n]
		}
	}
	orNull := func(n string) stdjson.RawMessage {
		if v, ok := m[n]; ok {
			return v
		}
		return stdjson.RawMessage("null")
	}
	switch kind {
	case "response":
		take("in_reply_to", "resolution", "resolution_id")
		ctx["id"], ctx["callback_url"], ctx["resolved_at"] = m["in_reply_to"], url, nil
		var detail map[string]stdjson.RawMessage
		if stdjson.Unmarshal(orNull("response"), &detail) == nil && detail != nil {
			ctx["resolved_at"] = detail["resolved_at"]
		}
		if string(m["ma2h_version"]) != `"0.2"` {
			ctx["payload_sha256"] = specDigest(t, map[string]any{"response": orNull("response"), "state": orNull("state")})
		}
	case "directive":
		take("from", "id", "to")
		content := map[string]any{}
		for _, n := range []string{"title", "body", "priority", "tags", "context"} {
			if v, ok := m[n]; ok {
				content[n] = v
			}
		}
		ctx["payload_sha256"] = specDigest(t, map[string]any{"directive": content})
	case "ack":
		take("by", "in_reply_to")
		ctx["ack_sha256"] = specDigest(t, map[string]any{
			"acked_at": orNull("acked_at"), "by": orNull("by"), "in_reply_to": orNull("in_reply_to"), "note": orNull("note"), "resolution_id": orNull("resolution_id"),
		})
	}
	return specCanonical(t, ctx)
}

func specCanonical(t testing.TB, v any) string {
	t.Helper()
	b, err := stdjson.Marshal(v)
	if err == nil {
		b, err = jcs.Transform(b)
	}
	if err != nil {
		t.Fatalf("the test signs what has no canonical form: %v", err)
	}
	return string(b)
}

func specDigest(t testing.TB, v any) string {
	t.Helper()
	sum := sha256.Sum256([]byte(specCanonical(t, v)))
	return hex.EncodeToString(sum[:])
}

// trustClock is an injected clock.
type trustClock struct {
	mu  sync.Mutex
	now time.Time
}

func newTrustClock() *trustClock { return &trustClock{now: time.Unix(trustUnix, 0)} }

func (c *trustClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *trustClock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// spyStore is a Store that keeps a diary and fails on demand. It does not say
// that it is in memory.
type spyStore struct {
	Store
	mu     sync.Mutex
	calls  []string
	fail   map[string]error  // by method
	before map[string]func() // runs as the method is called
	after  map[string]func() // runs when the method has done its work
}

func newSpyStore(t testing.TB, now func() time.Time) *spyStore {
	t.Helper()
	m, err := NewMemoryStore(MemoryConfig{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return &spyStore{Store: struct{ Store }{m}, fail: map[string]error{}, before: map[string]func(){}, after: map[string]func(){}}
}

func (s *spyStore) note(call string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	if f := s.before[call]; f != nil {
		f()
	}
	return s.fail[call]
}

func (s *spyStore) done(call string) {
	s.mu.Lock()
	f := s.after[call]
	s.mu.Unlock()
	if f != nil {
		f()
	}
}

// diary returns the calls since the last time.
func (s *spyStore) diary() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.calls
	s.calls = nil
	return out
}

func (s *spyStore) failing(method string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.fail, method)
		return
	}
	s.fail[method] = err
}

func (s *spyStore) ClaimJTI(ctx context.Context, key string, lease, keep time.Duration) (ReplayState, error) {
	if err := s.note("ClaimJTI"); err != nil {
		return 0, err
	}
	defer s.done("ClaimJTI")
	return s.Store.ClaimJTI(ctx, key, lease, keep)
}

func (s *spyStore) SettleJTI(ctx context.Context, key string, final bool) error {
	if err := s.note(fmt.Sprintf("SettleJTI %t", final)); err != nil {
		return err
	}
	return s.Store.SettleJTI(ctx, key, final)
}

func (s *spyStore) Lookup(ctx context.Context, act Act) (ActState, error) {
	if err := s.note("Lookup"); err != nil {
		return 0, err
	}
	return s.Store.Lookup(ctx, act)
}

func (s *spyStore) Reserve(ctx context.Context, act Act, lease time.Duration, takeDoubt bool) (Reservation, error) {
	if err := s.note("Reserve"); err != nil {
		return Reservation{}, err
	}
	defer s.done("Reserve")
	return s.Store.Reserve(ctx, act, lease, takeDoubt)
}

func (s *spyStore) Commit(ctx context.Context, act Act, token Token) error {
	if err := s.note("Commit"); err != nil {
		return err
	}
	return s.Store.Commit(ctx, act, token)
}

func (s *spyStore) Release(ctx context.Context, act Act, token Token) error {
	if err := s.note("Release"); err != nil {
		return err
	}
	return s.Store.Release(ctx, act, token)
}

func (s *spyStore) Doubt(ctx context.Context, act Act, token Token) error {
	if err := s.note("Doubt"); err != nil {
		return err
	}
	return s.Store.Doubt(ctx, act, token)
}

// openReplay lets everything through, for tests that present one delivery
// many times.
type openReplay struct{}

func (openReplay) ClaimJTI(context.Context, string, time.Duration, time.Duration) (ReplayState, error) {
	return Fresh, nil
}
func (openReplay) SettleJTI(context.Context, string, bool) error { return nil }

// trustVerifier believes trustSecret for every purpose.
func trustVerifier(t testing.TB, replay ReplayStore, options ...func(*VerifierConfig)) *Verifier {
	t.Helper()
	ring := Keys(HMACKey(trustSecret))
	cfg := VerifierConfig{
		Keys: ring, DirectiveKeys: ring, AckKeys: ring, CallbackURL: trustURL, AgentID: trustAgent, Replay: replay,
		Now: func() time.Time { return time.Unix(trustUnix, 0) },
	}
	for _, o := range options {
		o(&cfg)
	}
	v, err := NewVerifier(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// pushed verifies a body that is signed as a Hub would, and returns what the
// caller gets.
func pushed(t testing.TB, body string) *Response {
	t.Helper()
	r, err := trustVerifier(t, openReplay{}).Response(t.Context(), hubSigner{}.header(t, "response", body, trustUnix, "jti_1"), []byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

// trustSentinels are all that a delivery can be refused with.
var trustSentinels = []error{ErrSignature, ErrStale, ErrReplay, ErrAddressee, ErrKeySource, ErrMalformed, ErrVersion, ErrUnboundPayload, ErrStoreUnavailable, ErrStoreFull}

// refusedAs asserts the sentinel, and that it is no other.
func refusedAs(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
		return
	}
	for _, other := range trustSentinels {
		if other != want && errors.Is(err, other) {
			t.Errorf("%v is also %v", err, other)
		}
	}
}

// seen is everything that the accessors of a Response return, but for
// Advisory.
func seen(r *Response) map[string]any {
	value, isText := r.Text()
	var object any
	_ = r.Decode(&object)
	return map[string]any{
		"MessageID": r.MessageID(), "ResolutionID": r.ResolutionID(), "Resolution": r.Resolution(), "Version": r.Version(),
		"Pulled": r.Pulled(), "PayloadBound": r.PayloadBound(), "Text": value, "IsText": isText, "Object": object,
		"hold": r.Answered("hold"), "ship": r.Answered("ship"), "alice": r.By("human:alice"), "mallory": r.By("human:mallory"),
		"Actor": r.Actor(), "Defaulted": r.Defaulted(), "Comment": r.Comment(), "Edited": r.Edited(), "Checklist": r.Checklist(),
		"ResolvedAt": r.ResolvedAt(), "State": string(r.State()),
	}
}

// seenDirective is seen for a Directive.
func seenDirective(d *Directive) map[string]any {
	var parts []string
	for _, p := range d.Context() {
		b, _ := types.Encode(p)
		parts = append(parts, string(b))
	}
	return map[string]any{"ID": d.ID(), "From": d.From(), "Title": d.Title(), "Body": d.Body(), "Priority": d.Priority(), "Tags": d.Tags(), "Context": parts}
}

func sameSeen(t testing.TB, got, want map[string]any, what string) {
	t.Helper()
	for k := range want {
		if !reflect.DeepEqual(got[k], want[k]) {
			t.Errorf("%s: %s is %v, signed was %v", what, k, got[k], want[k])
		}
	}
}

type ctxT = context.Context

func testContext() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

func isErr(err, target error) bool { return errors.Is(err, target) }

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// trustClient reaches hub in memory as trustAgent.
func trustClient(t testing.TB, hub *ma2htest.Hub, change func(*Config)) *Client {
	t.Helper()
	cfg := Config{
		HubURL: hub.MemoryURL(), Credential: Bearer(hub.Token(trustAgent)), Agent: Agent{ID: trustAgent, Runtime: RuntimeGitHubActions, RunID: "run-1.1"},
		HTTPClient: &http.Client{Transport: hub.Transport()},
	}
	if change != nil {
		change(&cfg)
	}
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
