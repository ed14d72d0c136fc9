package ma2h

import (
	"context"
	"errors"
	"time"
)

// Errors of a store.
var (
	// ErrStoreUnavailable: the store could not be asked, or did not answer.
	// Nothing is known and nothing may be acted on. A claim that ended so is
	// none: a store takes it back as soon as it can, or it lapses.
	ErrStoreUnavailable = errors.New("ma2h: the store is unavailable")
	// ErrStoreFull: the store holds as many live entries as it may. It never
	// drops one to make room.
	ErrStoreFull = errors.New("ma2h: the store is full")
	// ErrLeaseLost: the claim's lease has lapsed or someone else holds it. What
	// was done under it is in doubt.
	ErrLeaseLost = errors.New("ma2h: the lease was lost")
)

// Store is all that an agent keeps about deliveries: which have been seen and
// which have been acted on. It holds ids, digests, times and states, never
// content. Package storetest states the contract as a test suite.
type Store interface {
	ReplayStore
	Ledger
}

// ReplayStore remembers signed deliveries for as long as their signature could
// be presented again (§9.2). It is safe for concurrent use, by many processes
// if it says so.
//
// A claim is provisional: a Hub that resends the same bytes after a failure on
// our side must be served, so a delivery that was not acted on is forgotten.
type ReplayStore interface {
	// ClaimJTI atomically takes key for the length of lease and reports
	// whether this caller is the first. A provisional claim whose lease has
	// lapsed counts as absent. A lease of zero makes the claim final at once.
	// key is any bytes, 1 to 1024, else a *FieldError. keep is how long the key
	// must be remembered in all, from now; no live entry is ever dropped before
	// that. Errors: ErrStoreFull, ErrStoreUnavailable, the context's.
	ClaimJTI(ctx context.Context, key string, lease, keep time.Duration) (ReplayState, error)
	// SettleJTI makes the claim final, until keep has passed, or forgets it
	// unless it is final. Settling a key that is not there is no error. It
	// needs no token: the Ledger guards the act, and whoever settles late can
	// make a resend come to it once more, never a final claim fresh again.
	SettleJTI(ctx context.Context, key string, final bool) error
}

// ReplayState is what a ReplayStore knows of a key.
type ReplayState int

// The states of a replay key.
const (
	Fresh   ReplayState = iota + 1 // it is this caller's now
	Pending                        // another caller's claim is being acted on
	Seen                           // it was taken for good: a replay
)

// Act identifies what may be done once.
type Act struct {
	// Key names the message or directive within an agent. Any bytes, 1 to 1024.
	Key string
	// Resolution tells apart the decisions that a message could have had. A
	// message has one: a second is ActConflict.
	Resolution string
}

// Ledger makes acting at most once hold across deliveries, processes and
// restarts (§13.4): Reserve, act, then Commit or Release. It is safe for
// concurrent use, by many processes if it says so. Leases run on the ledger's
// clock. An Act out of its bounds is a *FieldError. Other errors are
// ErrStoreFull, ErrStoreUnavailable, the context's and ErrLeaseLost.
//
// Commit, Release and Doubt may be repeated: one whose answer was lost is sent
// again and finds its own work done.
//
// A holder that dies leaves a lease that lapses, and an act of which nobody
// knows whether it happened. That is ActInDoubt. It stays so until somebody
// decides: it is never taken for free and never for done.
type Ledger interface {
	// Lookup returns the state of an act without changing it: 0 if nothing is
	// known, else ActInFlight, ActDone, ActInDoubt or ActConflict.
	Lookup(ctx context.Context, act Act) (ActState, error)
	// Reserve atomically claims an act that nobody has claimed, for the length
	// of lease. In any other state it changes nothing and returns that state,
	// unless takeDoubt is set and the act is in doubt: then it is claimed anew,
	// under a new token.
	Reserve(ctx context.Context, act Act, lease time.Duration, takeDoubt bool) (Reservation, error)
	// Commit records the act as done. With a token that no longer holds the
	// claim, or after the lease has lapsed, it is ErrLeaseLost and nothing
	// changes.
	Commit(ctx context.Context, act Act, token Token) error
	// Release forgets the claim: the act did not happen. Errors as Commit; if
	// nothing is known of the act there is nothing to forget, and no error.
	Release(ctx context.Context, act Act, token Token) error
	// Doubt ends the lease at once: nobody knows whether the act happened.
	// With a token that no longer holds the claim it is ErrLeaseLost. A lease
	// that has lapsed by itself is what was asked for.
	Doubt(ctx context.Context, act Act, token Token) error
}

// Token proves that its holder has the claim. Each claim has its own.
type Token int64

// ActState is what a Ledger knows of an act.
type ActState int

// The states of an act.
const (
	ActClaimed  ActState = iota + 1 // it is this caller's now
	ActInFlight                     // another caller is at it
	ActDone                         // it was committed
	ActInDoubt                      // a holder vanished; nobody knows
	ActConflict                     // the message was decided otherwise before
)

func (s ActState) String() string {
	switch s {
	case 0:
		return "unknown"
	case ActClaimed:
		return "claimed"
	case ActInFlight:
		return "in flight"
	case ActDone:
		return "done"
	case ActInDoubt:
		return "in doubt"
	case ActConflict:
		return "conflict"
	}
	return "invalid"
}

// Reservation is the outcome of Reserve.
type Reservation struct {
	State ActState // of the act now
	Token Token    // proves the claim where State is ActClaimed
}

// maxStoreKey bounds what names an entry of a store, in bytes.
const maxStoreKey = 1024

// Validate returns a *FieldError if the act is out of its bounds: Key is 1 to
// 1024 bytes, Resolution at most 1024.
func (a Act) Validate() error {
	if err := checkStoreKey("Act.Key", "§13.4", a.Key); err != nil {
		return err
	}
	if len(a.Resolution) > maxStoreKey {
		return invalid("Act.Resolution", "§6", "is %d bytes, over %d", len(a.Resolution), maxStoreKey)
	}
	return nil
}

func checkStoreKey(field, section, key string) error {
	if key == "" || len(key) > maxStoreKey {
		return invalid(field, section, "is %d bytes, not 1 to %d", len(key), maxStoreKey)
	}
	return nil
}
