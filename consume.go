package ma2h

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ma2h/ma2h-go/types"
)

// ConsumeOptions say how directives are consumed. The zero value of an
// optional field means the default that the field documents.
type ConsumeOptions struct {
	// Authorize says whether a principal may instruct this agent; AllowFrom
	// makes one from a list. Required: a signature proves who wrote a
	// directive, not that they may (§13.5).
	Authorize func(from string) bool
	// Concurrency is how many directives are acted on at a time. Default: 1.
	Concurrency int
	// MaxAttempts is how often a failing directive is acted on in this process
	// before it goes to DeadLetter. Default: 5.
	MaxAttempts int
	// DeadLetter is told once of each directive that this process gives up on:
	// it has failed MaxAttempts times, or its outcome is in doubt. It is not
	// acknowledged. Default: it is logged.
	DeadLetter func(ctx context.Context, d *Directive, err error)
	// OnReject is told once of each entry that is not acted on: bad signature,
	// shape, addressee, kind, or an author who may not. An error stops Consume
	// with that error. Default: it is logged.
	OnReject func(ctx context.Context, r *RejectedError) error
	// InDoubt decides about an act whose earlier attempt vanished. Default:
	// LeaveInDoubt.
	InDoubt func(context.Context, Act) (Doubt, error)
	// Note is what the human reads as the receipt, cut to 4096 bytes. Default:
	// none.
	Note func(*Directive) string
	// Lease is how long an act may take. Default: DefaultLease.
	Lease time.Duration
	// Grace is how long running acts may go on once ctx has ended. Default:
	// 30 s.
	Grace time.Duration
}

const (
	defaultMaxAttempts = 5
	defaultGrace       = 30 * time.Second
	// maxRemembered bounds what a process remembers of failing, dead and
	// rejected entries. Past it Consume ends rather than forget.
	maxRemembered = 100_000
	// ackTime bounds the acknowledgments that go out while shutting down.
	ackTime = 15 * time.Second
)

// Consume acts on directives until ctx ends, in the safe order: verify,
// addressee, authorize, reserve, act, commit, acknowledge (§13.4). handler's
// terms are those of CallbackConfig.HandleDirective; a directive whose handler
// fails is left for the Hub to deliver again.
//
// It drains only what it can start at once, so nothing waits here past its
// visibility window. When ctx ends it stops draining, gives running acts
// Grace, acknowledges what was done and returns the context's error. It
// returns earlier on what waiting cannot mend, such as ErrUnauthenticated, on
// an error of OnReject, and on ErrUnsupported before the first request.
func (in *Inbox) Consume(ctx context.Context, handler func(context.Context, *Directive) error, opts ConsumeOptions) error {
	w, err := in.newConsumer(handler, opts)
	if err != nil {
		return err
	}
	return w.run(ctx)
}

func (in *Inbox) newConsumer(handler func(context.Context, *Directive) error, opts ConsumeOptions) (*consumer, error) {
	bad := func(field, section, format string, args ...any) error {
		return invalid("ConsumeOptions."+field, section, format, args...)
	}
	switch {
	case handler == nil:
		return nil, bad("handler", "§13.4", "is required")
	case in.cfg.Ledger == nil:
		return nil, invalid("InboxConfig.Ledger", "§13.4", "is required for Consume")
	case opts.Authorize == nil:
		return nil, bad("Authorize", "§13.5", "is required; AllowFrom names who may")
	case opts.Concurrency < 0 || opts.Concurrency > 1024:
		return nil, bad("Concurrency", "§8.7", "is %d, not 1 to 1024", opts.Concurrency)
	case opts.MaxAttempts < 0:
		return nil, bad("MaxAttempts", "§13.4", "is %d", opts.MaxAttempts)
	case opts.Lease < 0 || opts.Lease > 0 && opts.Lease < time.Second:
		return nil, bad("Lease", "§13.4", "is %s, below 1s", opts.Lease)
	case opts.Grace < 0:
		return nil, bad("Grace", "§13.4", "is %s", opts.Grace)
	}
	if opts.Concurrency == 0 {
		opts.Concurrency = 1
	}
	if opts.MaxAttempts == 0 {
		opts.MaxAttempts = defaultMaxAttempts
	}
	if opts.Lease == 0 {
		opts.Lease = DefaultLease
	}
	if opts.Grace == 0 {
		opts.Grace = defaultGrace
	}
	return &consumer{
		in: in, handler: handler, opts: opts,
		pipe:  pipeline{ledger: in.cfg.Ledger, replay: in.cfg.Verifier.cfg.Replay, lease: opts.Lease, inDoubt: opts.InDoubt, log: in.log},
		slots: make(chan struct{}, opts.Concurrency),
		acks:  acker{in: in, wake: make(chan struct{}, 1)},
	}, nil
}

