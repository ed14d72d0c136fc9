package ma2h

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/ma2h/ma2h-go/internal/header"
	"github.com/ma2h/ma2h-go/types"
)

// CallbackConfig says what a CallbackHandler does with what a Hub pushes. The
// zero value of an optional field means the default that the field documents.
type CallbackConfig struct {
	// Verifier believes deliveries, and its replay store remembers them.
	// Required.
	Verifier *Verifier
	// Ledger makes acting at most once hold. Required. A MemoryStore, here or
	// in the Verifier, needs SingleReplica.
	Ledger Ledger
	// SingleReplica says that no second process takes pushes for this agent,
	// and that acting again after a restart does no harm.
	SingleReplica bool

	// Handle acts on a Response. Nil with Response keys is an error. It gets a
	// context that lasts nearly Lease, not one that ends with the request.
	//
	// Nil is done, for good. An error means that nothing was done: the Hub
	// will deliver again. An error under which errors.Is finds
	// ErrOutcomeUnknown means that something may have been done: it is not
	// tried again until InDoubt decides.
	Handle func(context.Context, *Response) error
	// HandleDirective acts on a directive, on the same terms. Nil: directives
	// are refused.
	HandleDirective func(context.Context, *Directive) error
	// Authorize says whether a principal may instruct this agent. Required
	// with HandleDirective; AllowFrom makes one from a list (§13.5).
	Authorize func(from string) bool

	// Client pulls what a push cannot prove: a task's result without detail,
	// and every push at 0.2. It also acknowledges, if Acknowledge is set.
	Client *Client
	// ConfirmByGet pulls every Response before acting; the Hub's own answer
	// counts. It needs Client.
	ConfirmByGet bool
	// Acknowledge tells the human, after the act, that the answer has arrived,
	// with the note that it returns. It needs Client. A failure is logged.
	Acknowledge func(*Response) (note string)
	// Expect, if set, is asked whether this agent sent the message. False is
	// answered 404, which is final, an error 503.
	Expect func(ctx context.Context, messageID string) (bool, error)
	// InDoubt decides about an act whose earlier attempt vanished. Default:
	// LeaveInDoubt, answered 503 each time.
	InDoubt func(context.Context, Act) (Doubt, error)
	// Lease is how long an act may take. After that it is in doubt. Default:
	// DefaultLease.
	Lease time.Duration

	// BearerToken and APIKey are what the Hub presents beside the signature,
	// if the callback names a scheme (§8.3). Several are for rotation. Set one
	// of the two, or neither.
	BearerToken []string
	APIKey      []string
	// APIKeyHeader is the header of APIKey. Default: X-Api-Key.
	APIKeyHeader string

	// ReadTimeout bounds the reading of a body. Default: 10 s.
	ReadTimeout time.Duration
	// RetryAfter is what a 503 asks the Hub to wait. Default: 5 s.
	RetryAfter time.Duration
	// Logger gets ids, states and reasons, never content. Default: the
	// Verifier's.
	Logger *slog.Logger
}

const (
	defaultReadTimeout = 10 * time.Second
	defaultRetryAfter  = 5 * time.Second
	// maxPulls bounds the pulls that unverified pushes can cause at a time.
	maxPulls = 4
)

// CallbackHandler is an http.Handler for what a Hub pushes. It acts on a
// delivery only if it is genuine, in time, new, for this endpoint and not acted
// on before, and it answers so that the Hub resends exactly what should be
// resent: a Hub never repeats a 4xx (§8.3).
//
//	acted on, or acted on before     200
//	in flight, in doubt, not acted   503 with Retry-After
//	signature, window, replay, token 401
//	malformed, second decision       400
//	another agent, not authorized    403
//	not a POST, too large, not JSON  405, 413, 415
//	Expect said no                   404
type CallbackHandler struct {
	cfg       CallbackConfig
	responses pipeline
	pulls     chan struct{}

	mu      sync.Mutex
	closing bool
	running sync.WaitGroup
}

// volatile is implemented by stores that forget on restart or are blind to a
// second process.
type volatile interface{ volatileStore() }

func (*MemoryStore) volatileStore() {}

