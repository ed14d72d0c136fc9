package ma2htest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// PushCallback is the endpoint that Fault.On names for what the Hub sends to
// callbacks: a fault of the request side strikes the attempt there. One that
// has no effect on a request is not sent and fails as a network does, and an
// answer such as that of Status stands for the receiver's.
const PushCallback = "POST callback"

// Why an attempt got no answer, under Push.Err.
var (
	// ErrPushNetwork: no connection, no TLS, or one that broke. It is retried.
	ErrPushNetwork = errors.New("ma2htest: the callback could not be reached")
	// ErrPushTimeout: no answer within 10 s of the Hub's time. It is retried.
	ErrPushTimeout = errors.New("ma2htest: the callback did not answer in time")
	// ErrPushRefused: the URL or the address that its host has now is not one
	// that a Hub may send to (§9.4). It is not retried.
	ErrPushRefused = errors.New("ma2htest: the Hub does not send to this destination (§9.4)")
	// ErrPushUnsigned: the Response has no canonical form, such as one with a
	// number past the doubles. It is not retried.
	ErrPushUnsigned = errors.New("ma2htest: the Response cannot be signed (§9.2)")
)

var (
	errPushClosed    = errors.New("ma2htest: the Hub closed")
	errPushRestarted = errors.New("ma2htest: the Hub restarted")
)

const (
	// pushTimeout is how long an attempt may take on the Hub's clock.
	pushTimeout = 10 * time.Second
	// pushBackoff is the wait after the first failed attempt. It doubles.
	pushBackoff = time.Second
	// leastPushAttempts is the least that §8.3 allows.
	leastPushAttempts   = 5
	defaultPushAttempts = 8
	maxPushAttempts     = 30
	defaultPushFor      = time.Hour
	maxPushAnswer       = 64 << 10
	// patience is how long Advance waits, in real time, for a receiver that
	// does not come to an end.
	patience = 5 * time.Second
)

// Push is one attempt to deliver to a callback.
type Push struct {
	Attempt    int // from 1; a copy that a fault makes has the number of its original, as has a try that a Restart cut
	URL        string
	At         time.Time        // when it was signed and sent, on the Hub's clock
	Ended      time.Time        // zero while it is under way
	Header     http.Header      // without the credential
	Credential types.AuthScheme // what was attached beside the signature; empty for none
	Body       []byte
	Status     int    // the receiver's; 0 without an answer
	Err        error  // without an answer: one of the ErrPush sentinels
	Fault      string // names of the faults that struck

	kind deliveryKind
}

type deliveryKind int

const (
	responseKind deliveryKind = iota
	ackKind
	directiveKind
)

// pushes is what the Hub owes to callbacks. The Hub's mutex guards it.
type pushes struct {
	ready   []*obligation // due now, to be started when the lock is released
	running map[*obligation]context.CancelCauseFunc
	log     map[string][]*Push // by id of message or directive
}

func (p *pushes) init() {
	p.running = make(map[*obligation]context.CancelCauseFunc)
	p.log = make(map[string][]*Push)
}

// obligation is a body that the Hub owes to a callback until a 2xx, a refusal
// or the end of its tries.
type obligation struct {
	kind      deliveryKind
	message   *message   // or
	directive *directive // which of the two it is about
	url       string
	auth      *types.CallbackAuth
	body      []byte
	context   func(body []byte) contextOf
	delivered func(now time.Time)

	begun    time.Time
	attempts int
	last     *Push  // for an identical resend
	fault    string // struck before the attempt began
}

func (o *obligation) id() string {
	if o.directive != nil {
		return o.directive.id
	}
	return o.message.id
}

func (o *obligation) agent() string {
	if o.directive != nil {
		return o.directive.agent
	}
	return o.message.agent
}

// gone reports whether there is nothing left to deliver.
func (o *obligation) gone() bool {
	if o.directive != nil {
		return !o.directive.pending()
	}
	return o.message.forgotten
}

