package ma2htest

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// The first two states of a directive's receipt track; the third is
// types.Acknowledged (§14.2).
const (
	Queued    types.DeliveryState = "queued"
	Delivered types.DeliveryState = "delivered"
)

// DirectiveDraft is what a human writes to an agent (§13.1). The Hub adds the
// id, the addressee and the time.
type DirectiveDraft struct {
	From      string         // human:<id> or system:<id>; empty means DefaultResolver
	Title     string         // 1 to 200 characters
	Body      string         // Markdown
	Priority  types.Priority // empty: normal
	Tags      []string       // labels
	Context   []types.Part   // attachments
	ExpiresAt time.Time      // after it the Hub drops the directive; zero means the retention of mailboxes
	Sensitive bool           // keep out of telemetry (§9.6)
}

// directive is what the Hub keeps of one.
type directive struct {
	id, agent  string
	wire       types.Directive
	body       []byte // wire, encoded once: every delivery has these bytes
	sent       time.Time
	expiry     *due
	lapse      *due // the end of the visibility window; nil unless in flight
	track      types.Delivery
	presented  bool // drained or pushed
	deliveries []DirectiveDelivery
	dropped    time.Time
}

// pending reports whether the directive is still to be delivered (§13.3).
func (d *directive) pending() bool {
	return d.dropped.IsZero() && d.track.State != types.Acknowledged
}

// SendDirective puts a directive into the mailbox of the agent, which need not
// be known to the Hub yet, and pushes it if the agent has a webhook. The error
// is an *Error: ErrInvalid for a draft that breaks §13.1, ErrNotFound if the
// Hub offers no mailboxes.
func (h *Hub) SendDirective(agentID string, draft DirectiveDraft) (id string, err error) {
	now := h.lock()
	defer h.unlock()
	if !h.offersInbound() {
		return "", refuse(http.StatusNotFound, types.CodeNotFound, "the Hub offers no mailboxes (§8.0)")
	}
	d := &directive{
		id: h.ids.next("dir_"), agent: agentID, sent: now, track: types.Delivery{State: Queued},
		wire: types.Directive{
			Version: h.opts.Version, Type: types.TypeDirective, From: nameOr(draft.From, DefaultResolver),
			To: "agent:" + agentID, CreatedAt: stamp(now), Title: draft.Title, Body: draft.Body,
			Priority: draft.Priority, Tags: slices.Clone(draft.Tags), Context: draft.Context, Sensitive: draft.Sensitive,
		},
	}
	d.wire.ID = d.id
	until := h.directiveRetention(now)
	if !draft.ExpiresAt.IsZero() {
		if !draft.ExpiresAt.After(now) {
			return "", invalidField("expires_at is not in the future (§13.1)")
		}
		// To the nanosecond: a shorter stamp would tell another time than the
		// one at which the Hub drops it.
		until = draft.ExpiresAt
		d.wire.ExpiresAt = until.UTC().Format(time.RFC3339Nano)
	}
	if err := d.wire.Validate(); err != nil {
		return "", invalidField("%v", err)
	}
	if d.body, err = types.Encode(d.wire); err == nil {
		// No agent could read, and no signer sign, what this refuses.
		err = types.Decode(d.body, new(types.Directive))
	}
	if err != nil {
		return "", invalidField("the directive cannot be delivered: %v", err)
	}
	if !until.IsZero() {
		// Strictly after, as an ask expires (§7, §13.3).
		d.expiry = h.clock.after(until.Add(time.Nanosecond), func(now time.Time) { h.drop(d, now) })
	}
	h.post.directives[d.id] = d
	h.post.order = append(h.post.order, d)
	h.enqueue(d)
	h.pushDirective(d)
	return d.id, nil
}

// directiveRetention is when an unacknowledged directive without expires_at is
// dropped; the zero time is never (§13.3).
func (h *Hub) directiveRetention(now time.Time) time.Time {
	if days := h.caps.Inbound.RetentionDays; days > 0 {
		return now.AddDate(0, 0, int(days))
	}
	return time.Time{}
}

func (h *Hub) drop(d *directive, now time.Time) {
	d.dropped = now
	h.leave(d)
}

// leave takes d out of whatever it waits for.
func (h *Hub) leave(d *directive) {
	h.clock.stop(d.expiry)
	h.clock.stop(d.lapse)
	d.expiry, d.lapse = nil, nil
}

// got notes that the agent has the directive: it was drained, or a push of it
// was answered with a 2xx (§14.2).
func (d *directive) got(now time.Time) {
	if d.track.State == Queued {
		d.track.State, d.track.DeliveredAt = Delivered, stamp(now)
	}
}

// consume acknowledges d and records the receipt; the first one stands (§14.1).
func (h *Hub) consume(d *directive, now time.Time, note string) {
	ack := &types.Ack{
		Version: h.opts.Version, Type: types.TypeAck, InReplyTo: d.id,
		By: "agent:" + d.agent, AckedAt: stamp(now), Note: note,
	}
	d.got(now)
	d.track.State, d.track.AcknowledgedAt, d.track.Ack = types.Acknowledged, ack.AckedAt, ack
	h.leave(d)
}

// DirectiveDelivery is one time that a directive was drained.
type DirectiveDelivery struct {
	At        time.Time
	Signature string // as in the entry
}

// DirectiveSnapshot is what the Hub keeps of a directive, for the author of a
// test.
type DirectiveSnapshot struct {
	ID         string
	AgentID    string
	From       string
	Title      string
	SentAt     time.Time
	Wire       json.RawMessage // as it is delivered
	Delivery   types.Delivery  // queued, delivered, acknowledged, and the receipt
	Deliveries []DirectiveDelivery
	InFlight   bool      // drained, and hidden from other drains
	DroppedAt  time.Time // when it expired unacknowledged; zero if it did not
}

// Directive returns what the Hub keeps of a directive. It reports false for an
// id that the Hub never gave.
func (h *Hub) Directive(id string) (DirectiveSnapshot, bool) {
	h.lock()
	defer h.unlock()
	d, ok := h.post.directives[id]
	if !ok {
		return DirectiveSnapshot{}, false
	}
	return d.snapshot(), true
}

// Directives returns all directives to the agent in the order in which they
// were sent.
func (h *Hub) Directives(agentID string) []DirectiveSnapshot {
	return h.directives(func(d *directive) bool { return d.agent == agentID })
}

func (h *Hub) directives(which func(*directive) bool) []DirectiveSnapshot {
	h.lock()
	defer h.unlock()
	var out []DirectiveSnapshot
	for _, d := range h.post.order {
		if which(d) {
			out = append(out, d.snapshot())
		}
	}
	return out
}

func (d *directive) snapshot() DirectiveSnapshot {
	s := DirectiveSnapshot{
		ID: d.id, AgentID: d.agent, From: d.wire.From, Title: d.wire.Title, SentAt: d.sent,
		Wire: slices.Clone(d.body), Delivery: d.track, Deliveries: slices.Clone(d.deliveries),
		InFlight: d.lapse != nil, DroppedAt: d.dropped,
	}
	if d.track.Ack != nil {
		s.Delivery.Ack = new(*d.track.Ack)
	}
	return s
}
