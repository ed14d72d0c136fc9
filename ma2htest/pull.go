package ma2htest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

func gone() *Error {
	return refuse(http.StatusGone, types.CodeGone, "the message was deleted or is past its retention (§8.2)")
}

// own finds a message of the caller. To anybody else it does not exist (§9.1).
func (h *Hub) own(c *call, now time.Time) (*message, *Error) {
	m, ok := h.messages[c.param]
	if !ok || c.who.owner || m.agent != c.who.agent {
		return nil, notFound()
	}
	if !h.retained(m, now) {
		return nil, gone()
	}
	return m, nil
}

func (h *Hub) pull(c *call) reply {
	wait, e := h.wait(c)
	if e != nil {
		return e.reply()
	}
	since, e := c.since()
	if e != nil {
		return e.reply()
	}
	now := h.lock()
	if wait > 0 {
		h.touch(c, now)
	}
	m, e := h.own(c, now)
	if e == nil && m.status == types.StatusOpen && wait > 0 && !c.noHold {
		stop := h.beginHold(&m.holds, now.Add(wait))
		h.unlock()
		ended := stop.await(c.ctx, h.closed, m.ready)
		now = h.lock()
		h.endHold(stop)
		if !ended {
			h.unlock()
			return reply{cut: true}
		}
		h.touch(c, now)
		m, e = h.own(c, now)
	}
	defer h.unlock()
	if e != nil {
		return e.reply()
	}
	if !since.IsZero() && !m.changed.After(since) {
		return reply{status: http.StatusNotModified}
	}
	if m.resolved != nil {
		h.markDelivered(m, now)
	}
	return reply{status: http.StatusOK, body: m.view()}
}

// held is a long-poll that waits.
type held struct {
	over  chan struct{} // closed when its time is over
	due   *due
	holds *int // where it counts; nil once it does not
}

// beginHold counts a hold until the given time. The lock is held.
func (h *Hub) beginHold(holds *int, until time.Time) *held {
	w := &held{over: make(chan struct{}), holds: holds}
	w.due = h.clock.after(until, func(time.Time) {
		w.uncount()
		close(w.over)
	})
	*holds++
	h.wakeWatchers()
	return w
}

func (h *Hub) endHold(w *held) {
	h.clock.stop(w.due)
	w.uncount()
}

// uncount takes the hold out of its count, with the end of its time and not
// only once its goroutine has noticed.
func (w *held) uncount() {
	if w.holds != nil {
		*w.holds--
		w.holds = nil
	}
}

// await returns false if the caller or the Hub went away. No wake-up is lost:
// ready stays closed once it is.
func (w *held) await(ctx context.Context, closed, ready <-chan struct{}) bool {
	select {
	case <-ready:
		return true
	case <-w.over:
		return true
	case <-ctx.Done():
		return false
	case <-closed:
		return false
	}
}

// wait reads ?wait=, whole seconds, and cuts it to what the Hub gives (§8.2).
func (h *Hub) wait(c *call) (time.Duration, *Error) {
	if !c.query.Has("wait") {
		return 0, nil
	}
	n, err := strconv.ParseUint(c.query.Get("wait"), 10, 31)
	if err != nil {
		return 0, malformed("wait is not a number of seconds (§8.2)")
	}
	return min(time.Duration(n)*time.Second, h.opts.MaxHold), nil
}

func (c *call) since() (time.Time, *Error) {
	if !c.query.Has("since") {
		return time.Time{}, nil
	}
	s := c.query.Get("since")
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !types.ValidTimestamp(s) {
		return time.Time{}, malformed("since is not an RFC 3339 date-time (§8.2)")
	}
	return t, nil
}
