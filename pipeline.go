package ma2h

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// Errors of acting once.
var (
	// ErrInFlight: another delivery of the same decision is being acted on.
	ErrInFlight = errors.New("ma2h: this is being acted on")
	// ErrAlreadyActed: the decision was acted on before, or, where the Hub's
	// acknowledgment is the claim, taken by another run.
	ErrAlreadyActed = errors.New("ma2h: this was acted on before")
	// ErrInDoubt: an earlier attempt to act vanished, and nobody knows
	// whether it had its effect. It is not tried again until InDoubt decides.
	ErrInDoubt = errors.New("ma2h: an earlier act is in doubt")
	// ErrSecondResolution: the Hub delivered a second, different decision for
	// one message, which the protocol forbids (§7). The first one stands.
	ErrSecondResolution = errors.New("ma2h: a second decision for a message that has one")
	// ErrActPanicked: the function that acts panicked. That counts as nothing
	// done, as any other error does: one that may panic after its effect
	// recovers and returns ErrOutcomeUnknown.
	ErrActPanicked = errors.New("ma2h: the act panicked")
)

// Doubt is what to do about an act that is in doubt.
type Doubt int

// The decisions on a doubtful act.
const (
	// LeaveInDoubt acts on nothing and keeps saying so. It is the default.
	LeaveInDoubt Doubt = iota
	// ActAgain runs the act once more: right if a second run does no harm.
	ActAgain
	// TakeAsDone records the act as done without running it: right if its
	// effect has been found.
	TakeAsDone
)

// DefaultLease is how long an act may take unless told otherwise.
const DefaultLease = 5 * time.Minute

// settleTime bounds what is written after an act, which goes on when the
// caller has given up.
const settleTime = 10 * time.Second

// pipeline is the one way from a verified delivery to an act: claim, act,
// commit. Every mouth of the library feeds it, so each rule is written once.
type pipeline struct {
	ledger  Ledger
	replay  ReplayStore   // of deliveries that were signed
	lease   time.Duration // how long an act may take
	inDoubt func(context.Context, Act) (Doubt, error)
	// patient has a claim outlast the caller's context: a Hub that hangs up
	// while the store answers would leave an act in doubt that never began.
	patient bool
	log     *slog.Logger
}

// item is one verified delivery on its way to be acted on.
type item struct {
	act  Act
	from delivery // zero for one that was pulled
	do   func(context.Context) error
}

// run acts on it once. Nil means that this call acted and recorded it.
func (p *pipeline) run(ctx context.Context, it item) (err error) {
	state, err := p.ledger.Lookup(ctx, it.act)
	if err != nil {
		return storeError(err)
	}
	// Done comes before the replay claim: a Hub that resends the very bytes of
	// a delivery whose 200 was lost must hear 200 (§8.3).
	if state == ActDone || state == ActConflict {
		return actStateError(state)
	}
	settle, err := p.claimReplay(ctx, it.from)
	if errors.Is(err, ErrReplay) {
		// A copy of the same bytes may have been acted on since the look.
		if state, lerr := p.ledger.Lookup(ctx, it.act); lerr != nil {
			return storeError(lerr)
		} else if state == ActDone {
			return ErrAlreadyActed
		}
	}
	if err != nil {
		return err
	}
	// Deferred, because a policy or store of the caller's may panic. The bare
	// sentinel is the ledger's word; one that is wrapped is somebody else's.
	final := false
	defer func() { settle(ctx, final) }()
	err = p.reserveAndAct(ctx, it)
	final = err == nil || err == ErrAlreadyActed
	return err
}

// actError is the caller's own error: whatever it wraps says nothing about the
// delivery.
type actError struct{ err error }

func (e *actError) Error() string { return e.err.Error() }
func (e *actError) Unwrap() error { return e.err }

func failedToAct(err error) bool {
	_, ok := errors.AsType[*actError](err)
	return ok
}

// claimReplay takes the delivery's jti provisionally. The returned function
// makes it final or gives it back.
func (p *pipeline) claimReplay(ctx context.Context, d delivery) (func(context.Context, bool), error) {
	if d.jti == "" {
		return func(context.Context, bool) {}, nil
	}
	state, err := p.replay.ClaimJTI(ctx, d.jti, p.lease, d.keep)
	switch {
	case err != nil:
		return nil, storeError(err)
	case state == Pending:
		return nil, ErrInFlight
	case state == Seen:
		return nil, ErrReplay
	}
	return func(ctx context.Context, final bool) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		if err := p.replay.SettleJTI(ctx, d.jti, final); err != nil {
			// The claim lapses by itself; until then a resend is in flight.
			p.log.LogAttrs(ctx, slog.LevelWarn, "ma2h: replay claim not settled", slog.String("error", err.Error()))
		}
	}, nil
}

