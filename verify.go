package ma2h

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/header"
	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/signed"
	"github.com/ma2h/ma2h-go/types"
)

// Why a delivery was not believed. Beside these: ErrMalformed, ErrVersion,
// ErrUnboundPayload, ErrStoreUnavailable and ErrStoreFull.
var (
	// ErrSignature: the signature is missing, ill-formed, or of no key that
	// is configured.
	ErrSignature = errors.New("ma2h: the signature does not hold")
	// ErrStale: the signature's time is too far from now, in either direction.
	ErrStale = errors.New("ma2h: the signature is outside the replay window")
	// ErrReplay: this very delivery was taken before.
	ErrReplay = errors.New("ma2h: the delivery was presented before")
	// ErrAddressee: the delivery is signed, and for another agent.
	ErrAddressee = errors.New("ma2h: the delivery is for another agent")
	// ErrKeySource: the keys could not be had; try again later.
	ErrKeySource = errors.New("ma2h: the keys could not be had")
)

// VerifierConfig says whom a Verifier believes. The zero value of an optional
// field means the default that the field documents.
type VerifierConfig struct {
	// Keys verify pushed Responses (§9.2). At least one of the three rings is
	// required; one purpose never borrows another's keys.
	Keys KeyRing
	// DirectiveKeys verify directives, pushed or drained (§9.7).
	DirectiveKeys KeyRing
	// AckKeys verify pushed acknowledgments (§14.4).
	AckKeys KeyRing
	// CallbackURL is the public URL that the Hub pushes to, byte for byte as
	// it was given to the Hub. It is under the signature and never taken from
	// a request. Required with Keys.
	CallbackURL string
	// AgentID is the agent's own id. Required.
	AgentID string
	// Replay remembers deliveries. Required.
	Replay ReplayStore
	// Window is how far a signature's time may be from now, both sides
	// inclusive. Default: 120 s, which is also the most: the Hub signs for no
	// longer (§9.2). An Inbox narrows it to the replay_window_seconds that its
	// Hub advertises (§9.7).
	Window time.Duration
	// MaxBody bounds a delivery in bytes. Default: 1 MiB.
	MaxBody int
	// AllowUnboundPayload accepts pushes at 0.2, whose signature leaves the
	// answer and the state open to change on the way. Response.PayloadBound
	// is false for them.
	AllowUnboundPayload bool
	// Sealer, if the agent seals state, has its keys compared with those of the
	// rings: one key for both is refused, here for a fixed ring and at each
	// fetch for one of KeysFunc (§9.3).
	Sealer *Sealer
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Logger gets ids and reasons, never content. Default: none.
	Logger *slog.Logger
}

// Verifier is the only door from the bytes of a delivery to a value that an
// agent may act on. It is immutable and safe for concurrent use.
type Verifier struct {
	cfg      VerifierConfig
	callback string
	received time.Time
	narrow   time.Duration // what a Hub asks for below cfg.Window; zero: nothing
	scratch  *sync.Pool
}

