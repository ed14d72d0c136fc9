package ma2h

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// ConsumeOptions say how directives are consumed. The zero value of an
// optional field means the default that the field documents. The functions are
// called from many goroutines, up to Concurrency at a time. A panic in one is
// contained: then nobody is authorized, there is no note, the doubt stays, and
// OnReject has returned an error.
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
	// DeadLetter is told once of each directive that failed MaxAttempts times,
	// which this process never acts on again, and of each that is in doubt, which
	// nobody acts on until InDoubt says so. It is not acknowledged. Default: it
	// is logged.
	DeadLetter func(ctx context.Context, d *Directive, err error)
	// OnReject is told of each entry that is not acted on: bad signature,
	// shape, addressee, kind, or an author who may not. It is told once, however
	// often the entry comes, unless 50,000 others were rejected in between. An
	// error stops Consume with that error. Default: it is logged.
	OnReject func(ctx context.Context, r *RejectedError) error
	// InDoubt decides about an act whose earlier attempt vanished, at each
	// delivery of the directive. Default: LeaveInDoubt.
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
// an error of OnReject, and on ErrUnsupported before it asks for anything but
// the capability document. It is ErrStoreFull when this process has given up on
// 100,000 directives. Several may run on one Inbox.
func (in *Inbox) Consume(ctx context.Context, handler func(context.Context, *Directive) error, opts ConsumeOptions) error {
	w, err := in.newConsumer(handler, opts)
	if err != nil {
		return err
	}
	return w.run(ctx)
}

func (in *Inbox) newConsumer(handler func(context.Context, *Directive) error, opts ConsumeOptions) (*consumer, error) {
	if err := in.made(); err != nil {
		return nil, err
	}
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
	w := &consumer{
		in: in, handler: handler, opts: opts,
		pipe:  pipeline{ledger: in.cfg.Ledger, replay: in.cfg.Verifier.cfg.Replay, lease: opts.Lease, log: in.log},
		slots: make(chan struct{}, opts.Concurrency),
		acks:  newAcker(in),
	}
	if opts.InDoubt != nil {
		w.pipe.inDoubt = w.inDoubt
	}
	return w, nil
}

type consumer struct {
	in      *Inbox
	handler func(context.Context, *Directive) error
	opts    ConsumeOptions
	pipe    pipeline
	slots   chan struct{}
	acks    *acker
	running sync.WaitGroup

	mu   sync.Mutex
	stop error // why the loop must end, beside ctx
}

