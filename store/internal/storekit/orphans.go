package storekit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
)

// Orphan names what a claim is on.
type Orphan struct {
	Kind   int
	Digest string
}

// Orphans are claims that the engine may have taken and whose callers were
// told that it has not. Nothing was done under them, so they are given back, or
// used by the next claim on the same thing. Without them an outage of a moment
// would leave acts in doubt that nobody began. What they cannot hold, or what
// dies with the process, lapses with its lease.
type Orphans struct {
	n    atomic.Int64
	mu   sync.Mutex
	held map[Orphan][]claim
	due  time.Time // no claim is due before
}

type claim struct {
	token ma2h.Token
	until time.Time // when it is given up
	next  time.Time // when it is due
}

const (
	maxOrphans = 4096
	// giveBackStep bounds what one operation gives back on its way.
	giveBackStep = 8
	// An engine may carry a statement out after its connection broke, so a
	// claim that is not there yet is looked for again.
	lookAgain = 250 * time.Millisecond
	lookFor   = 30 * time.Second
)

// Add remembers a claim.
func (o *Orphans) Add(x Orphan, token ma2h.Token) {
	now := time.Now()
	o.put(x, claim{token: token, until: now.Add(lookFor), next: now})
}

func (o *Orphans) put(x Orphan, c claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n.Load() >= maxOrphans {
		return
	}
	if o.held == nil {
		o.held = make(map[Orphan][]claim)
	}
	o.held[x] = append(o.held[x], c)
	if o.n.Add(1) == 1 || c.next.Before(o.due) {
		o.due = c.next
	}
}

// Len is how many claims are held.
func (o *Orphans) Len() int { return int(o.n.Load()) }

// Take returns a token to claim x with: that of an orphan on x, which is the
// caller's alone then, or a new one. The caller says how it went.
func (o *Orphans) Take(x Orphan) *Attempt {
	a := &Attempt{orphans: o, on: x}
	if o.n.Load() > 0 {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.held[x]) > 0 {
			a.claim, a.orphan = o.remove(x, 0), true
			return a
		}
	}
	a.claim.token = NewToken()
	return a
}

// NewAttempt is Take without the orphans.
func NewAttempt() *Attempt { return &Attempt{claim: claim{token: NewToken()}} }

// Attempt is a claim on its way.
type Attempt struct {
	orphans *Orphans
	on      Orphan
	claim   claim
	orphan  bool
}

// Token is what it claims with.
func (a *Attempt) Token() ma2h.Token { return a.claim.token }

// Failed says that the caller was told that there is no claim. unsure means
// that there may be one.
func (a *Attempt) Failed(unsure bool) {
	switch {
	case a.orphans == nil:
	case unsure:
		a.orphans.Add(a.on, a.claim.token)
	case a.orphan:
		a.orphans.put(a.on, a.claim)
	}
}

func (o *Orphans) remove(x Orphan, i int) claim {
	list := o.held[x]
	c := list[i]
	if list = append(list[:i], list[i+1:]...); len(list) == 0 {
		delete(o.held, x)
	} else {
		o.held[x] = list
	}
	o.n.Add(-1)
	return c
}

// GiveBack takes back a few of the claims and stops at the first that fails.
// forget reports whether the claim was there.
func (o *Orphans) GiveBack(ctx context.Context, forget func(context.Context, Orphan, ma2h.Token) (bool, error)) error {
	for range giveBackStep {
		if o.n.Load() == 0 {
			return nil
		}
		now := time.Now()
		x, c, ok := o.next(now)
		if !ok {
			return nil
		}
		found, err := forget(ctx, x, c.token)
		switch {
		case err != nil:
			o.put(x, c)
			return err
		case !found && now.Before(c.until):
			c.next = now.Add(lookAgain)
			o.put(x, c)
		}
	}
	return nil
}

// next removes a claim that is due.
func (o *Orphans) next(now time.Time) (Orphan, claim, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Before(o.due) {
		return Orphan{}, claim{}, false
	}
	due := now.Add(lookFor)
	for x, list := range o.held {
		for i, c := range list {
			if !now.Before(c.next) {
				return x, o.remove(x, i), true
			}
			if c.next.Before(due) {
				due = c.next
			}
		}
	}
	o.due = due
	return Orphan{}, claim{}, false
}