// NewVerifier checks cfg. It does no I/O.
func NewVerifier(cfg VerifierConfig) (*Verifier, error) {
	if cfg.Window == 0 {
		cfg.Window = limits.ReplayWindow
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = limits.MaxPushBody
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	bad := func(field, section, format string, args ...any) error {
		return invalid("VerifierConfig."+field, section, format, args...)
	}
	switch {
	case cfg.Keys.empty() && cfg.DirectiveKeys.empty() && cfg.AckKeys.empty():
		return nil, bad("Keys", "§9.2", "is empty, and so are the other rings")
	case cfg.AgentID == "" || len(cfg.AgentID) > limits.MaxIDLen:
		return nil, bad("AgentID", "§9.1", "is %d bytes, not 1 to %d", len(cfg.AgentID), limits.MaxIDLen)
	case strings.ContainsFunc(cfg.AgentID, unicode.IsControl):
		return nil, bad("AgentID", "§9.1", "has a control character")
	case cfg.Replay == nil:
		return nil, bad("Replay", "§9.2", "is required")
	case cfg.Window > limits.ReplayWindow || cfg.Window < time.Second:
		return nil, bad("Window", "§9.2", "is %s, not 1s to %s; a delivery that waited is verified with ReceivedAt", cfg.Window, limits.ReplayWindow)
	case cfg.MaxBody < 0:
		return nil, bad("MaxBody", "§8.6", "is %d", cfg.MaxBody)
	}
	if !cfg.Keys.empty() {
		if u, err := url.Parse(cfg.CallbackURL); err != nil || !u.IsAbs() || u.Host == "" || strings.TrimSpace(cfg.CallbackURL) != cfg.CallbackURL {
			return nil, bad("CallbackURL", "§9.2", "is not an absolute URL without white space at an end")
		}
	}
	for field, ring := range map[string]KeyRing{"Keys": cfg.Keys, "DirectiveKeys": cfg.DirectiveKeys, "AckKeys": cfg.AckKeys} {
		if len(ring.keys) > 0 {
			if err := checkKeys("VerifierConfig."+field, ring.keys, cfg.Sealer); err != nil {
				return nil, err
			}
		}
	}
	return &Verifier{cfg: cfg, callback: cfg.CallbackURL, scratch: &sync.Pool{New: func() any { return new([]byte) }}}, nil
}

// ReceivedAt returns a Verifier that judges the window by the time at which a
// delivery came in, for one that waited in a queue of the agent's own. t must
// be a time that the agent took itself. A copy that the queue makes is a
// replay for a window from when it was first verified; past that only a Ledger
// knows it.
func (v *Verifier) ReceivedAt(t time.Time) *Verifier {
	if v == nil {
		return v
	}
	out := *v
	out.received = t
	return &out
}

// within returns a Verifier whose window is no wider than d, zero being no
// bound.
func (v *Verifier) within(d time.Duration) *Verifier {
	out := *v
	out.narrow = d
	return &out
}

// Response verifies a pushed Response: header grammar, strict parse, window,
// signature over the received payload, shape, and that it was not presented
// before. What the caller sees was decoded from the bytes that were signed.
//
// The replay claim is final here. To act at most once, across resends as well,
// give the delivery to a CallbackHandler or a Resumer instead.
func (v *Verifier) Response(ctx context.Context, h http.Header, body []byte) (*Response, error) {
	if v == nil || v.scratch == nil {
		return nil, fmt.Errorf("%w: Verifier", ErrZeroValue)
	}
	d, r, err := v.response(ctx, h, body)
	if err != nil {
		return nil, err
	}
	if err := v.once(ctx, d); err != nil {
		return nil, err
	}
	return r, nil
}

// Directive verifies a directive as a Hub pushes it: the bare directive and
// the signature header. Beside what Response checks, it must be addressed to
// this agent (§13.4).
func (v *Verifier) Directive(ctx context.Context, h http.Header, body []byte) (*Directive, error) {
	if v == nil || v.scratch == nil {
		return nil, fmt.Errorf("%w: Verifier", ErrZeroValue)
	}
	sig, err := header.FromHTTP(h)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	d, dir, err := v.directive(ctx, sig, body)
	if err != nil {
		return nil, err
	}
	if err := v.once(ctx, d); err != nil {
		return nil, err
	}
	return dir, nil
}

// Ack verifies a pushed acknowledgment, for the client of a human (§14.4).
func (v *Verifier) Ack(ctx context.Context, h http.Header, body []byte) (*types.Ack, error) {
	if v == nil || v.scratch == nil {
		return nil, fmt.Errorf("%w: Verifier", ErrZeroValue)
	}
	sig, err := header.FromHTTP(h)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	d, doc, err := v.verify(ctx, v.cfg.AckKeys, "AckKeys", signed.Ack, sig, body)
	if err != nil {
		return nil, err
	}
	var ack types.Ack
	if err := decodeValid(doc.Bytes(), &ack); err != nil {
		return nil, fmt.Errorf("%w: ack: %w", ErrMalformed, err)
	}
	if err := v.once(ctx, d); err != nil {
		return nil, err
	}
	return &ack, nil
}

// delivery is a verified delivery's place in the replay store.
type delivery struct {
	jti   string        // key in the store
	keep  time.Duration // how long its signature can still be presented
	bound bool          // the signature covers the payload
}

// response is Response without the replay claim.
func (v *Verifier) response(ctx context.Context, h http.Header, body []byte) (delivery, *Response, error) {
	sig, err := header.FromHTTP(h)
	if err != nil {
		return delivery{}, nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	d, doc, err := v.verify(ctx, v.cfg.Keys, "Keys", signed.Response, sig, body)
	if err != nil {
		return delivery{}, nil, err
	}
	w, err := decodeResponse(doc)
	if err != nil {
		return delivery{}, nil, fmt.Errorf("%w: Response: %w", ErrMalformed, err)
	}
	// defaulted is unsigned: its contradiction of what was signed is no reason
	// to lose a decision (§9.2).
	defaulted := w.Defaulted
	w.Defaulted = false
	err = w.Validate()
	w.Defaulted = defaulted
	if err != nil {
		return delivery{}, nil, fmt.Errorf("%w: Response: %w", ErrMalformed, err)
	}
	return d, newResponse(w, false, d.bound), nil
}

// directive is Directive without the replay claim.
func (v *Verifier) directive(ctx context.Context, sig header.Signature, body []byte) (delivery, *Directive, error) {
	d, doc, err := v.verify(ctx, v.cfg.DirectiveKeys, "DirectiveKeys", signed.Directive, sig, body)
	if err != nil {
		return delivery{}, nil, err
	}
	// UnmarshalJSON is as strict as types.Decode, through which the text would
	// be read twice.
	var w types.Directive
	if err := w.UnmarshalJSON(doc.Bytes()); err != nil {
		return delivery{}, nil, fmt.Errorf("%w: directive: %w", ErrMalformed, err)
	}
	if err := w.Validate(); err != nil {
		return delivery{}, nil, fmt.Errorf("%w: directive: %w", ErrMalformed, err)
	}
	if w.To != "agent:"+v.cfg.AgentID {
		return delivery{}, nil, fmt.Errorf("%w (§13.4)", ErrAddressee)
	}
	return d, newDirective(w), nil
}

// maxScratch is how much space is kept for the next delivery.
const maxScratch = 64 << 10

// errMAC is the ErrSignature of a delivery in which all is well but the
// signature itself.
var errMAC = fmt.Errorf("%w: it is of no key that is configured", ErrSignature)

// verify is the check that every delivery goes through, in the one order:
// header (parsed by the caller), size, strict parse, window, version,
// signature.
func (v *Verifier) verify(ctx context.Context, ring KeyRing, ringName string, kind signed.Kind, sig header.Signature, body []byte) (delivery, canon.Doc, error) {
	none := canon.Doc{}
	if ring.empty() {
		return delivery{}, none, fmt.Errorf("%w: VerifierConfig.%s is empty", ErrSignature, ringName)
	}
	if len(body) > v.cfg.MaxBody {
		return delivery{}, none, fmt.Errorf("%w: %d bytes, over %d", ErrMalformed, len(body), v.cfg.MaxBody)
	}
	doc, err := canon.Parse(body)
	if err != nil {
		return delivery{}, none, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	now := v.cfg.Now()
	at := now
	if !v.received.IsZero() {
		at = v.received
	}
	t := time.Unix(sig.Unix, 0)
	window := v.cfg.Window
	if v.narrow > 0 {
		window = min(window, v.narrow)
	}
	if off := at.Truncate(time.Second).Sub(t); off > window || off < -window {
		return delivery{}, none, fmt.Errorf("%w: off by %s, over %s", ErrStale, off, window)
	}
	// The body's own version: the signature binds it (§10).
	version, err := signed.Version(doc)
	switch {
	case errors.Is(err, ErrVersion):
		return delivery{}, none, err
	case err != nil:
		return delivery{}, none, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	row, ok := signed.For(kind, version)
	switch {
	case !ok:
		return delivery{}, none, fmt.Errorf("%w: %s has no such delivery (§10)", ErrVersion, version)
	case !row.BindsPayload() && !v.cfg.AllowUnboundPayload:
		return delivery{}, none, fmt.Errorf("%w: version %s", ErrUnboundPayload, version)
	}
	keys, err := ring.current(ctx, v.cfg.Sealer)
	if err != nil {
		return delivery{}, none, err
	}
	buf := v.scratch.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= maxScratch {
			v.scratch.Put(buf)
		}
	}()
	text, err := row.Append((*buf)[:0], doc, signed.Inputs{CallbackURL: v.callback, T: sig.T, JTI: sig.JTI})
	if err != nil {
		return delivery{}, none, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	*buf = text
	for i := range keys {
		if keys[i].valid(at) && keys[i].verify(text, sig.V1) {
			// A signature dated ahead can be presented for longer than one
			// window after it was first seen; what a Hub asks for may change
			// meanwhile, so the claim is kept for the whole one.
			keep := max(t.Sub(now), 0) + v.cfg.Window + time.Second
			return delivery{jti: "jti\x00" + ringName + "\x00" + v.cfg.AgentID + "\x00" + sig.JTI, keep: keep, bound: row.BindsPayload()}, doc, nil
		}
	}
	return delivery{}, none, errMAC
}

// once claims the delivery for good.
func (v *Verifier) once(ctx context.Context, d delivery) error {
	state, err := v.cfg.Replay.ClaimJTI(ctx, d.jti, 0, d.keep)
	switch {
	case err != nil:
		return storeError(err)
	case state != Fresh:
		return ErrReplay
	}
	return nil
}

// storeError makes every error of a store one that callers know. One of the
// caller's context, or of a Hub that stands in for a store, says what it is.
func storeError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnsupported) {
		return err
	}
	if _, hub := errors.AsType[*APIError](err); hub {
		return err
	}
	if errors.Is(err, ErrStoreFull) || errors.Is(err, ErrStoreUnavailable) || errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStoreUnavailable, err)
}