type consumer struct {
	in      *Inbox
	handler func(context.Context, *Directive) error
	opts    ConsumeOptions
	pipe    pipeline
	slots   chan struct{}
	acks    acker
	running sync.WaitGroup

	mu   sync.Mutex
	stop error // why the loop must end, beside ctx
}

func (w *consumer) run(ctx context.Context) error {
	if _, err := w.in.endpoints(ctx); err != nil {
		return err
	}
	// acting outlives ctx by Grace, so that what runs may end well.
	acting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	draining, stop := context.WithCancel(ctx)
	defer stop()
	// What was done as its grace ended is acknowledged all the same.
	acking, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	ackDone := make(chan struct{})
	go func() { defer close(ackDone); w.acks.run(acking) }()

	err := w.drain(draining, acting, stop)

	idle := make(chan struct{})
	go func() { w.running.Wait(); close(idle) }()
	grace := time.NewTimer(w.opts.Grace)
	defer grace.Stop()
	var late error
	select {
	case <-idle:
	case <-grace.C:
		cancel() // acts see their context end
		patience := time.NewTimer(settleTime)
		defer patience.Stop()
		select {
		case <-idle:
		case <-patience.C:
			late = fmt.Errorf("%w: an act runs on past its grace", ErrOutcomeUnknown)
		}
	}
	w.acks.close()
	final := time.NewTimer(ackTime)
	defer final.Stop()
	select {
	case <-ackDone:
	case <-final.C:
		giveUp()
		<-ackDone
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		err = w.stop
	}
	return errors.Join(err, late)
}

// drain takes entries as slots are free and starts each at once.
func (w *consumer) drain(ctx, acting context.Context, stop context.CancelFunc) error {
	p := newPacer(w.in.client, w.in.client.hold)
	for {
		free, err := w.take(ctx)
		if err != nil {
			return err
		}
		rows, lapses, err := w.in.hold(ctx, p, free)
		for range free - min(free, len(rows)) {
			<-w.slots
		}
		if err != nil {
			for range min(free, len(rows)) {
				<-w.slots
			}
			return err
		}
		for i, r := range rows {
			if i >= free {
				break // the Hub gave more than was asked for; it will again
			}
			w.running.Add(1)
			go func() {
				defer w.running.Done()
				defer func() { <-w.slots }()
				if err := w.handle(acting, r, lapses); err != nil {
					w.mu.Lock()
					if w.stop == nil {
						w.stop = err
					}
					w.mu.Unlock()
					stop()
				}
			}()
		}
		if len(rows) > 0 {
			p.next = 0
		}
		if err := p.pause(ctx); err != nil {
			return fmt.Errorf("ma2h: %s: %w", opInbox, err)
		}
	}
}

// take waits for a free slot and takes all that are free.
func (w *consumer) take(ctx context.Context) (int, error) {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return 0, fmt.Errorf("ma2h: %s: %w", opInbox, contextError(ctx))
	}
	n := 1
	for n < cap(w.slots) {
		select {
		case w.slots <- struct{}{}:
			n++
		default:
			return n, nil
		}
	}
	return n, nil
}

// handle takes one entry through the duty list. An error ends Consume.
func (w *consumer) handle(ctx context.Context, r row, lapses time.Time) error {
	o, err := w.in.open(ctx, r, lapses)
	if err == nil && !w.opts.Authorize(o.directive.From()) {
		err = fmt.Errorf("%w: the author (§13.5)", ErrNotAuthorized)
	}
	if err != nil {
		if errors.Is(err, ErrKeySource) {
			w.in.log.LogAttrs(ctx, slog.LevelWarn, "ma2h: entry left, no keys")
			return nil
		}
		return w.reject(ctx, w.in.rejected(r, err))
	}
	d := o.directive
	if w.in.isDead(d.ID()) {
		return nil
	}
	if !time.Now().Before(o.lapses) {
		// The Hub has shown it to others by now; it comes again.
		return nil
	}
	err = w.pipe.run(ctx, item{act: d.act(w.in.client.cfg.Agent.ID), from: o.from, do: func(pipe context.Context) error {
		// The pipeline's context does not end with the caller's; acting does,
		// a grace after it.
		pipe, cancel := context.WithCancel(pipe)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return w.handler(pipe, d)
	}})
	switch {
	case err == nil:
		w.in.log.LogAttrs(ctx, slog.LevelInfo, "ma2h: directive acted on", slog.String("id", types.Quote(d.ID())))
		w.acks.add(d.ID(), w.note(d))
		return w.in.forget(d.ID())
	case failedToAct(err) && !errors.Is(err, ErrOutcomeUnknown):
		return w.failed(ctx, d, err)
	case errors.Is(err, ErrAlreadyActed):
		w.acks.add(d.ID(), w.note(d))
	case errors.Is(err, ErrInFlight), errors.Is(err, ErrStoreUnavailable), errors.Is(err, ErrStoreFull):
		w.in.log.LogAttrs(ctx, slog.LevelInfo, "ma2h: entry left for later", slog.String("id", types.Quote(d.ID())), slog.String("reason", reason(err)))
	case errors.Is(err, ErrInDoubt), errors.Is(err, ErrOutcomeUnknown):
		return w.bury(ctx, d, err)
	default:
		return w.reject(ctx, &RejectedError{ID: d.ID(), Err: err})
	}
	return nil
}

