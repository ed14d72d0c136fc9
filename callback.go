package ma2h

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

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

	// Handle acts on a Response, whatever the decision was: it is called for a
	// decline, a cancel and an expiry as well, so ask Response.Answered and By,
	// or Approval.Judge, first. Required where the Verifier has Keys. It gets a
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
	// and every push at 0.2, which is refused if the message was sent at a later
	// minor. It also acknowledges, if Acknowledge is set.
	Client *Client
	// ConfirmByGet pulls every Response before acting; the Hub's own answer
	// counts. It needs Client.
	ConfirmByGet bool
	// Acknowledge tells the human, after the act, that the answer has arrived,
	// with the note that it returns. It needs Client. A failure is logged.
	Acknowledge func(*Response) (note string)
	// Expect, if set, is asked whether this agent sent the message. False is
	// answered 503 if the push verified, since one may come before the answer to
	// its submit, and 404, which is final, if it did not. An error is 503.
	Expect func(ctx context.Context, messageID string) (bool, error)
	// InDoubt decides about an act whose earlier attempt vanished. Default:
	// LeaveInDoubt, answered 503 each time.
	InDoubt func(context.Context, Act) (Doubt, error)
	// Lease is how long an act may take. After that it is in doubt. Default:
	// DefaultLease.
	Lease time.Duration

	// BearerToken is what the Hub presents beside the signature, if the callback
	// names the scheme bearer (§8.3). Several are for rotation. It excludes
	// APIKey.
	BearerToken []string
	// APIKey is BearerToken for the scheme apikey.
	APIKey []string
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
	// maxPulls bounds the pulls under way at a time, those that unverified pushes
	// cause apart from the others.
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
//	unproven, and Expect said no     404
type CallbackHandler struct {
	cfg       CallbackConfig      // without the credentials
	tokens    [][sha256.Size]byte // digests of the credentials, if there are any
	bearer    bool                // they are bearer tokens
	responses pipeline
	pulls     chan struct{} // of what verified
	unproven  chan struct{} // of what did not

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
	case !cfg.Verifier.received.IsZero():
		return nil, bad("Verifier", "§9.2", "is one of ReceivedAt, which judges a single delivery")
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
			if v.Sealer != nil && v.Sealer.usesKey([]byte(s)) {
				return nil, bad(field, "§9.3", "is also a seal key; the two must differ")
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
	h := &CallbackHandler{
		responses: pipeline{ledger: cfg.Ledger, replay: v.Replay, lease: cfg.Lease, inDoubt: cfg.InDoubt, patient: true, log: cfg.Logger},
		pulls:     make(chan struct{}, maxPulls),
		unproven:  make(chan struct{}, maxPulls),
	}
	for _, s := range slices.Concat(cfg.BearerToken, cfg.APIKey) {
		h.tokens = append(h.tokens, sha256.Sum256([]byte(s)))
	}
	h.bearer = len(cfg.BearerToken) > 0
	cfg.BearerToken, cfg.APIKey = nil, nil
	h.cfg = cfg
	return h, nil
}

// Format prints the number of the credentials and nothing of them.
func (c CallbackConfig) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.text()) }

// LogValue logs what Format prints.
func (c CallbackConfig) LogValue() slog.Value { return slog.StringValue(c.text()) }

// MarshalJSON writes what Format prints.
func (c CallbackConfig) MarshalJSON() ([]byte, error) { return types.Encode(c.text()) }

func (c CallbackConfig) text() string {
	return redactedText("CallbackConfig", "credentials", strconv.Itoa(len(c.BearerToken)+len(c.APIKey)))
}

// AllowFrom authorizes exactly the principals in the list.
func AllowFrom(principals ...string) func(from string) bool {
	set := make(map[string]bool, len(principals))
	for _, p := range principals {
		set[p] = true
	}
	return func(from string) bool { return set[from] }
}
