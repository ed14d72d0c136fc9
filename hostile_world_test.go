package ma2h_test

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/internal/chaosproxy"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// hostileNet is what lies between agent, Hub and human.
type hostileNet struct {
	config             ma2h.Config  // of the agent's clients
	single             *http.Client // for every other of them, if set
	agentURL, humanURL string       // callbacks, as the Hub knows them
	mux                *http.ServeMux
	toHub, toAgent     *chaosproxy.Proxy
	workers            int           // that ask at a time
	pace               time.Duration // of humans and of new attempts
	life               time.Duration // of one Client, on average
	patience           time.Duration // once the network is calm
}

// hostile is a run: an agent with every mouth that the library has, its Hub, a
// human who decides and one whose client takes receipts.
type hostile struct {
	hostileNet
	t       *testing.T
	hub     *ma2htest.Hub
	store   ma2h.Store
	outbox  ma2h.Outbox
	keys    ma2h.VerifierConfig
	handler *ma2h.CallbackHandler
	sealers [2]*ma2h.Sealer // legible and not
	client  atomic.Pointer[ma2h.Client]
	lives   int

	mu        sync.Mutex
	dice      *rand.Rand
	asked     int                     // keys
	acts      map[string][]string     // what acts have seen, by message or directive
	cancelled map[string]types.Status // what cancels said, by message
	notes     map[string]string       // of the acknowledgments that were returned, by message
	receipts  map[string]string       // notes of those that the human's client verified, by jti
	respelled map[string]int          // deliveries that verified in other spellings alone, by ring
	verified  map[string]string       // rings of deliveries whose signature held, by jti
	buried    map[string]error
	failed    int // acts
	rejected  int // entries
	errors    map[string]int
}

func newHostile(t *testing.T, hub *ma2htest.Hub, seed uint64, net hostileNet) *hostile {
	t.Helper()
	h := &hostile{
		hostileNet: net, t: t, hub: hub, dice: rand.New(rand.NewPCG(seed, 9)),
		acts: map[string][]string{}, cancelled: map[string]types.Status{}, notes: map[string]string{}, receipts: map[string]string{},
		respelled: map[string]int{}, verified: map[string]string{}, buried: map[string]error{}, errors: map[string]int{},
	}
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	mustNot(t, err)
	h.store, h.outbox = verifiedStore{store, h}, store
	ring := ma2h.Keys(ma2h.HMACKey(hub.SigningSecret()))
	h.keys = ma2h.VerifierConfig{Keys: ring, DirectiveKeys: ring, AckKeys: ring, CallbackURL: net.agentURL, AgentID: asker, Replay: h.store}
	for i := range h.sealers {
		h.sealers[i], err = ma2h.NewSealer(ma2h.SealerConfig{Keys: []ma2h.SealKey{ma2h.SealKeyRaw("k1", []byte(strings.Repeat("k", 32)))}, AgentID: asker, Readable: i == 0})
		mustNot(t, err)
	}
	return h
}

// verifiedStore notes which deliveries get as far as the replay claim: their
// signatures have held.
type verifiedStore struct {
	ma2h.Store
	h *hostile
}

func (s verifiedStore) ClaimJTI(ctx context.Context, key string, lease, keep time.Duration) (ma2h.ReplayState, error) {
	parts := strings.Split(key, "\x00")
	s.h.mu.Lock()
	s.h.verified[parts[3]] = parts[1]
	s.h.mu.Unlock()
	return s.Store.ClaimJTI(ctx, key, lease, keep)
}

func (h *hostile) roll(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dice.IntN(n)
}

// some is a time around the pace.
func (h *hostile) some() time.Duration { return time.Duration(h.roll(int(2 * h.pace))) }

// note counts what the agent saw go wrong.
func (h *hostile) note(op string, err error) {
	what := "other"
	for _, s := range []error{
		ma2h.ErrRateLimited, ma2h.ErrUnauthenticated, ma2h.ErrValidation, ma2h.ErrProtocol, ma2h.ErrUnsupported, ma2h.ErrUnavailable, ma2h.ErrNotAcknowledgeable, ma2h.ErrOutcomeUnknown,
		ma2h.ErrInFlight, errDeployDown, ma2h.ErrIdempotencyConflict, context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, s) {
			what = s.Error()
			break
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errors[op+" "+strings.TrimPrefix(what, "ma2h: ")]++
	if what == "other" || errors.Is(err, ma2h.ErrIdempotencyConflict) || errors.Is(err, ma2h.ErrSecondResolution) {
		h.t.Errorf("%s: %v", op, err)
	}
}

// until tries until it works, each time for a while and with the Client of then.
func (h *hostile) until(ctx context.Context, op string, f func(context.Context, *ma2h.Client) error) bool {
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 20*time.Second)
		err := f(try, h.client.Load())
		cancel()
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			h.note(op, err)
			time.Sleep(h.some())
		}
	}
	h.t.Errorf("%s: no end in sight", op)
	return false
}

// renew makes another Client, which asks for the capability document anew.
func (h *hostile) renew() {
	cfg := h.config
	cfg.Outbox, cfg.MaxWait, cfg.AttemptTimeout, cfg.MaxBackoff = h.outbox, time.Second, 10*time.Second, h.life
	if h.lives++; h.single != nil && h.lives%2 == 0 {
		cfg.HTTPClient = h.single
	}
	h.client.Store(connect(h.t, cfg))
}

func (h *hostile) renews(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(h.life)
		h.renew()
	}
}

var errDeployDown = errors.New("the deploy system is down")

