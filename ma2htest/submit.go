package ma2htest

import (
	"crypto/sha256"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/ma2h/ma2h-go/types"
)

// dedupKey is the scope of idempotency: run-independent (§8.1).
type dedupKey struct{ agent, key string }

type dedupEntry struct {
	id      string
	payload [sha256.Size]byte // of the canonical form of the whole envelope
	until   time.Time
}

func (h *Hub) submit(c *call) reply {
	h.lock()
	over := h.takeRate(c.who.agent)
	h.unlock()
	if over != nil {
		return over.reply()
	}
	m, payload, refused := h.readEnvelope(c)
	if refused != nil {
		return refused.reply()
	}
	now := h.lock()
	defer h.unlock()
	key := dedupKey{m.agent, m.msg.IdempotencyKey}
	if key.key != "" {
		if known, ok := h.keys[key]; ok && !now.After(known.until) {
			return h.replay(c, known, payload, now)
		}
	}
	if e := h.checkFresh(m, now); e != nil {
		return e.reply()
	}
	if e := h.checkDepth(m); e != nil {
		return e.reply()
	}
	h.accept(m, now)
	if key.key != "" {
		h.keys[key] = dedupEntry{id: m.id, payload: payload, until: now.Add(h.opts.KeyTTL)}
	}
	return h.ackReply(c, m)
}

// replay answers a key that is known: the original id and the status of now, or
// a conflict (§8.1).
func (h *Hub) replay(c *call, known dedupEntry, payload [sha256.Size]byte, now time.Time) reply {
	if known.payload != payload {
		return refuse(http.StatusConflict, types.CodeIdempotencyConflict, "idempotency_key was used with another payload").reply()
	}
	m := h.messages[known.id]
	if !h.retained(m, now) {
		return gone().reply()
	}
	return h.ackReply(c, m)
}

func (h *Hub) ackReply(c *call, m *message) reply {
	return jsonReply(http.StatusAccepted, types.SubmitAck{
		ID: m.id, Status: m.status,
		PollURL:   c.origin + "/v1/messages/" + url.PathEscape(m.id),
		ReviewURL: c.origin + "/inbox/" + url.PathEscape(m.id),
	})
}

// accept stores m; for a notify that is all there is (§5.1).
func (h *Hub) accept(m *message, now time.Time) {
	m.id = h.ids.next("msg_")
	m.accepted, m.changed = now, now
	m.ready = make(chan struct{})
	m.status = types.StatusOpen
	if m.msg.Type == types.VerbNotify {
		m.status = types.StatusDelivered
	} else if at, err := time.Parse(time.RFC3339Nano, m.msg.ExpiresAt); err == nil {
		// Strictly after: an answer at exactly expires_at is in time (§7).
		m.expiry = h.clock.after(at.Add(time.Nanosecond), func(now time.Time) { h.expire(m, now) })
	}
	h.messages[m.id] = m
	h.order = append(h.order, m.id)
	h.wakeWatchers()
}

// readEnvelope turns a request into a message that is right in itself. What
// depends on the clock or on other messages is checked later, so that a replay
// is not refused for having become old.
func (h *Hub) readEnvelope(c *call) (m *message, payload [sha256.Size]byte, e *Error) {
	if e := c.isJSON(); e != nil {
		return nil, payload, e
	}
	if c.tooLarge {
		return nil, payload, invalidField("the envelope is over %d bytes (§8.6)", maxRequestBody)
	}
	if e := checkMajor(c.body); e != nil {
		return nil, payload, e
	}
	m = &message{raw: c.body}
	if err := types.Decode(c.body, &m.msg); err != nil {
		return nil, payload, malformed("%v", err)
	}
	if e := h.checkPush(&m.msg); e != nil {
		return nil, payload, e
	}
	if err := validateEnvelope(h.opts.Version, c.body, &m.msg); err != nil {
		return nil, payload, malformed("%v", err)
	}
	if cb := m.msg.Callback(); cb != nil && cb.Mode == types.CallbackPush {
		if err := h.checkDestination(cb.URL); err != nil {
			return nil, payload, invalidField("%v", err)
		}
	}
	if m.agent = m.msg.Agent.ID; m.agent != c.who.agent {
		return nil, payload, refuse(http.StatusForbidden, types.CodeAgentIDMismatch, "agent.id is not the credential's (§9.1)")
	}
	members, err := split(c.body)
	if err != nil {
		return nil, payload, malformed("not a JSON object")
	}
	m.members = members
	if e := h.checkLimits(m); e != nil {
		return nil, payload, e
	}
	if m.check, e = checkQuestion(m.msg.Request); e != nil {
		return nil, payload, e
	}
	canonical, err := jcs.Transform(c.body)
	if err != nil {
		return nil, payload, malformed("the envelope has no canonical form")
	}
	return m, sha256.Sum256(canonical), nil
}

func (c *call) isJSON() *Error {
	if mt, _, err := mime.ParseMediaType(c.header.Get("Content-Type")); err != nil || mt != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, types.CodeValidation, "Content-Type is not application/json (§8)")
	}
	return nil
}

// checkMajor refuses a spelling that is not canonical, and an unknown major
// before anything else of the envelope is read: it may have any shape (§10).
func checkMajor(body []byte) *Error {
	var head struct {
		Version string `json:"ma2h_version"`
	}
	if err := types.Decode(body, &head); err != nil {
		return malformed("%v", err)
	}
	_, err := types.ParseVersion(head.Version)
	switch {
	case errors.Is(err, types.ErrVersion):
		return refuse(http.StatusBadRequest, types.CodeVersionNotSupported, "%v", err)
	case err != nil:
		return malformed("%v", err)
	}
	return nil
}

// checkPush refuses, from 0.3 on, a push that the agent could not verify (§10).
func (h *Hub) checkPush(m *types.Message) *Error {
	v, err := types.ParseVersion(m.Version)
	if err != nil {
		return malformed("%v", err)
	}
	if cb := m.Callback(); cb != nil && cb.Mode == types.CallbackPush && h.minor >= 3 && !v.BindsPayload() {
		return refuse(http.StatusBadRequest, types.CodeVersionNotSupported, "a push callback needs 0.3 or later (§10)")
	}
	return nil
}

// checkFresh wants expires_at in the future of the Hub's clock (§4).
func (h *Hub) checkFresh(m *message, now time.Time) *Error {
	if m.msg.ExpiresAt == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, m.msg.ExpiresAt)
	if err != nil || !at.After(now) {
		return invalidField("expires_at is not in the future (§4)")
	}
	return nil
}
