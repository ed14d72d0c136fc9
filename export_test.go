package ma2h

import (
	"context"
	"log/slog"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// What the tests outside the package look at. They are outside because the
// fake Hub imports it.
var (
	ErrMethod   = errMethod
	ErrType     = errType
	ErrTooLarge = errTooLarge
	ErrUnsent   = errUnsent
	ErrToken    = errToken
	ErrClosing  = errClosing
	ErrPanicked = errPanicked
	ErrMAC      = errMAC

	ActKey       = actKey
	SameRun      = sameRun
	ClaimName    = claimName
	SealKeyBytes = sealKeyBytes
	TrustMemory  = trustMemory
	Claims       = claims
	StoreError   = storeError
)

const (
	MaxPulls          = maxPulls
	MaxNote           = maxNote
	MaxStoreKey       = maxStoreKey
	DefaultRetryAfter = defaultRetryAfter
	SettleTime        = settleTime
	HandlePrefix      = handlePrefix
)

func ActOf(r *Response, agentID string) Act { return r.act(agentID) }

func Held(r *Response) *types.Response { return r.held() }

func AckOf(agentID, id, key string) *Ack { return &Ack{ID: id, Key: key, agent: agentID} }

func (h *CallbackHandler) Configured() *CallbackConfig { return &h.cfg }

func (h *CallbackHandler) Unproven() chan struct{} { return h.unproven }

func (h *CallbackHandler) Reopen() { h.closing = false }

func (r *Resumer) Configured() *ResumeConfig { return &r.cfg }

func (v *Verifier) Configured() *VerifierConfig { return &v.cfg }

// RunWith acts through the handler's pipeline with another policy on doubt.
func (h *CallbackHandler) RunWith(ctx context.Context, inDoubt func(context.Context, Act) (Doubt, error), act Act, do func(context.Context) error) error {
	p := h.responses
	p.inDoubt = inDoubt
	return p.run(ctx, item{act: act, do: do})
}

// RunOn acts through a pipeline on a ledger alone.
func RunOn(ctx context.Context, ledger Ledger, act Act, do func(context.Context) error) error {
	p := pipeline{ledger: ledger, lease: time.Minute, log: slog.New(slog.DiscardHandler)}
	return p.run(ctx, item{act: act, do: do})
}

// Live is how many deliveries and acts a store holds.
func (s *MemoryStore) Live() (jtis, acts int64) { return s.jtis.live.Load(), s.acts.live.Load() }

// SetLedger gives an Inbox another ledger.
func (in *Inbox) SetLedger(l Ledger) { in.cfg.Ledger = l }

// Config is what an Inbox was made of.
func (in *Inbox) Config() InboxConfig { return in.cfg }
