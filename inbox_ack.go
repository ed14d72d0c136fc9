package ma2h

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
)

const (
	// maxAckBatch bounds the ids of one acknowledgment.
	maxAckBatch = 256
	// maxPendingAcks bounds the acknowledgments that wait for a Hub that takes
	// none. What does not fit is delivered again, and found done.
	maxPendingAcks = 10_000
)

// acker sends acknowledgments in batches: while one is under way the next
// gathers. What it could not send is redelivered, found done, and sent again.
type acker struct {
	in   *Inbox
	wake chan struct{}

	mu      sync.Mutex
	queue   []pendingAck
	pending map[string]bool // ids in the queue or under way
	most    int             // ids of the next batch
	closed  bool
}

type pendingAck struct{ id, note string }

func newAcker(in *Inbox) *acker {
	return &acker{in: in, wake: make(chan struct{}, 1), pending: make(map[string]bool), most: maxAckBatch}
}

// add queues an acknowledgment, once for as long as it is not through. note is
// asked for only if it is queued, and not under the lock.
func (a *acker) add(id string, note func() string) (added bool) {
	a.mu.Lock()
	room := !a.pending[id] && len(a.pending) < maxPendingAcks
	if room {
		a.pending[id] = true
	}
	a.mu.Unlock()
	if !room {
		return false
	}
	ack := pendingAck{id, note()}
	a.mu.Lock()
	a.queue = append(a.queue, ack)
	a.mu.Unlock()
	a.signal()
	return true
}

func (a *acker) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// close lets run end once the queue is empty. It must be called, also for a
// run whose context ends.
func (a *acker) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.signal()
}

// next takes a batch with one note off the queue.
func (a *acker) next() (batch []pendingAck, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = slices.DeleteFunc(a.queue, func(p pendingAck) bool {
		if len(batch) == a.most || len(batch) > 0 && p.note != batch[0].note {
			return false
		}
		batch = append(batch, p)
		return true
	})
	return batch, a.closed
}

func (a *acker) run(ctx context.Context) {
	for ctx.Err() == nil {
		batch, closed := a.next()
		if len(batch) > 0 {
			a.send(ctx, batch)
			continue
		}
		if closed {
			return
		}
		<-a.wake
	}
}

func (a *acker) send(ctx context.Context, batch []pendingAck) {
	ids := make([]string, len(batch))
	for i, p := range batch {
		ids[i] = p.id
	}
	err := errPanicked
	a.in.guard(ctx, func() { err = a.in.Ack(ctx, ids, batch[0].note) })
	if err != nil {
		a.in.log.LogAttrs(ctx, slog.LevelWarn, "ma2h: not acknowledged", slog.Int("entries", len(ids)), slog.String("error", err.Error()))
	}
	a.settle(batch, err)
}

// settle decides on what follows a batch.
func (a *acker) settle(batch []pendingAck, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(batch) > 1 && refusedAsWhole(err) {
		// Too many, or one among them that the Hub does not take: the others
		// must not wait for it.
		a.most = len(batch) / 2
		a.queue = slices.Concat(batch, a.queue)
		return
	}
	for _, p := range batch {
		delete(a.pending, p.id)
	}
	if err == nil {
		a.most = min(2*a.most, maxAckBatch)
	}
}

// refusedAsWhole reports a refusal that may be about a part of a batch.
func refusedAsWhole(err error) bool {
	api, ok := errors.AsType[*APIError](err)
	return ok && (errors.Is(api, ErrValidation) || errors.Is(api, ErrInvalidField) || api.Status == http.StatusRequestEntityTooLarge)
}