func (w *consumer) run(ctx context.Context) error {
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

	err := errPanicked
	w.in.guard(ctx, func() { err = w.drain(draining, acting, stop) })

	idle := make(chan struct{})
	go func() { w.running.Wait(); close(idle) }()
	var late error
	select {
	case <-idle:
	case <-time.After(w.opts.Grace):
		cancel() // acts see their context end
		select {
		case <-idle:
		case <-time.After(settleTime):
			late = fmt.Errorf("%w: an act runs on past its grace", ErrOutcomeUnknown)
		}
	}
	w.acks.close()
	select {
	case <-ackDone:
	case <-time.After(ackTime):
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
	drains := w.in.drains()
	var last *batch
	for {
		free, err := w.take(ctx)
		if err != nil {
			return err
		}
		rows, lapses, err := drains.next(ctx, free)
		// The Hub may give more than was asked for; it will again.
		rows = rows[:min(free, len(rows))]
		for range free - len(rows) {
			<-w.slots
		}
		if err != nil {
			return err
		}
		b := newBatch(len(rows))
		for _, r := range rows {
			w.running.Go(func() {
				defer func() { <-w.slots }()
				defer b.over()
				e := &entry{row: r, lapses: lapses, batch: b}
				err := errPanicked
				if !w.in.guard(acting, func() { err = w.handle(ctx, acting, e) }) {
					return // it comes again
				}
				if err != nil {
					w.mu.Lock()
					w.stop = cmp.Or(w.stop, err)
					w.mu.Unlock()
					stop()
				}
			})
		}
		// Entries are followed by the next drain without a pause, unless those
		// before them were no news: a Hub that does not hide what is being acted
		// on, or cannot be, is not asked in a loop. The last batch but one is
		// judged by now, as a rule, and nothing waits.
		if len(rows) > 0 && (last == nil || last.wait(ctx)) {
			drains.goOn()
		}
		if last = b; len(rows) == 0 {
			last = nil
		}
		if err := drains.pace.pause(ctx); err != nil {
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
	for n := 1; ; n++ {
		select {
		case w.slots <- struct{}{}:
		default:
			return n, nil
		}
	}
}

// batch is the rows of one drain until it is known whether any of them brought
// something to do. That is when its act begins, not when it ends.
type batch struct {
	left atomic.Int64
	news chan struct{} // holds one once there is something to do
	done chan struct{} // closed once all rows are over
}

func newBatch(n int) *batch {
	b := &batch{news: make(chan struct{}, 1), done: make(chan struct{})}
	b.left.Store(int64(n))
	return b
}

// wait reports whether any row brought something to do.
func (b *batch) wait(ctx context.Context) bool {
	select {
	case <-b.news:
		return true
	case <-b.done:
	case <-ctx.Done():
	}
	return len(b.news) > 0
}

func (b *batch) isNews() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

func (b *batch) over() {
	if b.left.Add(-1) == 0 {
		close(b.done)
	}
}

// entry is a row in the hands of one goroutine.
type entry struct {
	row
	lapses time.Time
	batch  *batch
}

// handle takes one entry through the duty list. draining ends when no further
// act may begin, acting a grace after it. An error ends Consume.
func (w *consumer) handle(draining, acting context.Context, e *entry) error {
	o, err := w.in.open(acting, e.row, e.lapses)
	if errors.Is(err, ErrKeySource) {
		w.in.log.LogAttrs(acting, slog.LevelWarn, "ma2h: entry left, no keys")
		return nil
	}
	if err == nil && !w.authorized(acting, o.directive.From()) {
		err = fmt.Errorf("%w: the author (§13.5)", ErrNotAuthorized)
	}
	if err != nil {
		return w.reject(acting, e, w.in.rejected(e.row, err))
	}
	d := o.directive
	act := d.act(w.in.client.cfg.Agent.ID)
	switch {
	case draining.Err() != nil, !time.Now().Before(o.lapses):
		return nil // the Hub shows it to others, or to the next process
	case w.in.memory.isDead(d.ID()):
		// Another process may have been luckier, and died before its ack.
		if state, err := w.pipe.ledger.Lookup(acting, act); err == nil && state == ActDone {
			w.acknowledge(acting, e, d)
		}
		return nil
	}
	err = w.pipe.run(acting, item{act: act, from: o.from, do: func(pipe context.Context) error {
		e.batch.isNews()
		// The pipeline's context does not end with the caller's; acting does,
		// a grace after it.
		pipe, cancel := context.WithCancel(pipe)
		defer cancel()
		defer context.AfterFunc(acting, cancel)()
		return w.handler(pipe, d)
	}})
	switch {
	case err == nil:
		w.in.log.LogAttrs(acting, slog.LevelInfo, "ma2h: directive acted on", slog.String("id", types.Quote(d.ID())))
		w.acknowledge(acting, e, d)
	case failedToAct(err) && !errors.Is(err, ErrOutcomeUnknown):
		return w.failed(acting, d, err)
	// The bare sentinels are the ledger's and the replay store's word; one that
	// is wrapped is somebody else's.
	case err == ErrAlreadyActed:
		w.acknowledge(acting, e, d)
	case err == ErrReplay:
		return w.reject(acting, e, &RejectedError{ID: d.ID(), Err: err})
	case errors.Is(err, ErrOutcomeUnknown) && w.opts.InDoubt != nil:
		// The next delivery finds the doubt, and the policy decides.
		w.in.log.LogAttrs(acting, slog.LevelWarn, "ma2h: directive in doubt", slog.String("id", types.Quote(d.ID())), slog.String("reason", reason(err)))
	case errors.Is(err, ErrInDoubt), errors.Is(err, ErrOutcomeUnknown):
		return w.bury(acting, d, err, false)
	default:
		w.in.log.LogAttrs(acting, slog.LevelInfo, "ma2h: entry left for later", slog.String("id", types.Quote(d.ID())), slog.String("reason", reason(err)))
	}
	return nil
}

// acknowledge queues the acknowledgment of what is committed.
func (w *consumer) acknowledge(ctx context.Context, e *entry, d *Directive) {
	w.in.memory.done(d.ID())
	if w.acks.add(d.ID(), func() string { return w.note(ctx, d) }) {
		e.batch.isNews()
	}
}

func (w *consumer) note(ctx context.Context, d *Directive) (note string) {
	if w.opts.Note == nil {
		return ""
	}
	w.in.guard(ctx, func() { note = w.opts.Note(d) })
	// A note that cannot be sent would keep the acknowledgment back for good.
	return cutNote(strings.ToValidUTF8(note, "\ufffd"), maxNote)
}

func (w *consumer) authorized(ctx context.Context, from string) (ok bool) {
	w.in.guard(ctx, func() { ok = w.opts.Authorize(from) })
	return ok
}

func (w *consumer) inDoubt(ctx context.Context, act Act) (doubt Doubt, err error) {
	w.in.guard(ctx, func() { doubt, err = w.opts.InDoubt(ctx, act) }) // a panic leaves it in doubt
	return doubt, err
}

func (w *consumer) failed(ctx context.Context, d *Directive, err error) error {
	n := w.in.memory.fail(d.ID())
	w.in.log.LogAttrs(ctx, slog.LevelWarn, "ma2h: directive failed", slog.String("id", types.Quote(d.ID())), slog.Int("attempt", n), slog.String("reason", reason(err)))
	if n < w.opts.MaxAttempts {
		return nil
	}
	return w.bury(ctx, d, err, true)
}

// bury says once that a directive is given up on, dead, or in doubt.
func (w *consumer) bury(ctx context.Context, d *Directive, err error, dead bool) error {
	first, full := w.in.memory.letter(d.ID(), dead)
	if !first {
		return full
	}
	if w.opts.DeadLetter != nil {
		w.opts.DeadLetter(ctx, d, err)
		return nil
	}
	w.in.log.LogAttrs(ctx, slog.LevelError, "ma2h: gave up on directive", slog.String("id", types.Quote(d.ID())), slog.String("reason", reason(err)))
	return nil
}

func (w *consumer) reject(ctx context.Context, e *entry, r *RejectedError) (err error) {
	content := e.content()
	if !w.in.memory.report(string(content[:]) + reason(r.Err)) {
		return nil
	}
	e.batch.isNews()
	if w.opts.OnReject != nil {
		err = errPanicked
		w.in.guard(ctx, func() { err = w.opts.OnReject(ctx, r) })
		return err
	}
	w.in.log.LogAttrs(ctx, slog.LevelError, "ma2h: entry rejected", slog.String("id", types.Quote(r.ID)), slog.String("reason", reason(r.Err)))
	return nil
}

// guard runs a function of the caller's and reports whether it came back. A
// panic is logged with its stack and without its value, which may hold content.
func (in *Inbox) guard(ctx context.Context, f func()) (ok bool) {
	defer func() {
		if recover() != nil {
			in.log.LogAttrs(ctx, slog.LevelError, errPanicked.Error(), slog.String("stack", string(debug.Stack())))
		}
	}()
	f()
	return true
}
