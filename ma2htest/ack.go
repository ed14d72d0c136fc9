package ma2htest

import (
	"bytes"
	"net/http"

	"github.com/ma2h/ma2h-go/types"
)

// acknowledge takes the receipt of a Response. The first one stands, and the
// Hub says who acked which resolution, not the request (§14.1, §14.3).
func (h *Hub) acknowledge(c *call) reply {
	if h.minor < 4 || !h.caps.OffersAck() {
		return notFound().reply()
	}
	var req types.AckRequest
	if len(bytes.TrimSpace(c.body)) > 0 {
		if e := c.isJSON(); e != nil {
			return e.reply()
		}
		if err := types.Decode(c.body, &req); err != nil {
			return malformed("%v", err).reply()
		}
	}
	now := h.lock()
	defer h.unlock()
	m, e := h.own(c, now)
	if e != nil {
		return e.reply()
	}
	if m.resolved == nil {
		return refuse(http.StatusConflict, types.CodeNotAcknowledgeable, "there is no resolution to acknowledge (§14.3)").reply()
	}
	if m.delivery == nil || m.delivery.Ack == nil {
		ack := &types.Ack{
			Version: h.opts.Version, Type: types.TypeAck, InReplyTo: m.id, By: "agent:" + m.agent,
			AckedAt: stamp(now), Note: req.Note, ResolutionID: m.resolved.ResolutionID,
		}
		d := types.Delivery{State: types.Acknowledged, AcknowledgedAt: ack.AckedAt, Ack: ack}
		if m.delivery != nil {
			d.DeliveredAt = m.delivery.DeliveredAt
		}
		m.delivery = &d
	}
	return jsonReply(http.StatusOK, m.delivery.Ack)
}