func (p *pipeline) reserveAndAct(ctx context.Context, it item) error {
	begin := time.Now()
	if err := ctx.Err(); err != nil {
		return storeError(err)
	}
	if p.patient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
	}
	res, err := p.ledger.Reserve(ctx, it.act, p.lease, false)
	if err != nil {
		return storeError(err)
	}
	if res.State == ActInDoubt && p.inDoubt != nil {
		if res, begin, err = p.resolveDoubt(ctx, it.act); err != nil {
			return err
		}
	}
	if res.State != ActClaimed {
		return actStateError(res.State)
	}
	err = p.act(ctx, it, begin.Add(p.lease))
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	return p.settle(settle, it.act, res.Token, err)
}

// resolveDoubt asks the caller's policy, and claims the act anew if it says so:
// begin is when that claim's lease began, since the policy may take its time.
func (p *pipeline) resolveDoubt(ctx context.Context, act Act) (res Reservation, begin time.Time, err error) {
	doubt, err := p.inDoubt(ctx, act)
	begin = time.Now()
	switch {
	case err != nil:
		// Told and not wrapped: whatever sentinel it is says nothing about the
		// delivery.
		return Reservation{}, begin, fmt.Errorf("%w: %v", ErrInDoubt, err)
	case doubt != ActAgain && doubt != TakeAsDone:
		return Reservation{State: ActInDoubt}, begin, nil
	}
	res, err = p.ledger.Reserve(ctx, act, p.lease, true)
	if err != nil {
		return Reservation{}, begin, storeError(err)
	}
	if doubt == TakeAsDone && res.State == ActClaimed {
		if err := p.ledger.Commit(ctx, act, res.Token); err != nil {
			return Reservation{}, begin, storeError(err)
		}
		res = Reservation{State: ActDone}
	}
	return res, begin, nil
}

// act runs the caller's function until its lease is nearly over. It does not
// end with the caller's own context: a Hub that loses patience must not stop
// an act halfway.
func (p *pipeline) act(ctx context.Context, it item, until time.Time) (err error) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until.Add(-p.lease/10))
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			// The value may hold content; the stack does not.
			p.log.LogAttrs(ctx, slog.LevelError, "ma2h: the act panicked", slog.String("stack", string(debug.Stack())))
			err = &actError{ErrActPanicked}
		}
	}()
	if err := it.do(ctx); err != nil {
		return &actError{err}
	}
	return nil
}

// settle records what became of the act.
func (p *pipeline) settle(ctx context.Context, act Act, token Token, err error) error {
	switch {
	case err == nil:
		if cerr := retrySettle(ctx, func() error { return p.ledger.Commit(ctx, act, token) }); cerr != nil {
			p.log.LogAttrs(ctx, slog.LevelError, "ma2h: acted, and could not record it: in doubt", slog.String("error", cerr.Error()))
			return fmt.Errorf("%w: acted, and could not record it: %w", ErrOutcomeUnknown, storeError(cerr))
		}
		return nil
	case errors.Is(err, ErrOutcomeUnknown):
		if derr := retrySettle(ctx, func() error { return p.ledger.Doubt(ctx, act, token) }); derr != nil {
			err = errors.Join(err, storeError(derr)) // the lease ends in doubt by itself
		}
		return err
	}
	if rerr := retrySettle(ctx, func() error { return p.ledger.Release(ctx, act, token) }); rerr != nil {
		err = errors.Join(err, storeError(rerr))
	}
	return err
}

// retrySettle tries a few times, because what it records has happened.
func retrySettle(ctx context.Context, f func() error) error {
	for _, wait := range [...]time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 800 * time.Millisecond} {
		err := f()
		if err == nil || errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrOutcomeUnknown) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
	return f()
}

func actStateError(s ActState) error {
	switch s {
	case ActDone:
		return ErrAlreadyActed
	case ActInFlight:
		return ErrInFlight
	case ActInDoubt:
		return ErrInDoubt
	case ActConflict:
		return ErrSecondResolution
	}
	return fmt.Errorf("%w: the ledger answered with state %d", ErrStoreUnavailable, s)
}

// Act keys: the agent and the kind keep what shares a store apart.
func (r *Response) act(agentID string) Act {
	return Act{Key: actKey("response", agentID, r.MessageID()), Resolution: r.ResolutionID()}
}

func (d *Directive) act(agentID string) Act {
	return Act{Key: actKey("directive", agentID, d.ID())}
}

// actKey fits two ids of any allowed length into a store's key.
func actKey(kind, agentID, id string) string {
	if len(agentID) > 64 {
		sum := sha256.Sum256([]byte(agentID))
		agentID = "sha256:" + hex.EncodeToString(sum[:])
	}
	return kind + "\x00" + agentID + "\x00" + id
}

// MessageID returns the message or directive that the act is about.
func (a Act) MessageID() string {
	if parts := strings.SplitN(a.Key, "\x00", 3); len(parts) == 3 {
		return parts[2]
	}
	return a.Key
}

// String returns the id, quoted and cut where it must be.
func (a Act) String() string { return "Act{" + types.Quote(a.MessageID()) + "}" }
