package ma2h

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/transport"
	"github.com/ma2h/ma2h-go/types"
)

// Wait long-polls until the message has ended and returns how. Acting on the
// answer at most once, across restarts, is Resumer.Response's. It survives
// proxies that cut held requests, outages and restarts of the Hub, and a Hub
// that does not hold; without a deadline on ctx it waits for days.
//
// It ends early when ctx does (the message stays open, and a later Wait, in
// any process, goes on), and on what waiting cannot mend: ErrUnauthenticated,
// ErrNotAuthorized, ErrNotFound, ErrGone, ErrProtocol (a document of the Hub's
// that contradicts itself; a proxy's page is no news, nor is what a hop has cut
// short, unless three answers in a row are), any other refusal, and
// ErrRateLimited if the Hub asks for more time than ctx has. A notify has no
// answer to wait for (§5.1) and is ErrNoAnswer.
func (c *Client) Wait(ctx context.Context, id string) (*Response, error) {
	m, err := c.await(ctx, id)
	if err != nil {
		return nil, err
	}
	return m.Response, nil
}

// await is Wait with the message.
func (c *Client) await(ctx context.Context, id string) (*Message, error) {
	base, err := c.messageURL(id, "")
	if err != nil {
		return nil, err
	}
	p := newPacer(c, c.hold)
	for {
		m, err := c.poll(ctx, p, id, base)
		switch {
		case err != nil:
			return nil, err
		case m == nil || !m.Wire.Status.Terminal():
		case m.Response == nil:
			return nil, fmt.Errorf("%w: message %s is a %s (§5.1)", ErrNoAnswer, types.Quote(id), m.Wire.Type)
		default:
			c.log(ctx, slog.LevelInfo, "ma2h: message ended", slog.String("id", id), slog.String("resolution", string(m.Response.Resolution())))
			return m, nil
		}
		if err := p.pause(ctx); err != nil {
			if p.last != "" {
				err = fmt.Errorf("%w; the last poll %s", err, p.last)
			}
			return nil, waitEnded(id, err)
		}
	}
}

// waitEnded says what a wait that ended early leaves behind.
func waitEnded(id string, err error) error {
	return fmt.Errorf("ma2h: wait for %s ended, the message stays open: %w", types.Quote(id), err)
}

// poll asks once. No news, whatever its form, is a nil Message.
func (c *Client) poll(ctx context.Context, p *pacer, id, base string) (*Message, error) {
	reply, err := c.holdOnce(ctx, p, opGet, base+"?wait="+p.holdParam())
	if err != nil {
		return nil, waitEnded(id, err)
	}
	if reply == nil {
		return nil, nil
	}
	if reply.Status != http.StatusOK {
		return nil, apiError(opGet, id, reply, c.cfg.Now())
	}
	return readMessage(id, reply)
}

