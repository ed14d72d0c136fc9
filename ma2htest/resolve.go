package ma2htest

import (
	"encoding/json"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// ActorExpired is the actor of an ask that expired without a default.
const ActorExpired = "system:expired"

// ActorHub is the actor of an ask that Withdraw ended.
const ActorHub = "system:hub"

// Resolved is the terminal record of a message, made once and never changed.
type Resolved struct {
	MessageID    string
	AgentID      string
	RunID        string
	Version      string // that of the submit, which is that of the Response
	Resolution   types.Resolution
	ResolutionID string
	Actor        string
	ResolvedAt   string          // as on the wire; the Response of a task may lack it
	Detail       json.RawMessage // the response member; nil if there is none
	State        json.RawMessage // as submitted; nil if there was none
	Defaulted    bool
	Callback     *types.Callback
	Body         json.RawMessage // the whole Response (§6)
}

// ending is how a message is about to end.
type ending struct {
	resolution types.Resolution
	actor      string
	value      json.RawMessage
	edited     bool
	comment    string
	checklist  []types.ChecklistItem
	defaulted  bool
}

// resolve is the one transition of an open message. The caller holds the lock
// and has seen the message open under it.
func (h *Hub) resolve(m *message, now time.Time, e ending) {
	h.clock.stop(m.expiry)
	r := &Resolved{
		MessageID: m.id, AgentID: m.agent, RunID: m.msg.Agent.RunID, Version: m.msg.Version,
		Resolution: e.resolution, ResolutionID: h.ids.next("res_"), Actor: e.actor,
		ResolvedAt: stamp(now), State: json.RawMessage(m.msg.State),
		Defaulted: e.defaulted, Callback: m.msg.Callback(),
	}
	// §6: the response of a task is there only to carry something.
	if m.msg.Type == types.VerbAsk || e.comment != "" || e.checklist != nil {
		r.Detail = e.detail(r.ResolvedAt)
	}
	r.Body = r.body()
	m.resolved = r
	m.status = types.Status(e.resolution)
	m.changed = now
	close(m.ready)
	for _, observe := range h.observers {
		observe(r)
	}
}

func (e ending) detail(resolvedAt string) []byte {
	var o object
	if e.value != nil {
		o.raw("value", e.value)
	}
	if e.resolution == types.Answered {
		edited := "false"
		if e.edited {
			edited = "true"
		}
		o.raw("edited", []byte(edited))
	}
	o.str("actor", e.actor)
	o.str("resolved_at", resolvedAt)
	if e.comment != "" {
		o.str("comment", e.comment)
	}
	if e.checklist != nil {
		if b, err := json.Marshal(e.checklist); err == nil {
			o.raw("checklist", b)
		}
	}
	return o.bytes()
}

func (r *Resolved) body() []byte {
	var o, agent object
	agent.str("id", r.AgentID)
	agent.str("run_id", r.RunID)
	o.str("ma2h_version", r.Version)
	o.str("in_reply_to", r.MessageID)
	o.str("resolution_id", r.ResolutionID)
	o.raw("agent", agent.bytes())
	o.str("resolution", string(r.Resolution))
	if r.Detail != nil {
		o.raw("response", r.Detail)
	}
	if r.Defaulted {
		o.raw("defaulted", []byte("true"))
	}
	if r.State != nil {
		o.raw("state", r.State)
	}
	return o.bytes()
}

// expire ends an overdue message, with its default if it has one (§7). It is a
// due function: the lock is held, and whoever ended or deleted the message
// before has stopped it.
func (h *Hub) expire(m *message, now time.Time) {
	e := ending{resolution: types.Expired, actor: ActorExpired}
	if r := m.msg.Request; r != nil && !r.DefaultOnExpire.IsNull() {
		e.actor, e.value, e.defaulted = types.ActorDefaultOnExpire, json.RawMessage(r.DefaultOnExpire), true
	}
	h.resolve(m, now, e)
}