// owe is the observer of resolutions: it owes a push to who asked for one.
func (h *Hub) owe(r *Resolved) {
	if r.Callback == nil || r.Callback.Mode != types.CallbackPush {
		return
	}
	m := h.messages[r.MessageID]
	h.begin(&obligation{
		message: m, url: r.Callback.URL, auth: r.Callback.Auth, body: r.Body,
		context:   func(body []byte) contextOf { return responseContext(body, r.Callback.URL) },
		delivered: func(now time.Time) { h.markDelivered(m, now) },
	})
}

// begin has an obligation start now. The lock is held.
func (h *Hub) begin(o *obligation) {
	o.begun = h.clock.now()
	h.pushes.ready = append(h.pushes.ready, o)
}

// markDelivered notes that the agent has the Response (§14.2). The lock is held.
func (h *Hub) markDelivered(m *message, now time.Time) {
	if m.delivery == nil && h.minor >= 4 && h.caps.OffersAck() {
		m.delivery = &types.Delivery{State: types.DeliveredToAgent, DeliveredAt: stamp(now)}
	}
}

// startPushes starts what has become due, each on a goroutine of its own. The
// lock is held.
func (h *Hub) startPushes(due []*obligation) {
	for _, o := range due {
		if h.isClosed {
			return
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		h.pushes.running[o] = cancel
		h.inFlight.Add(1)
		go func() {
			defer h.inFlight.Done()
			h.attempt(ctx, o)
			cancel(nil)
		}()
	}
}

// settle delivers what is due, one after another, and waits for what is under
// way. It is called with the lock held and gives it up in between.
func (h *Hub) settle() {
	if len(h.pushes.running)+len(h.pushes.ready) == 0 {
		return
	}
	giveUp := time.NewTimer(patience)
	defer giveUp.Stop()
	for !h.isClosed {
		due := h.pushes.ready
		h.pushes.ready = nil
		for len(due) > 0 && len(h.pushes.running) == 0 {
			h.startPushes(due[:1])
			due = due[1:]
			if !h.awaitIdle(giveUp.C) {
				h.startPushes(due)
				return
			}
		}
		h.pushes.ready = append(due, h.pushes.ready...)
		if len(h.pushes.running) == 0 && len(h.pushes.ready) == 0 {
			return
		}
		if !h.awaitIdle(giveUp.C) {
			return
		}
	}
}

// awaitIdle waits until no attempt is under way.
func (h *Hub) awaitIdle(giveUp <-chan time.Time) bool {
	for len(h.pushes.running) > 0 {
		news := h.watched()
		h.mu.Unlock()
		var stop bool
		select {
		case <-news:
		case <-h.closed:
			stop = true
		case <-giveUp:
			stop = true
		}
		h.lock()
		if stop {
			return false
		}
	}
	return true
}

// attempt makes one attempt of an obligation and decides on the next.
func (h *Hub) attempt(ctx context.Context, o *obligation) {
	now := h.lock()
	p := h.pack(o, now)
	if p == nil {
		h.endAttempt(o)
		h.unlock()
		return
	}
	if p.hung {
		h.clock.after(now.Add(pushTimeout), func(now time.Time) {
			p.unsent = ErrPushTimeout
			p.finish(now)
			h.wakeWatchers()
		})
		h.endAttempt(o)
		h.unlock()
		return
	}
	cancel := h.pushes.running[o]
	timeout := h.clock.after(now.Add(pushTimeout), func(time.Time) { cancel(ErrPushTimeout) })
	h.unlock()
	p.send(ctx)
	now = h.lock()
	defer h.unlock()
	h.clock.stop(timeout)
	if context.Cause(ctx) == errPushRestarted {
		p.unsent = fmt.Errorf("%w: %w", ErrPushNetwork, errPushRestarted)
		p.restarted = true
	}
	p.finish(now)
	h.endAttempt(o)
}

func (h *Hub) endAttempt(o *obligation) {
	delete(h.pushes.running, o)
	h.wakeWatchers()
}

// again decides after a failed attempt. The lock is held.
func (h *Hub) again(o *obligation, now time.Time) {
	gap := pushBackoff << (o.attempts - 1)
	next := now.Add(gap)
	if o.attempts >= h.opts.PushAttempts || next.After(o.begun.Add(h.opts.PushFor)) {
		return
	}
	h.clock.after(next, func(time.Time) { h.pushes.ready = append(h.pushes.ready, o) })
}

// Pushes returns the attempts to push the Response of a message, in the order
// of their beginning.
func (h *Hub) Pushes(id string) []Push { return h.attempts(id, responseKind) }

func (h *Hub) attempts(id string, kind deliveryKind) []Push {
	h.lock()
	defer h.unlock()
	var out []Push
	for _, row := range h.pushes.log[id] {
		if row.kind == kind {
			p := *row
			p.Header, p.Body = p.Header.Clone(), slices.Clone(p.Body)
			out = append(out, p)
		}
	}
	return out
}

// AwaitPushes waits until n attempts to push the Response of a message have
// ended. It fails when ctx ends or the Hub closes.
func (h *Hub) AwaitPushes(ctx context.Context, id string, n int) error {
	return h.watch(ctx, func() bool { return h.ended(id) >= n })
}

func (h *Hub) ended(id string) (n int) {
	for _, row := range h.pushes.log[id] {
		if row.kind == responseKind && !row.Ended.IsZero() {
			n++
		}
	}
	return n
}

// PushAck pushes the recorded acknowledgment of a message, signed, to the
// client of its human at url, with the tries of a Response (§14.4). It fails
// with ErrNotFound, or with ErrInvalid if there is no acknowledgment or the
// URL is not one that a Hub sends to.
func (h *Hub) PushAck(url, id string) error {
	h.lock()
	defer h.unlock()
	m, ok := h.messages[id]
	switch {
	case !ok:
		return notFound()
	case m.delivery == nil || m.delivery.Ack == nil:
		return invalidField("message %s has no acknowledgment (§14.3)", id)
	}
	if err := h.checkDestination(url); err != nil {
		return invalidField("%v", err)
	}
	body, err := types.Encode(m.delivery.Ack)
	if err != nil {
		return fmt.Errorf("ma2htest: %w", err)
	}
	h.begin(&obligation{kind: ackKind, message: m, url: url, body: body, context: ackContext})
	return nil
}

// AckPushes returns the attempts of PushAck for a message.
func (h *Hub) AckPushes(id string) []Push { return h.attempts(id, ackKind) }

// line describes an attempt without its content.
func (p Push) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s attempt %d of a push: ", p.At.Format("15:04:05.000"), p.Attempt)
	switch {
	case p.Ended.IsZero():
		b.WriteString("under way")
	case p.Err != nil:
		b.WriteString(p.Err.Error())
	default:
		fmt.Fprintf(&b, "%d %s", p.Status, http.StatusText(p.Status))
	}
	if p.Fault != "" {
		b.WriteString(" (fault " + p.Fault + ")")
	}
	return b.String()
}

