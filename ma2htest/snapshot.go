package ma2htest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// Snapshot is what the Hub keeps of a message, for the author of a test.
type Snapshot struct {
	ID         string
	Type       types.Verb
	AgentID    string
	RunID      string
	Title      string
	Status     types.Status
	AcceptedAt time.Time
	Submitted  []byte          // the request body, byte for byte
	Resolved   *Resolved       // nil while open
	Delivery   *types.Delivery // nil until the answer was read (0.4)
	Holds      int             // long-polls that wait on it now
	Forgotten  bool
}

// Message returns what the Hub keeps of a message. It reports false for an id
// that the Hub never gave.
func (h *Hub) Message(id string) (Snapshot, bool) {
	h.lock()
	defer h.unlock()
	m, ok := h.messages[id]
	if !ok {
		return Snapshot{}, false
	}
	return m.snapshot(), true
}

// Messages returns all messages in the order of their acceptance.
func (h *Hub) Messages() []Snapshot {
	h.lock()
	defer h.unlock()
	out := make([]Snapshot, len(h.order))
	for i, id := range h.order {
		out[i] = h.messages[id].snapshot()
	}
	return out
}

// Next waits for the first message that no earlier Next returned. It fails
// when ctx ends or the Hub closes.
func (h *Hub) Next(ctx context.Context) (Snapshot, error) {
	var s Snapshot
	err := h.watch(ctx, func() bool {
		if h.handedOut == len(h.order) {
			return false
		}
		s = h.messages[h.order[h.handedOut]].snapshot()
		h.handedOut++
		return true
	})
	return s, err
}

// AwaitHold waits until a long-poll is held on the message, so that a test can
// answer while the agent waits. It fails when ctx ends or the Hub closes.
func (h *Hub) AwaitHold(ctx context.Context, id string) error {
	return h.watch(ctx, func() bool {
		m, ok := h.messages[id]
		return ok && m.holds > 0
	})
}

func (h *Hub) watch(ctx context.Context, done func() bool) error {
	for {
		h.lock()
		if done() {
			h.unlock()
			return nil
		}
		news := h.watched()
		h.unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		case <-h.closed:
			return errors.New("ma2htest: the Hub is closed")
		}
	}
}

func (m *message) snapshot() Snapshot {
	s := Snapshot{
		ID: m.id, Type: m.msg.Type, AgentID: m.agent, RunID: m.msg.Agent.RunID, Title: m.msg.Title,
		Status: m.status, AcceptedAt: m.accepted, Submitted: slices.Clone(m.raw),
		Resolved: m.resolved.clone(), Holds: m.holds, Forgotten: m.forgotten,
	}
	if m.delivery != nil {
		d := *m.delivery
		s.Delivery = &d
	}
	return s
}

func (r *Resolved) clone() *Resolved {
	if r == nil {
		return nil
	}
	c := *r
	for _, b := range []*json.RawMessage{&c.Detail, &c.State, &c.Body} {
		*b = slices.Clone(*b)
	}
	return &c
}

// Item is a row of a resolver's inbox. It has no state, no client_ref and no
// callback: resolvers do not see them (§4, §9.1).
type Item struct {
	ID        string
	Type      types.Verb
	AgentID   string
	Project   string
	Title     string
	Body      string
	Priority  types.Priority // never empty
	Tags      []string
	Context   []types.Part
	Sensitive bool
	ExpiresAt string
	Request   *types.Request // of an ask, a confirm's two options filled in
	Action    *types.Action  // of a task
}

// Inbox returns what the resolver sees: the notifies, if it is a human, and
// the open asks and tasks that it may resolve.
func (h *Hub) Inbox(resolver string) []Item {
	h.lock()
	defer h.unlock()
	var items []Item
	for _, id := range h.order {
		m := h.messages[id]
		notify := m.msg.Type == types.VerbNotify && types.ValidPrincipal(resolver) && resolver[0] == 'h'
		open := m.status == types.StatusOpen && m.admits(resolver)
		if !m.forgotten && (notify || open) {
			items = append(items, m.item())
		}
	}
	return items
}

func (m *message) item() Item {
	it := Item{
		ID: m.id, Type: m.msg.Type, AgentID: m.agent, Project: m.msg.Agent.Project,
		Title: m.msg.Title, Body: m.msg.Body, Priority: m.msg.Priority,
		Tags: slices.Clone(m.msg.Tags), Context: slices.Clone(m.msg.Context),
		Sensitive: m.msg.Sensitive, ExpiresAt: m.msg.ExpiresAt,
	}
	if it.Priority == "" {
		it.Priority = types.PriorityNormal
	}
	if m.msg.Request != nil {
		r := *m.msg.Request
		r.Callback = nil
		if r.Mode == types.ModeConfirm && len(r.Options) == 0 {
			r.Options = []types.Option{
				{Value: types.ValueApprove, Label: "Approve"},
				{Value: types.ValueDeny, Label: "Deny"},
			}
		}
		it.Request = &r
	}
	if m.msg.Action != nil {
		a := *m.msg.Action
		a.Callback = nil
		it.Action = &a
	}
	return it
}
