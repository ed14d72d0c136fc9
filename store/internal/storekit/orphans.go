package storekit

import (
	"context"
	"sync"
	"sync/atomic"

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
	held map[Orphan][]ma2h.Token
}

const (
	maxOrphans = 4096
	// giveBackStep bounds what one operation gives back on its way.
	giveBackStep = 8
)

// Add remembers a claim.
func (o *Orphans) Add(x Orphan, token ma2h.Token) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n.Load() >= maxOrphans {
		return
	}
	if o.held == nil {
		o.held = make(map[Orphan][]ma2h.Token)
	}
	o.held[x] = append(o.held[x], token)
	o.n.Add(1)
}

// Take returns the token of an orphan on x, which is the caller's alone then,
// or a new one.
func (o *Orphans) Take(x Orphan) ma2h.Token {
	if o.n.Load() > 0 {
		o.mu.Lock()
		defer o.mu.Unlock()
		if token, ok := o.pop(x); ok {
			return token
		}
	}
	return NewToken()
}

func (o *Orphans) pop(x Orphan) (ma2h.Token, bool) {
	list := o.held[x]
	if len(list) == 0 {
		return 0, false
	}
	if o.held[x] = list[1:]; len(list) == 1 {
		delete(o.held, x)
	}
	o.n.Add(-1)
	return list[0], true
}

// GiveBack takes back a few of the claims and stops at the first that fails.
func (o *Orphans) GiveBack(ctx context.Context, forget func(context.Context, Orphan, ma2h.Token) error) error {
	for range giveBackStep {
		if o.n.Load() == 0 {
			return nil
		}
		x, token, ok := o.any()
		if !ok {
			return nil
		}
		if err := forget(ctx, x, token); err != nil {
			o.Add(x, token)
			return err
		}
	}
	return nil
}

func (o *Orphans) any() (Orphan, ma2h.Token, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for x := range o.held {
		token, ok := o.pop(x)
		return x, token, ok
	}
	return Orphan{}, 0, false
}