// NewCallbackHandler checks cfg. It does no I/O.
func NewCallbackHandler(cfg CallbackConfig) (*CallbackHandler, error) {
	bad := func(field, section, format string, args ...any) error {
		return invalid("CallbackConfig."+field, section, format, args...)
	}
	if cfg.Verifier == nil {
		return nil, bad("Verifier", "§9.2", "is required")
	}
	if cfg.Ledger == nil {
		return nil, bad("Ledger", "§6", "is required")
	}
	_, forgets := cfg.Ledger.(volatile)
	if _, also := cfg.Verifier.cfg.Replay.(volatile); (forgets || also) && !cfg.SingleReplica {
		return nil, bad("Ledger", "§6", "or the Verifier's Replay is in memory: set SingleReplica if no second process takes these pushes, or use a store that replicas share")
	}
	v := &cfg.Verifier.cfg
	switch {
	case (cfg.Handle != nil) != !v.Keys.empty():
		return nil, bad("Handle", "§9.2", "goes with the Verifier's Keys, both or neither")
	case (cfg.HandleDirective != nil) && v.DirectiveKeys.empty():
		return nil, bad("HandleDirective", "§9.7", "needs the Verifier's DirectiveKeys")
	case (cfg.HandleDirective != nil) != (cfg.Authorize != nil):
		return nil, bad("Authorize", "§13.5", "goes with HandleDirective, both or neither")
	case cfg.Handle == nil && cfg.HandleDirective == nil:
		return nil, bad("Handle", "§8.3", "is required")
	case cfg.ConfirmByGet && cfg.Client == nil:
		return nil, bad("ConfirmByGet", "§8.3", "needs Client")
	case v.AllowUnboundPayload && cfg.Client == nil:
		return nil, bad("Client", "§10", "is required with AllowUnboundPayload, whose pushes are confirmed by a pull")
	case cfg.Acknowledge != nil && cfg.Client == nil:
		return nil, bad("Acknowledge", "§14.3", "needs Client")
	case cfg.Client != nil && cfg.Client.cfg.Agent.ID != v.AgentID:
		return nil, bad("Client", "§9.1", "is of another agent than the Verifier")
	case len(cfg.BearerToken) > 0 && len(cfg.APIKey) > 0:
		return nil, bad("APIKey", "§8.3", "is set beside BearerToken; a callback has one scheme")
	case cfg.Lease < 0 || cfg.Lease > 0 && cfg.Lease < time.Second:
		return nil, bad("Lease", "§13.4", "is %s, below 1s", cfg.Lease)
	case cfg.ReadTimeout < 0 || cfg.RetryAfter < 0:
		return nil, bad("ReadTimeout", "§8.3", "or RetryAfter is negative")
	}
	for field, list := range map[string][]string{"BearerToken": cfg.BearerToken, "APIKey": cfg.APIKey} {
		for _, s := range list {
			if err := checkSecret("CallbackConfig."+field, s); err != nil {
				return nil, err
			}
		}
	}
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = defaultReadTimeout
	}
	if cfg.RetryAfter == 0 {
		cfg.RetryAfter = defaultRetryAfter
	}
	if cfg.APIKeyHeader == "" {
		cfg.APIKeyHeader = "X-Api-Key"
	}
	if cfg.Logger == nil {
		cfg.Logger = v.Logger
	}
	return &CallbackHandler{
		cfg:       cfg,
		responses: pipeline{ledger: cfg.Ledger, replay: v.Replay, lease: cfg.Lease, inDoubt: cfg.InDoubt, log: cfg.Logger},
		pulls:     make(chan struct{}, maxPulls),
	}, nil
}

// AllowFrom authorizes exactly the principals in the list.
func AllowFrom(principals ...string) func(from string) bool {
	set := make(map[string]bool, len(principals))
	for _, p := range principals {
		set[p] = true
	}
	return func(from string) bool { return set[from] }
}

// Outcome is what became of a delivery and what to answer the Hub.
type Outcome struct {
	// Status is the HTTP status to answer with.
	Status int
	// RetryAfter goes with a 503.
	RetryAfter time.Duration
	// Acted reports whether this call ran the act to its end.
	Acted bool
	// MessageID is the message or directive, once verified.
	MessageID string
	// Err says why nothing was acted on, or is nil.
	Err error
}

// ServeHTTP implements http.Handler.
func (h *CallbackHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := h.serve(w, r)
	if out.Status == http.StatusServiceUnavailable && out.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(out.RetryAfter.Seconds()))))
	}
	if out.Status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(out.Status)
	_, _ = io.WriteString(w, answers[out.Status])
}

