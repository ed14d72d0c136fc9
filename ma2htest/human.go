package ma2htest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ma2h/ma2h-go/types"
)

// DefaultResolver resolves when By is not given and no human is listed.
const DefaultResolver = "human:operator"

// ResolveOption shapes one act of a resolver.
type ResolveOption func(*act)

type act struct {
	by        string
	comment   string
	edited    bool
	checklist []types.ChecklistItem
}

// By says who resolves: <type>:<id> (§9.1). Without it, it is the first human
// in allowed_resolvers, or DefaultResolver, whom a message without the list
// refuses: absent, it admits the submitting agent alone.
func By(principal string) ResolveOption { return func(a *act) { a.by = principal } }

// Comment adds the resolver's comment.
func Comment(text string) ResolveOption { return func(a *act) { a.comment = text } }

// Edited marks the answer as a changed proposal.
func Edited() ResolveOption { return func(a *act) { a.edited = true } }

// Checklist reports the steps of a task as they ended.
func Checklist(items ...types.ChecklistItem) ResolveOption {
	return func(a *act) { a.checklist = slices.Clone(items) }
}

// Answer answers an ask. The value is a string for select and confirm, and for
// input anything that encodes as a JSON object; a json.RawMessage or types.Raw
// goes out as it is. The error is an *Error: ErrTerminal with the outcome that
// stands, ErrNotAuthorized, ErrInvalid, ErrNotFound or ErrGone.
func (h *Hub) Answer(id string, value any, opts ...ResolveOption) error {
	raw, err := rawValue(value)
	if err != nil {
		return fmt.Errorf("ma2htest: the answer to %s does not encode: %w", id, err)
	}
	if !json.Valid(raw) {
		return invalidField("the answer is not JSON")
	}
	return h.act(id, types.Answered, raw, opts)
}

// Decline refuses or ignores an ask (§5.2). Errors are those of Answer.
func (h *Hub) Decline(id string, opts ...ResolveOption) error {
	return h.act(id, types.Declined, nil, opts)
}

// Complete marks a task done. Errors are those of Answer.
func (h *Hub) Complete(id string, opts ...ResolveOption) error {
	return h.act(id, types.Completed, nil, opts)
}

// Dismiss refuses a task. Errors are those of Answer.
func (h *Hub) Dismiss(id string, opts ...ResolveOption) error {
	return h.act(id, types.Dismissed, nil, opts)
}

// Withdraw has the Hub cancel an ask, with the actor ActorHub (§7). Errors are
// those of Answer.
func (h *Hub) Withdraw(id string) error {
	now := h.lock()
	defer h.unlock()
	m, e := h.pending(id)
	switch {
	case e != nil:
		return e
	case m.msg.Type != types.VerbAsk:
		return invalidField("a %s cannot be cancelled (§7)", m.msg.Type)
	case m.status != types.StatusOpen:
		return terminal(m)
	}
	h.resolve(m, now, ending{resolution: types.Cancelled, actor: ActorHub})
	return nil
}

// Forget deletes a message: its submitter reads 410 from now on, and an open
// hold on it ends. It reports whether there was one.
func (h *Hub) Forget(id string) bool {
	h.lock()
	defer h.unlock()
	m, ok := h.messages[id]
	if !ok || m.forgotten {
		return false
	}
	m.forgotten = true
	h.clock.stop(m.expiry)
	h.wakeWatchers()
	if m.status == types.StatusOpen {
		close(m.ready)
	}
	return true
}

func (h *Hub) pending(id string) (*message, *Error) {
	m, ok := h.messages[id]
	switch {
	case !ok:
		return nil, notFound()
	case m.forgotten:
		return nil, gone()
	}
	return m, nil
}

// act is one compare-and-set of a resolver. Who may not resolve learns nothing
// of how the message ended.
func (h *Hub) act(id string, resolution types.Resolution, value json.RawMessage, opts []ResolveOption) error {
	var a act
	for _, opt := range opts {
		opt(&a)
	}
	now := h.lock()
	defer h.unlock()
	m, e := h.pending(id)
	if e != nil {
		return e
	}
	if m.msg.Type == types.VerbNotify {
		return invalidField("a notify takes no resolution (§5.1)")
	}
	if a.by == "" {
		a.by = m.defaultResolver()
	}
	if !m.admits(a.by) {
		return refuse(http.StatusForbidden, types.CodeNotAuthorized, "%s is not in allowed_resolvers of %s, which lists %s (§9.1)",
			types.Quote(a.by), id, strings.Join(m.resolvers(), ", "))
	}
	if m.status != types.StatusOpen {
		return terminal(m)
	}
	if e := m.fits(resolution, value, a); e != nil {
		return e
	}
	h.resolve(m, now, ending{
		resolution: resolution, actor: a.by, value: value,
		edited: a.edited, comment: a.comment, checklist: a.checklist,
	})
	return nil
}

// fits holds a resolution to the verb, the permissions and the options or
// schema of the message.
func (m *message) fits(resolution types.Resolution, value json.RawMessage, a act) *Error {
	if !resolution.Of(m.msg.Type) {
		return invalidField("a message of type %s does not end as %s (§6)", m.msg.Type, resolution)
	}
	if a.checklist != nil && m.msg.Type != types.VerbTask {
		return invalidField("a checklist goes with a task (§6)")
	}
	if a.edited && resolution != types.Answered {
		return invalidField("edited goes with an answer (§6)")
	}
	may := func(p func(*types.Permissions) *bool) bool {
		if m.msg.Request == nil || m.msg.Request.Permissions == nil {
			return true
		}
		b := p(m.msg.Request.Permissions)
		return b == nil || *b
	}
	switch resolution {
	case types.Answered:
		if !may(func(p *types.Permissions) *bool { return p.AllowRespond }) {
			return invalidField("permissions.allow_respond is false (§5.2)")
		}
		if err := m.check(value); err != nil {
			return invalidField("%v", err)
		}
	case types.Declined:
		if !may(func(p *types.Permissions) *bool { return p.AllowIgnore }) {
			return invalidField("permissions.allow_ignore is false (§5.2)")
		}
	}
	return nil
}

// resolvers are who may resolve; without a list only the submitting agent
// (§9.1).
func (m *message) resolvers() []string {
	var list []string
	switch {
	case m.msg.Request != nil:
		list = m.msg.Request.AllowedResolvers
	case m.msg.Action != nil:
		list = m.msg.Action.AllowedResolvers
	}
	if len(list) == 0 {
		return []string{"agent:" + m.agent}
	}
	return list
}

func (m *message) admits(principal string) bool {
	return slices.Contains(m.resolvers(), principal)
}

func (m *message) defaultResolver() string {
	for _, p := range m.resolvers() {
		if strings.HasPrefix(p, "human:") {
			return p
		}
	}
	return DefaultResolver
}

func rawValue(value any) (json.RawMessage, error) {
	switch v := value.(type) {
	case json.RawMessage:
		return slices.Clone(v), nil
	case types.Raw:
		return json.RawMessage(slices.Clone(v)), nil
	}
	return json.Marshal(value)
}