// holdOnce sends one held request and tells the pacer how it went. It returns
// nil for no news, a 200 with JSON in it, or a refusal that is final.
func (c *Client) holdOnce(ctx context.Context, p *pacer, op touchpoint, target string) (*transport.Reply, error) {
	call, err := c.call(ctx, op, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	call.Timeout = p.asks() + limits.HoldGrace
	p.started()
	reply, err := c.send.Once(ctx, call)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil // the pause that follows says so
	case err != nil:
		switch {
		case transport.Misconfigured(err):
			return nil, err
		case errors.Is(err, transport.ErrTooLarge):
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		p.failed(0, "got no answer")
		if transport.TimedOut(err) {
			p.silenced()
		}
		c.log(ctx, slog.LevelDebug, "ma2h: poll got no answer", slog.String("op", string(op)), slog.Duration("next", p.next))
		return nil, nil
	}
	switch s := reply.Status; {
	case s == http.StatusNotModified || s == http.StatusNoContent:
		p.held()
		return nil, nil
	case s == http.StatusOK && isJSON(reply.Header):
		if cutShort(reply) && p.cut() {
			return nil, nil
		}
		p.broken = 0
		p.held()
		return reply, nil
	case s == http.StatusOK:
		// Not from a Hub: a proxy's or a portal's page.
		p.failed(0, "was answered with a page that is not of a Hub")
		return nil, nil
	case transport.Retryable(s):
		asked := transport.RetryAfter(reply.Header, c.cfg.Now())
		p.failed(asked, "was answered "+strconv.Itoa(s))
		if deadline, ok := ctx.Deadline(); ok && p.next >= time.Until(deadline) && s == http.StatusTooManyRequests {
			return reply, nil
		}
		c.log(ctx, slog.LevelDebug, "ma2h: poll got no news", slog.String("op", string(op)), slog.Int("status", s), slog.Duration("next", p.next))
		return nil, nil
	}
	return reply, nil
}

// pacer decides how long to hold and how long to pause between held requests.
type pacer struct {
	client *Client
	most   time.Duration // the longest hold to ask for
	hold   time.Duration // what to ask for now: shorter once a hop has cut one
	next   time.Duration // the pause before the next request
	fails  int           // failures in a row
	early  int           // answers in a row that came at once
	full   int           // full holds since the last cut
	probe  bool          // the last hold ended in silence
	broken int           // answers in a row that were no JSON
	begin  time.Time
	last   string // what the last failure was, "" after an answer of the Hub
}

const (
	// earlyAnswer is how soon an answer without news shows that the Hub does
	// not hold.
	earlyAnswer = 2 * time.Second
	// maxEarlyGap is the longest pause toward a Hub that does not hold.
	maxEarlyGap = 15 * time.Second
	// regrowAfter is how many full holds lengthen a shortened hold again.
	regrowAfter = 20
	// maxBroken is how many answers in a row may be no JSON before it is no
	// accident of a hop any more.
	maxBroken = 3
)

func newPacer(c *Client, most time.Duration) *pacer {
	return &pacer{client: c, most: most, hold: most}
}

func (p *pacer) holdParam() string { return strconv.Itoa(int(p.asks() / time.Second)) }

// asks is the hold of the next request: the shortest after a silence, to learn
// soon whether there is anybody.
func (p *pacer) asks() time.Duration {
	if p.probe {
		return time.Second
	}
	return p.hold
}

// silenced records that a hold ended without any answer: the connection is
// dead, or some hop forgets one that is silent for so long.
func (p *pacer) silenced() {
	if !p.probe {
		p.full, p.hold = 0, max(time.Second, p.hold/2).Truncate(time.Second)
	}
	p.probe = true
}

func (p *pacer) started() { p.begin = p.client.cfg.Now() }

// held records an answer of the Hub that may be no news.
func (p *pacer) held() {
	elapsed := p.client.cfg.Now().Sub(p.begin)
	p.fails, p.next, p.last = 0, 0, ""
	if p.probe {
		p.probe = false
		return
	}
	if elapsed < min(earlyAnswer, p.hold) {
		gap := min(time.Second<<min(p.early, 10), maxEarlyGap)
		p.early++
		p.next = gap/2 + time.Duration(p.client.cfg.jitter()*float64(gap/2))
		return
	}
	p.early = 0
	if p.full++; p.full >= regrowAfter {
		p.full, p.hold = 0, min(p.most, 2*p.hold)
	}
}

// failed records a request that brought nothing from the Hub. One that was cut
// while it was held shortens the next hold: some hop allows no more.
func (p *pacer) failed(asked time.Duration, why string) {
	p.last = why
	if elapsed := p.client.cfg.Now().Sub(p.begin).Truncate(time.Second); elapsed >= time.Second && elapsed < p.hold {
		p.full, p.hold = 0, max(time.Second, elapsed*3/4).Truncate(time.Second)
	}
	p.fails++
	p.next = p.client.send.Backoff.Delay(p.fails, asked, p.client.cfg.jitter())
}

// cut records an answer that is no JSON, and reports whether it is no news.
func (p *pacer) cut() bool {
	if p.broken++; p.broken >= maxBroken {
		return false
	}
	p.failed(0, "was answered with half an answer")
	return true
}

// pause sleeps until the next request may be sent. A pause that does not fit
// ctx still lasts until it ends: the caller asked to wait that long.
func (p *pacer) pause(ctx context.Context) error {
	if p.next <= 0 {
		return contextError(ctx)
	}
	select {
	case <-time.After(p.next):
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// contextError returns the cause of an ended ctx such that errors.Is also
// finds context.Canceled or context.DeadlineExceeded.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return errors.Join(err, cause)
}