// answers are the bodies: a code and nothing that an attacker could learn
// from.
var answers = map[int]string{
	http.StatusOK:                    `{}`,
	http.StatusBadRequest:            `{"error":{"code":"validation_error"}}`,
	http.StatusUnauthorized:          `{"error":{"code":"unauthenticated"}}`,
	http.StatusForbidden:             `{"error":{"code":"not_authorized"}}`,
	http.StatusNotFound:              `{"error":{"code":"not_found"}}`,
	http.StatusMethodNotAllowed:      `{"error":{"code":"validation_error"}}`,
	http.StatusRequestEntityTooLarge: `{"error":{"code":"validation_error"}}`,
	http.StatusUnsupportedMediaType:  `{"error":{"code":"validation_error"}}`,
	http.StatusServiceUnavailable:    `{"error":{"code":"unavailable"}}`,
}

// Errors of a request before it is a delivery.
var (
	errMethod   = errors.New("ma2h: not a POST")
	errType     = errors.New("ma2h: not JSON")
	errTooLarge = errors.New("ma2h: the body is too large")
	errBody     = errors.New("ma2h: the body did not arrive whole")
	errConsumed = errors.New("ma2h: the body is empty though its length is not: something before this handler has read it; give the bytes to Process instead")
	errClosing  = errors.New("ma2h: shutting down")
	errToken    = errors.New("ma2h: the callback credential is missing or wrong")
	errUnsent   = errors.New("ma2h: this agent did not send that message")
)

func (h *CallbackHandler) serve(w http.ResponseWriter, r *http.Request) Outcome {
	if r.Method != http.MethodPost {
		return h.done(r.Context(), Outcome{Err: errMethod})
	}
	if ct, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || ct != "application/json" {
		return h.done(r.Context(), Outcome{Err: errType})
	}
	body, err := h.read(w, r)
	if err != nil {
		return h.done(r.Context(), Outcome{Err: err})
	}
	return h.Process(r.Context(), r.Header, body)
}

func (h *CallbackHandler) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	most := int64(h.cfg.Verifier.cfg.MaxBody)
	if r.ContentLength > most {
		return nil, errTooLarge
	}
	// A writer that cannot set deadlines leaves slow bodies to the server.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.cfg.ReadTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, errTooLarge
		}
		return nil, errBody
	case len(body) == 0 && r.ContentLength != 0:
		return nil, errConsumed
	}
	return body, nil
}

// Process takes a delivery for people who have their own router: the header
// and the body, byte for byte as they came. It answers as ServeHTTP does.
func (h *CallbackHandler) Process(ctx context.Context, head http.Header, body []byte) Outcome {
	if !h.enter() {
		return h.done(ctx, Outcome{Err: errClosing})
	}
	defer h.running.Done()
	if err := h.checkToken(head); err != nil {
		return h.done(ctx, Outcome{Err: err})
	}
	return h.done(ctx, h.process(ctx, head, body))
}

func (h *CallbackHandler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return false
	}
	h.running.Add(1)
	return true
}

// Shutdown makes every further delivery a 503 and waits for the acts and
// acknowledgments that are running, or until ctx ends.
func (h *CallbackHandler) Shutdown(ctx context.Context) error {
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	done := make(chan struct{})
	go func() { h.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ma2h: acts are still running: %w", contextError(ctx))
	}
}

// checkToken compares in constant time, and by digest so that the length of
// the secret does not show.
func (h *CallbackHandler) checkToken(head http.Header) error {
	var got string
	var want []string
	switch {
	case len(h.cfg.BearerToken) > 0:
		const scheme = "Bearer "
		if got = head.Get("Authorization"); len(got) <= len(scheme) || got[:len(scheme)] != scheme {
			return errToken
		}
		got, want = got[len(scheme):], h.cfg.BearerToken
	case len(h.cfg.APIKey) > 0:
		got, want = head.Get(h.cfg.APIKeyHeader), h.cfg.APIKey
	default:
		return nil
	}
	ok := 0
	g := sha256.Sum256([]byte(got))
	for _, s := range want {
		w := sha256.Sum256([]byte(s))
		ok |= subtle.ConstantTimeCompare(g[:], w[:])
	}
	if ok != 1 {
		return errToken
	}
	return nil
}

