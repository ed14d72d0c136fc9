// Package transport sends one call to a Hub, again where that is safe, and
// obeys what the Hub says about when. A call is frozen bytes: every attempt
// carries the same ones.
package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/ma2h/ma2h-go/internal/limits"
)

// Transport sends calls. It is immutable and safe for concurrent use.
type Transport struct {
	HTTP    *http.Client // as Prepare returns it
	Now     func() time.Time
	Rand    func() float64 // uniform in [0,1)
	Log     *slog.Logger
	Backoff Backoff
}

// Call is one request.
type Call struct {
	Op     string // for logs
	Method string
	URL    string
	Header http.Header
	Body   []byte
	// Timeout bounds one attempt, its body included. Required.
	Timeout time.Duration
	// Once says that a second copy would be a second effect: it is sent again
	// only if the first cannot have been taken.
	Once bool
	// Remembered is how long the Hub knows a copy for one. When an attempt that
	// may have been taken is older, the call is not sent again. Zero: for ever.
	Remembered time.Duration
	// Since is when an attempt of an earlier call may have been taken. Zero:
	// there was none.
	Since time.Time
	// Broken says that a success does not hold what it must, as when a hop cut
	// it and closed the connection in good order. It counts as no answer, up
	// to maxBroken times. Nil: no success is.
	Broken func(*Reply) bool
}

// maxBroken is how many broken successes a call takes before the last one is
// handed to the caller: more of them are not an accident.
const maxBroken = 3

// Reply is an HTTP answer that arrived whole.
type Reply struct {
	Status   int
	Header   http.Header
	Body     []byte
	Attempts int // how many it took, this one included
}

// Failure says how a call ended that got no final answer, or one that came
// after an attempt whose fate is unknown.
type Failure struct {
	Attempts  int
	Last      *Reply        // the last answer, if any arrived
	Wait      time.Duration // what the Hub asked to wait, if it was too long
	Ambiguous bool          // an attempt may have been taken
	Err       error
}

func (f *Failure) Error() string {
	if f.Last != nil {
		return fmt.Sprintf("after %d attempts, the last answered %d: %v", f.Attempts, f.Last.Status, f.Err)
	}
	return fmt.Sprintf("after %d attempts: %v", f.Attempts, f.Err)
}

func (f *Failure) Unwrap() error { return f.Err }

// Prepare returns a copy of c for calls to a Hub: redirects are handed back
// instead of followed, and an answer counts once its body has arrived whole.
func Prepare(c *http.Client) *http.Client {
	out := *c
	base := out.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	out.Transport = &whole{base: base}
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &out
}

// whole reads the body within the attempt, so that a body that breaks is a
// failed attempt and not a success with a hole. It hides CloseIdleConnections:
// a failed call must not close the idle connections of a shared client.
//
// An attempt that got no answer may have been on a connection that is dead.
// HTTP/2 would take it again for hours, so the next request asks for the
// connection that it gets to be its last.
type whole struct {
	base   http.RoundTripper
	silent atomic.Bool // an attempt ended by its time
}

type timeoutKey struct{}

func (w *whole) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.roundTrip(req)
	if err == errAttemptTimeout {
		w.silent.Store(true)
	}
	return resp, err
}

func (w *whole) roundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	d, _ := ctx.Value(timeoutKey{}).(time.Duration)
	ctx, cancel := context.WithTimeoutCause(ctx, d, errAttemptTimeout)
	defer cancel()
	req = req.WithContext(ctx)
	req.Close = w.silent.CompareAndSwap(true, false)
	resp, err := w.base.RoundTrip(req)
	if err != nil {
		if context.Cause(ctx) == errAttemptTimeout {
			return nil, errAttemptTimeout
		}
		return nil, err
	}
	if resp == nil || resp.Body == nil {
		// Of a RoundTripper that breaks its contract; http.Client has words
		// for the first, and takes the second for an empty body.
		return resp, nil
	}
	var buf bytes.Buffer
	if n := resp.ContentLength; n > 0 {
		buf.Grow(int(min(n, maxPresize)) + bytes.MinRead)
	}
	_, err = buf.ReadFrom(io.LimitReader(resp.Body, limits.MaxResponseBody+1))
	body := buf.Bytes()
	_ = resp.Body.Close() // all that counts of it is there
	switch {
	case err != nil && context.Cause(ctx) == errAttemptTimeout:
		return nil, errAttemptTimeout
	case err != nil:
		return nil, fmt.Errorf("answer %d broke off: %w", resp.StatusCode, err)
	case len(body) > limits.MaxResponseBody:
		return nil, ErrTooLarge
	}
	resp.Body = newArrived(body)
	resp.ContentLength = int64(len(body))
	return resp, nil
}