// post sends one request and never follows where the answer points (§9.4).
func (p *parcel) post(ctx context.Context, row *Push) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, row.URL, strings.NewReader(string(row.Body)))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrPushRefused, err)
	}
	req.Header = row.Header.Clone()
	p.credential.attach(req.Header)
	resp, err := p.via.RoundTrip(req)
	if err == nil {
		// The answer is its status. What breaks after that is no news; reading
		// to the end lets the receiver finish.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxPushAnswer))
		_ = resp.Body.Close()
		return resp.StatusCode, nil
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(err, ErrPushRefused):
		return 0, err
	case errors.Is(cause, ErrPushTimeout):
		return 0, ErrPushTimeout
	case errors.Is(cause, errPushClosed):
		return 0, fmt.Errorf("%w: %w", ErrPushNetwork, errPushClosed)
	}
	return 0, fmt.Errorf("%w: %w", ErrPushNetwork, err)
}

// send delivers what the parcel holds: all fresh copies at once, then the
// replays.
func (p *parcel) send(ctx context.Context) {
	if p.answer != nil || p.unsent != nil {
		return
	}
	var wg sync.WaitGroup
	for i := range p.fresh {
		wg.Go(func() { p.fresh[i].status, p.fresh[i].err = p.post(ctx, p.fresh[i].row) })
	}
	wg.Wait()
	for i := range p.replays {
		p.replays[i].status, p.replays[i].err = p.post(ctx, p.replays[i].row)
	}
}