// process tells a Response from a directive by the type member that only the
// latter has, and sends it on its way. Nothing is believed yet.
func (h *CallbackHandler) process(ctx context.Context, head http.Header, body []byte) Outcome {
	if h.cfg.HandleDirective != nil && (h.cfg.Handle == nil || isDirective(body)) {
		return h.processDirective(ctx, head, body)
	}
	d, r, err := h.cfg.Verifier.response(ctx, head, body)
	switch {
	case err == nil:
	case errors.Is(err, ErrSignature):
		return h.pullUnproven(ctx, head, body, err)
	default:
		return Outcome{Err: err}
	}
	out := Outcome{MessageID: r.MessageID()}
	if h.cfg.Expect != nil {
		ok, err := h.cfg.Expect(ctx, r.MessageID())
		switch {
		case err != nil:
			out.Err = fmt.Errorf("%w: Expect: %w", ErrStoreUnavailable, err)
			return out
		case !ok:
			out.Err = errUnsent
			return out
		}
	}
	if h.cfg.ConfirmByGet || !r.PayloadBound() {
		pulled, err := h.pull(ctx, r.MessageID())
		switch {
		case err != nil:
			out.Err = err
			return out
		case pulled.ResolutionID() != r.ResolutionID():
			out.Err = ErrSecondResolution
			return out
		}
		r = pulled
	}
	out.Err = h.act(ctx, d, r)
	out.Acted = out.Err == nil
	return out
}

func (h *CallbackHandler) act(ctx context.Context, d delivery, r *Response) error {
	err := h.responses.run(ctx, item{act: r.act(h.cfg.Verifier.cfg.AgentID), from: d, do: func(ctx context.Context) error { return h.cfg.Handle(ctx, r) }})
	if err == nil && h.cfg.Acknowledge != nil {
		h.acknowledge(ctx, r)
	}
	return err
}

// acknowledge runs beside the answer to the Hub, which counts the push as
// delivered only then. The GET before it makes the message acknowledgeable on
// a Hub that has not.
func (h *CallbackHandler) acknowledge(ctx context.Context, r *Response) {
	h.running.Add(1)
	go func() {
		defer h.running.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		note := h.cfg.Acknowledge(r)
		_, err := h.cfg.Client.Message(ctx, r.MessageID())
		if err == nil {
			_, err = h.cfg.Client.Acknowledge(ctx, r.MessageID(), note)
		}
		if err != nil {
			h.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "ma2h: not acknowledged", slog.String("id", r.MessageID()), slog.String("error", err.Error()))
		}
	}()
}

func (h *CallbackHandler) processDirective(ctx context.Context, head http.Header, body []byte) Outcome {
	sig, err := header.FromHTTP(head)
	if err != nil {
		return Outcome{Err: fmt.Errorf("%w: %w", ErrSignature, err)}
	}
	d, dir, err := h.cfg.Verifier.directive(ctx, sig, body)
	if err != nil {
		return Outcome{Err: err}
	}
	out := Outcome{MessageID: dir.ID()}
	if !h.cfg.Authorize(dir.From()) {
		out.Err = fmt.Errorf("%w: the author of directive %s (§13.5)", ErrNotAuthorized, types.Quote(dir.ID()))
		return out
	}
	out.Err = h.responses.run(ctx, item{act: dir.act(h.cfg.Verifier.cfg.AgentID), from: d, do: func(ctx context.Context) error { return h.cfg.HandleDirective(ctx, dir) }})
	out.Acted = out.Err == nil
	return out
}

// isDirective reads the type of a body that nobody has vouched for. A lie only
// leads to a check that fails.
func isDirective(body []byte) bool {
	var w struct {
		Type string `json:"type"`
	}
	return types.Decode(body, &w) == nil && w.Type == types.TypeDirective
}

// pullUnproven handles a push that may be genuine and cannot be proved: the
// result of a task without detail, whose signed resolved_at is not on the wire
// when a Hub does not sign null for it (§9.8 of 0.5). It is never guessed: the
// Hub's own answer is pulled and acted on, or the push is answered 503.
func (h *CallbackHandler) pullUnproven(ctx context.Context, head http.Header, body []byte, cause error) Outcome {
	var w types.Response
	sig, err := header.FromHTTP(head)
	if err != nil || types.Decode(body, &w) != nil || w.Response != nil || w.Validate() != nil {
		return Outcome{Err: cause}
	}
	off := h.cfg.Verifier.cfg.Now().Sub(time.Unix(sig.Unix, 0))
	if off.Abs() > h.cfg.Verifier.cfg.Window {
		return Outcome{Err: cause}
	}
	if h.cfg.Client == nil {
		return Outcome{Err: fmt.Errorf("%w: the result of %s has no detail to verify, and no Client is configured to pull it", ErrStoreUnavailable, types.Quote(w.InReplyTo))}
	}
	r, err := h.pull(ctx, w.InReplyTo)
	switch {
	case errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone):
		return Outcome{Err: cause}
	case err != nil:
		return Outcome{Err: err}
	case r.ResolutionID() != w.ResolutionID:
		return Outcome{Err: cause}
	}
	out := Outcome{MessageID: r.MessageID()}
	out.Err = h.act(ctx, delivery{}, r)
	out.Acted = out.Err == nil
	return out
}