// act is what every mouth comes to. It fails now and then, and then nothing is
// done.
func (h *hostile) act(id, saw string) error {
	if h.roll(10) == 0 {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.failed++
		return errDeployDown
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acts[id] = append(h.acts[id], saw)
	return nil
}

type hostilePlan struct {
	Key    string    `json:"key"`
	Prices []float64 `json:"prices"`
}

func planOf(key string) hostilePlan {
	return hostilePlan{Key: key, Prices: []float64{1.5, 1e21, 0.1, 1e-7, 42}}
}

func (h *hostile) handle(_ context.Context, r *ma2h.Response) error {
	s, ok := h.hub.Message(r.MessageID())
	if !ok {
		h.t.Errorf("a Response to %s, which nobody sent", r.MessageID())
		return nil
	}
	if !r.PayloadBound() {
		h.t.Errorf("a Response to %s whose signature leaves the answer open", r.MessageID())
	}
	var plan hostilePlan
	key := keyOf(s)
	if err := h.sealers[len(key)%2].Open(r.State(), &plan, ma2h.Bind(asker, key)); err != nil || fmt.Sprint(plan) != fmt.Sprint(planOf(key)) {
		h.t.Errorf("the state of %s opens as %+v, %v", key, plan, err)
	}
	value := ""
	var object any
	if text, ok := r.Text(); ok {
		value = canonicalText(h.t, text)
	} else if r.Decode(&object) == nil {
		value = canonicalText(h.t, object)
	}
	return h.act(r.MessageID(), decision(string(r.Resolution()), r.ResolutionID(), r.Actor(), value, r.Comment()))
}

func decision(resolution, id, actor, value, comment string) string {
	return strings.Join([]string{resolution, id, actor, value, comment}, "|")
}

// decided is the decision that the Hub has.
func decided(t *testing.T, r *ma2htest.Resolved) string {
	var d struct {
		Value   stdjson.RawMessage
		Comment string
		Actor   string
	}
	if r.Detail != nil {
		mustNot(t, stdjson.Unmarshal(r.Detail, &d))
	}
	value := ""
	if d.Value != nil {
		value = canonicalText(t, d.Value)
	}
	return decision(string(r.Resolution), r.ResolutionID, d.Actor, value, d.Comment)
}

func canonicalText(t *testing.T, v any) string {
	t.Helper()
	b, err := stdjson.Marshal(v)
	if err == nil {
		b, err = jcs.Transform(append(append([]byte("["), b...), ']'))
	}
	mustNot(t, err)
	return string(b[1 : len(b)-1])
}

func member(t *testing.T, object []byte, name string) stdjson.RawMessage {
	var m map[string]stdjson.RawMessage
	mustNot(t, stdjson.Unmarshal(object, &m))
	return m[name]
}

func keyOf(s ma2htest.Snapshot) string {
	var m struct {
		Key string `json:"idempotency_key"`
	}
	_ = stdjson.Unmarshal(s.Submitted, &m)
	return m.Key
}

func (h *hostile) handleDirective(_ context.Context, d *ma2h.Directive) error {
	var parts []stdjson.RawMessage
	for _, p := range d.Context() {
		b, err := types.Encode(p)
		mustNot(h.t, err)
		parts = append(parts, b)
	}
	return h.act(d.ID(), d.Title()+" "+canonicalText(h.t, parts))
}

// listen puts the agent's handler, and the client that takes receipts for a
// human, behind the callback URLs.
func (h *hostile) listen() {
	h.t.Helper()
	v, err := ma2h.NewVerifier(h.keys)
	mustNot(h.t, err)
	h.handler, err = ma2h.NewCallbackHandler(ma2h.CallbackConfig{
		Verifier: v, Ledger: h.store, SingleReplica: true, Handle: h.handle, HandleDirective: h.handleDirective, Authorize: ma2h.AllowFrom(alice),
		Client: h.client.Load(), RetryAfter: time.Second,
	})
	mustNot(h.t, err)
	path := func(raw string) string { return "/" + strings.SplitN(raw, "/", 4)[3] }
	h.mux.HandleFunc(path(h.agentURL), func(w http.ResponseWriter, r *http.Request) { h.answer(w, r, h.handler) })
	h.mux.HandleFunc(path(h.humanURL), func(w http.ResponseWriter, r *http.Request) {
		h.answer(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.takeReceipt(w, r, v) }))
	})
	mustNot(h.t, h.hub.RegisterDirectiveWebhook(asker, h.agentURL))
}

// answer has the handler answer, and holds it to what a damaged push may get:
// a 200 only where the Hub's own answer was pulled instead, which is the rule
// for a Response without detail (§9.8 of 0.5).
func (h *hostile) answer(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	rec := httptest.NewRecorder()
	body := &keptBody{ReadCloser: r.Body}
	r.Body = body
	handler.ServeHTTP(rec, r)
	if r.Header.Get(chaosproxy.Mark) != "" && rec.Code == http.StatusOK && strings.Contains(body.text.String(), `"actor"`) {
		h.t.Errorf("a damaged push was answered 200: %s", body.text.String())
	}
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

// takeReceipt is the client of a human: it has no ledger, so that a receipt that
// comes twice under one signature is caught by the replay store or not at all.
func (h *hostile) takeReceipt(w http.ResponseWriter, r *http.Request, v *ma2h.Verifier) {
	body, err := readBody(r)
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	ack, err := v.Ack(r.Context(), r.Header, body)
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	jti := chaosproxy.JTI(r.Header.Get("MA2H-Signature"))
	if _, again := h.receipts[jti]; again {
		h.t.Errorf("a receipt of %s was taken twice", ack.InReplyTo)
	}
	h.receipts[jti] = ack.Note
}
