package ma2htest

import (
	"net/http"

	"github.com/ma2h/ma2h-go/types"
)

func terminal(m *message) *Error {
	e := refuse(http.StatusConflict, types.CodeAlreadyTerminal, "the message has ended (§7)")
	e.Outcome = m.outcome()
	return e
}

// cancel withdraws an open ask of the caller. An overdue one has expired by
// the time the lock is held, so expiry wins (§7, §8.4).
func (h *Hub) cancel(c *call) reply {
	now := h.lock()
	defer h.unlock()
	m, e := h.own(c, now)
	switch {
	case e != nil:
		return e.reply()
	case m.msg.Type != types.VerbAsk:
		return malformed("a %s cannot be cancelled (§8.4)", m.msg.Type).reply()
	case m.status == types.StatusOpen:
		h.resolve(m, now, ending{resolution: types.Cancelled, actor: "agent:" + m.agent})
	case m.status != types.StatusCancelled:
		return terminal(m).reply()
	}
	return jsonReply(http.StatusOK, types.CancelResult{ID: m.id, Status: m.status})
}