// pull reads the message's end from the Hub, a few at a time.
func (h *CallbackHandler) pull(ctx context.Context, id string) (*Response, error) {
	select {
	case h.pulls <- struct{}{}:
		defer func() { <-h.pulls }()
	default:
		return nil, fmt.Errorf("%w: too many pulls under way", ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Client.cfg.AttemptTimeout)
	defer cancel()
	m, err := h.cfg.Client.Message(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case m.Response == nil:
		return nil, fmt.Errorf("%w: message %s is open at the Hub", ErrUnavailable, types.Quote(id))
	}
	return m.Response, nil
}

// done chooses the answer. Whatever is not known to be final is 503: a Hub
// never repeats a 4xx, so a 4xx for a passing fault loses the decision.
func (h *CallbackHandler) done(ctx context.Context, out Outcome) Outcome {
	level := slog.LevelWarn
	switch err := out.Err; {
	case err == nil:
		out.Status, level = http.StatusOK, slog.LevelInfo
	case failedToAct(err):
		out.Status, out.RetryAfter, level = http.StatusServiceUnavailable, h.cfg.RetryAfter, slog.LevelError
	case errors.Is(err, ErrAlreadyActed):
		out.Status, level = http.StatusOK, slog.LevelInfo
	case errors.Is(err, errMethod):
		out.Status = http.StatusMethodNotAllowed
	case errors.Is(err, errType):
		out.Status = http.StatusUnsupportedMediaType
	case errors.Is(err, errTooLarge):
		out.Status = http.StatusRequestEntityTooLarge
	case errors.Is(err, errToken), errors.Is(err, ErrSignature), errors.Is(err, ErrStale), errors.Is(err, ErrReplay):
		out.Status = http.StatusUnauthorized
	case errors.Is(err, ErrAddressee), errors.Is(err, ErrNotAuthorized) && !isAPI(err):
		out.Status = http.StatusForbidden
	case errors.Is(err, errUnsent):
		out.Status = http.StatusNotFound
	case errors.Is(err, ErrSecondResolution), errors.Is(err, ErrMalformed), errors.Is(err, ErrUnboundPayload):
		out.Status = http.StatusBadRequest
	default:
		out.Status, out.RetryAfter = http.StatusServiceUnavailable, h.cfg.RetryAfter
		if errors.Is(err, errConsumed) || errors.Is(err, ErrInDoubt) || errors.Is(err, ErrOutcomeUnknown) {
			level = slog.LevelError
		}
	}
	attrs := []slog.Attr{slog.Int("status", out.Status), slog.Bool("acted", out.Acted)}
	if out.MessageID != "" {
		attrs = append(attrs, slog.String("id", types.Quote(out.MessageID)))
	}
	if out.Err != nil {
		attrs = append(attrs, slog.String("reason", reason(out.Err)))
	}
	h.cfg.Logger.LogAttrs(ctx, level, "ma2h: delivery", attrs...)
	return out
}

func isAPI(err error) bool {
	_, ok := errors.AsType[*APIError](err)
	return ok
}

// reason names the library's own error. That of a caller's function may hold
// content and is the caller's to log.
func reason(err error) string {
	if failedToAct(err) && !errors.Is(err, ErrActPanicked) {
		return "ma2h: the handler failed"
	}
	for _, known := range []error{
		errMethod, errType, errTooLarge, errBody, errConsumed, errClosing, errToken, errUnsent,
		ErrSignature, ErrStale, ErrReplay, ErrAddressee, ErrMalformed, ErrVersion, ErrUnboundPayload,
		ErrKeySource, ErrInFlight, ErrInDoubt, ErrOutcomeUnknown, ErrActPanicked, ErrSecondResolution, ErrAlreadyActed,
		ErrStoreFull, ErrStoreUnavailable, ErrLeaseLost, ErrNotAuthorized, ErrUnavailable,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "ma2h: not accepted"
}