func (w *consumer) note(d *Directive) string {
	if w.opts.Note == nil {
		return ""
	}
	// A note that cannot be sent would keep the acknowledgment back for good.
	note := strings.ToValidUTF8(w.opts.Note(d), "\ufffd")
	if len(note) > maxNote {
		cut := maxNote
		for !utf8.RuneStart(note[cut]) {
			cut--
		}
		note = note[:cut]
	}
	return note
}

func (w *consumer) failed(ctx context.Context, d *Directive, err error) error {
	n, full := w.in.fail(d.ID())
	if full != nil {
		return full
	}
	w.in.log.LogAttrs(ctx, slog.LevelWarn, "ma2h: directive failed", slog.String("id", types.Quote(d.ID())), slog.Int("attempt", n), slog.String("reason", reason(err)))
	if n < w.opts.MaxAttempts {
		return nil
	}
	return w.bury(ctx, d, err)
}

// bury gives up on a directive in this process and says so once.
func (w *consumer) bury(ctx context.Context, d *Directive, err error) error {
	first, full := w.in.remember(w.in.dead, d.ID())
	if full != nil || !first {
		return full
	}
	if w.opts.DeadLetter != nil {
		w.opts.DeadLetter(ctx, d, err)
		return nil
	}
	w.in.log.LogAttrs(ctx, slog.LevelError, "ma2h: gave up on directive", slog.String("id", types.Quote(d.ID())), slog.String("reason", reason(err)))
	return nil
}

func (w *consumer) reject(ctx context.Context, r *RejectedError) error {
	first, full := w.in.remember(w.in.reported, r.ID+"\x00"+reason(r.Err))
	if full != nil || !first {
		return full
	}
	if w.opts.OnReject != nil {
		return w.opts.OnReject(ctx, r)
	}
	w.in.log.LogAttrs(ctx, slog.LevelError, "ma2h: entry rejected", slog.String("id", types.Quote(r.ID)), slog.String("reason", reason(r.Err)))
	return nil
}

func (in *Inbox) isDead(id string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.dead[id]
}

// remember adds to a set and reports whether it is new there.
func (in *Inbox) remember(set map[string]bool, key string) (bool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if set[key] {
		return false, nil
	}
	if len(set) >= maxRemembered {
		return false, fmt.Errorf("%w: %d entries were rejected or given up on", ErrStoreFull, maxRemembered)
	}
	set[key] = true
	return true, nil
}

func (in *Inbox) fail(id string) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.failures[id] == 0 && len(in.failures) >= maxRemembered {
		return 0, fmt.Errorf("%w: %d directives are failing", ErrStoreFull, maxRemembered)
	}
	in.failures[id]++
	return in.failures[id], nil
}

func (in *Inbox) forget(id string) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.failures, id)
	return nil
}

// acker sends acknowledgments in batches: while one is under way the next
// gathers. What it could not send is redelivered, found done, and sent again.
type acker struct {
	in   *Inbox
	wake chan struct{}

	mu     sync.Mutex
	queue  []pendingAck
	closed bool
}

type pendingAck struct{ id, note string }

func (a *acker) add(id, note string) {
	a.mu.Lock()
	a.queue = append(a.queue, pendingAck{id, note})
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// close lets run end once the queue is empty.
func (a *acker) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// maxAckBatch bounds the ids of one acknowledgment.
const maxAckBatch = 256

// next takes a batch with one note off the queue.
func (a *acker) next() (ids []string, note string, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rest := a.queue[:0]
	for i, p := range a.queue {
		if i == 0 {
			note = p.note
		}
		if p.note == note && len(ids) < maxAckBatch {
			ids = append(ids, p.id)
		} else {
			rest = append(rest, p)
		}
	}
	a.queue = rest
	return ids, note, a.closed
}

func (a *acker) run(ctx context.Context) {
	for {
		ids, note, closed := a.next()
		if len(ids) == 0 {
			if closed {
				return
			}
			select {
			case <-a.wake:
			case <-ctx.Done():
				return
			}
			continue
		}
		if err := a.in.Ack(ctx, note, ids...); err != nil {
			a.in.log.LogAttrs(ctx, slog.LevelWarn, "ma2h: not acknowledged, the Hub will deliver again", slog.Int("entries", len(ids)), slog.String("error", err.Error()))
		}
	}
}
