package ma2htest

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// post is all mailboxes and directives. The Hub's mutex guards it.
type post struct {
	boxes      map[string]*mailbox // by agent id
	directives map[string]*directive
	order      []*directive
	webhooks   map[string]string // URL by agent id
}

func (p *post) init() {
	p.boxes, p.directives = make(map[string]*mailbox), make(map[string]*directive)
	p.webhooks = make(map[string]string)
}

// mailbox is what an agent can drain now. A directive that a lapsed window
// brings back goes behind the newer ones (§8.7).
type mailbox struct {
	ready []*directive  // some of them acknowledged or dropped meanwhile
	news  chan struct{} // closed and replaced when ready grows
	holds int
}

func (h *Hub) mailbox(agent string) *mailbox {
	b, ok := h.post.boxes[agent]
	if !ok {
		b = &mailbox{news: make(chan struct{})}
		h.post.boxes[agent] = b
	}
	return b
}

// enqueue makes d drainable and wakes who waits for it.
func (h *Hub) enqueue(d *directive) {
	b := h.mailbox(d.agent)
	b.ready = append(b.ready, d)
	close(b.news)
	b.news = make(chan struct{})
}

// waiting reports whether there is something to drain.
func (b *mailbox) waiting() bool {
	for len(b.ready) > 0 && !b.ready[0].pending() {
		b.pop()
	}
	return len(b.ready) > 0
}

func (b *mailbox) pop() *directive {
	d := b.ready[0]
	b.ready[0] = nil
	b.ready = b.ready[1:]
	return d
}

// hide puts d in flight until the visibility window ends.
func (h *Hub) hide(d *directive, now time.Time) {
	d.lapse = h.clock.after(now.Add(h.visibility()), func(time.Time) { h.reveal(d) })
}

// reveal ends the window of d.
func (h *Hub) reveal(d *directive) {
	h.clock.stop(d.lapse)
	d.lapse = nil
	h.enqueue(d)
}

const (
	defaultMaxBatch   = 32
	defaultVisibility = 60 // seconds
)

func (h *Hub) visibility() time.Duration {
	s := h.caps.Inbound.VisibilityTimeoutSeconds
	if s <= 0 {
		s = defaultVisibility
	}
	return time.Duration(s) * time.Second
}

func (h *Hub) offersInbound() bool { return h.minor >= 4 && h.caps.OffersInbound() }

// AwaitDrain waits until a long-poll on the agent's mailbox is held, so that a
// test can send a directive while the agent waits. It fails when ctx ends or
// the Hub closes.
func (h *Hub) AwaitDrain(ctx context.Context, agentID string) error {
	return h.watch(ctx, func() bool { return h.mailbox(agentID).holds > 0 })
}

// ownsMailbox refuses who has none. The lock is held.
func (h *Hub) ownsMailbox(c *call) *Error {
	if !h.offersInbound() || c.who.owner {
		return notFound()
	}
	return nil
}

func (h *Hub) drain(c *call) reply {
	now := h.lock()
	defer h.unlock()
	if e := h.ownsMailbox(c); e != nil {
		return e.reply()
	}
	if e := h.takeRate(c.who.agent); e != nil {
		return e.reply()
	}
	wait, e := h.wait(c)
	if e != nil {
		return e.reply()
	}
	most, e := h.most(c)
	if e != nil {
		return e.reply()
	}
	h.touch(c, now)
	box := h.mailbox(c.who.agent)
	if wait > 0 && !c.noHold && !box.waiting() {
		stop := h.beginHold(&box.holds, now.Add(wait))
		until, alive := now.Add(wait), true
		for alive && now.Before(until) && !box.waiting() {
			news := box.news
			h.unlock()
			alive = stop.await(c.ctx, h.closed, news)
			now = h.lock()
		}
		h.endHold(stop)
		// Whoever has gone takes nothing with them.
		if !alive || c.ctx.Err() != nil {
			return reply{cut: true}
		}
		h.touch(c, now)
	}
	b := h.takeBatch(c, box, most, now)
	return reply{status: http.StatusOK, body: b.body()}
}

// most reads ?max= and cuts it to what the Hub gives (§8.7).
func (h *Hub) most(c *call) (int, *Error) {
	limit := int(h.caps.Inbound.MaxBatch)
	if !c.query.Has("max") {
		return limit, nil
	}
	n, err := strconv.ParseUint(c.query.Get("max"), 10, 31)
	if err != nil || n == 0 {
		return 0, malformed("max is not a number of entries (§8.7)")
	}
	if limit > 0 && int(n) > limit {
		return limit, nil
	}
	return int(n), nil
}

// batch is the answer to a drain before it is written.
type batch struct {
	hub   *Hub
	agent string
	now   time.Time
	rows  []*row
}

// row is one entry of a batch.
type row struct {
	d         *directive // nil if it stands for none
	body      []byte
	signature string
	raw       []byte // set: the whole row, in place of body and signature
}

// takeBatch takes at most so many entries, 0 for all, and signs each anew: a
// directive may have rested longer than its last signature is good for (§9.7).
func (h *Hub) takeBatch(c *call, box *mailbox, most int, now time.Time) *batch {
	b := &batch{hub: h, agent: c.who.agent, now: now}
	for box.waiting() && (most == 0 || len(b.rows) < most) {
		d := box.pop()
		h.hide(d, now)
		d.got(now)
		b.rows = append(b.rows, &row{d: d, body: d.body, signature: b.sign(d.body, signing{})})
	}
	if len(b.rows) > 0 {
		h.strike(c, b)
	}
	for _, r := range b.rows {
		if r.d != nil {
			r.d.presented = true
			r.d.deliveries = append(r.d.deliveries, DirectiveDelivery{At: now, Signature: r.signature})
		}
	}
	return b
}

func (b *batch) body() []byte {
	var list bytes.Buffer
	list.WriteByte('[')
	for i, r := range b.rows {
		if i > 0 {
			list.WriteByte(',')
		}
		list.Write(r.bytes())
	}
	list.WriteByte(']')
	var o object
	o.raw("messages", list.Bytes())
	return o.bytes()
}

func (r *row) bytes() []byte {
	if r.raw != nil {
		return r.raw
	}
	var o object
	o.raw(types.EntryDirective, r.body)
	o.str("signature", r.signature)
	return o.bytes()
}

// ackInbox consumes directives of the caller's mailbox. An id that is unknown,
// another agent's, was never presented or is gone already counts for nothing
// and makes no difference (§8.7, §13.5).
func (h *Hub) ackInbox(c *call) reply {
	now := h.lock()
	defer h.unlock()
	if e := h.ownsMailbox(c); e != nil {
		return e.reply()
	}
	if e := h.takeRate(c.who.agent); e != nil {
		return e.reply()
	}
	if e := c.isJSON(); e != nil {
		return e.reply()
	}
	var req types.InboxAckRequest
	if err := types.Decode(c.body, &req); err != nil {
		return malformed("%v", err).reply()
	}
	if req.IDs == nil {
		return malformed("ids is required (§8.7)").reply()
	}
	var result types.InboxAckResult
	for _, id := range req.IDs {
		d, ok := h.post.directives[id]
		if ok && d.agent == c.who.agent && d.presented && d.pending() {
			h.consume(d, now, req.Note)
			result.Acked++
		}
	}
	return jsonReply(http.StatusOK, result)
}