// maxPresize bounds what is allocated on the word of a Content-Length.
const maxPresize = 1 << 20

// arrived is a body that has been read whole. readReply takes it as it is.
type arrived struct {
	*bytes.Reader
	all []byte
}

func newArrived(body []byte) arrived { return arrived{bytes.NewReader(body), body} }

func (arrived) Close() error { return nil }

// errAttemptTimeout is a net.Error so that it reads as the time-out it is.
var errAttemptTimeout error = attemptTimeout{}

type attemptTimeout struct{}

func (attemptTimeout) Error() string   { return "no answer within the time of one attempt" }
func (attemptTimeout) Timeout() bool   { return true }
func (attemptTimeout) Temporary() bool { return true }

// TimedOut reports whether an attempt ended by its time, with no answer.
func TimedOut(err error) bool { return errors.Is(err, errAttemptTimeout) }

// ErrTooLarge is an answer over limits.MaxResponseBody.
var ErrTooLarge = fmt.Errorf("answer is over %d bytes", limits.MaxResponseBody)

// Once sends the call one time.
func (t *Transport) Once(ctx context.Context, call Call) (*Reply, error) {
	req, err := call.request(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := t.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	reply := readReply(resp)
	reply.Attempts = 1
	return reply, nil
}

func (c *Call) request(ctx context.Context) (*http.Request, error) {
	ctx = context.WithValue(ctx, timeoutKey{}, c.Timeout)
	var body io.Reader
	if c.Body != nil {
		body = bytes.NewReader(c.Body)
	}
	req, err := http.NewRequestWithContext(ctx, c.Method, c.URL, body)
	if err != nil {
		return nil, err
	}
	if c.Header != nil {
		req.Header = c.Header.Clone()
	}
	return req, nil
}

// readReply reads an answer that whole has read before, so it cannot break.
func readReply(resp *http.Response) *Reply {
	if b, ok := resp.Body.(arrived); ok {
		return &Reply{Status: resp.StatusCode, Header: resp.Header, Body: b.all}
	}
	// An http.Client with a Timeout wraps what it returns.
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return &Reply{Status: resp.StatusCode, Header: resp.Header, Body: body}
}

// Do sends the call until it has a final answer or ctx ends: again after a
// network error, a broken answer, 408, 425, 429 and any 5xx but 501. An answer
// that is final comes back as a Reply, with a nil error only if no earlier
// attempt was ambiguous or the answer is a success; everything else is a
// *Failure.
func (t *Transport) Do(ctx context.Context, call Call) (*Reply, error) {
	if ctx.Err() != nil {
		return nil, &Failure{Err: (&run{}).cause(ctx, ctx.Err())}
	}
	req, err := call.request(ctx)
	if err != nil {
		return nil, &Failure{Err: err}
	}
	rreq, err := retryablehttp.FromRequest(req)
	if err != nil {
		return nil, &Failure{Err: err}
	}
	run := &run{t: t, call: &call, since: call.Since}
	client := retryablehttp.Client{
		HTTPClient:   t.HTTP,
		RetryMax:     math.MaxInt,
		CheckRetry:   run.check,
		Backoff:      func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return run.delay },
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	resp, err := client.Do(rreq)
	if err == nil {
		run.last = readReply(resp)
		run.last.Attempts = run.attempts
		if !run.ambiguous || resp.StatusCode < 300 {
			return run.last, nil
		}
	}
	return run.last, &Failure{Attempts: run.attempts, Last: run.last, Wait: run.asked, Ambiguous: run.ambiguous, Err: run.cause(ctx, err)}
}

// run is the state of one Do across its attempts.
type run struct {
	t         *Transport
	call      *Call
	attempts  int
	broken    int
	ambiguous bool
	since     time.Time // of the first attempt that may have been taken
	last      *Reply
	lastErr   error
	delay     time.Duration
	asked     time.Duration
}

var (
	errNoTime = fmt.Errorf("the next attempt does not fit: %w", context.DeadlineExceeded)
	errFinal  = errors.New("the attempt cannot be repeated safely")
	errBroken = errors.New("the answer is not whole")
)

// ErrForgotten says that the Hub need no longer know an attempt that it may
// have taken, so that another one could be a second effect.
var ErrForgotten = errors.New("the Hub need no longer remember the first attempt")

// maybeTaken notes an attempt whose fate is unknown and reports whether
// another may follow.
func (r *run) maybeTaken() bool {
	r.ambiguous = true
	if r.since.IsZero() {
		r.since = r.t.Now().Round(0)
	}
	return !r.call.Once
}

// isBroken looks at a success, which stays readable.
func (r *run) isBroken(resp *http.Response) bool {
	if r.call.Broken == nil || resp.StatusCode/100 != 2 || r.broken >= maxBroken-1 {
		return false
	}
	reply := readReply(resp)
	resp.Body = newArrived(reply.Body)
	if !r.call.Broken(reply) {
		return false
	}
	r.broken++
	return true
}

// check decides on the next attempt and, since the decision depends on whether
// it fits, on its delay.
func (r *run) check(ctx context.Context, resp *http.Response, err error) (bool, error) {
	r.attempts++
	r.asked = 0
	if err != nil {
		r.lastErr = err
		if ctx.Err() != nil {
			r.ambiguous = r.ambiguous || !neverSent(err)
			return false, ctx.Err()
		}
		if Misconfigured(err) {
			return false, err
		}
		if !neverSent(err) && !r.maybeTaken() {
			return false, errFinal
		}
		if errors.Is(err, ErrTooLarge) {
			return false, err
		}
	} else {
		r.lastErr = nil
		broken := r.isBroken(resp)
		if !broken && !Retryable(resp.StatusCode) {
			return false, nil
		}
		reply := readReply(resp)
		r.last = reply
		if broken {
			r.lastErr = errBroken
		}
		if reply.Status != http.StatusTooManyRequests && reply.Status != http.StatusTooEarly && !r.maybeTaken() {
			return false, errFinal
		}
		r.asked = RetryAfter(reply.Header, r.t.Now())
	}
	r.delay = r.t.Backoff.Delay(r.attempts, r.asked, r.t.Rand())
	if deadline, ok := ctx.Deadline(); ok && r.delay >= time.Until(deadline) {
		return false, errNoTime
	}
	if left := r.call.Remembered; left > 0 && !r.since.IsZero() && r.t.Now().Round(0).Add(r.delay).Sub(r.since) >= left {
		r.ambiguous = true
		return false, ErrForgotten
	}
	status := 0
	if err == nil {
		status = r.last.Status
	}
	r.t.Log.LogAttrs(ctx, slog.LevelWarn, "ma2h: will send again",
		slog.String("op", r.call.Op), slog.Int("attempt", r.attempts), slog.Int("status", status), slog.Duration("delay", r.delay))
	return true, nil
}

func (r *run) cause(ctx context.Context, err error) error {
	switch {
	case err == nil:
		err = errors.New("refused")
	case err == ctx.Err():
		if cause := context.Cause(ctx); errors.Is(cause, err) {
			err = cause
		} else {
			err = errors.Join(err, cause)
		}
	}
	if r.lastErr != nil && !errors.Is(err, r.lastErr) {
		err = fmt.Errorf("%w: %w", err, r.lastErr)
	}
	return err
}

// Retryable reports whether a status says that the same call may be sent
// again: 408, 425, 429 and 5xx but 501.
func Retryable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented:
		return false
	}
	return status >= 500
}

// neverSent reports whether no byte of the call can have reached the Hub: the
// connection to it, or through a proxy to it, was never made.
func neverSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

// Misconfigured reports whether the connection failed for a reason that waiting
// does not mend, before anything was sent.
func Misconfigured(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok || errors.Is(err, http.ErrSchemeMismatch)
}
