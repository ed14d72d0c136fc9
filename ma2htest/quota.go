package ma2htest

import (
	"net/http"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

func overQuota(seconds int, format string, args ...any) *Error {
	e := refuse(http.StatusTooManyRequests, types.CodeRateLimited, format, args...)
	e.retryAfter = seconds
	return e
}

// takeRate counts one submit of the agent against requests_per_minute (§8.6).
func (h *Hub) takeRate(agent string) *Error {
	limit := h.caps.RateLimit
	if limit == nil || limit.RequestsPerMinute <= 0 {
		return nil
	}
	now := h.clock.now()
	recent := h.rates[agent]
	for len(recent) > 0 && !recent[0].Add(time.Minute).After(now) {
		recent = recent[1:]
	}
	if int64(len(recent)) >= limit.RequestsPerMinute {
		h.rates[agent] = recent
		left := recent[0].Add(time.Minute).Sub(now)
		return overQuota(int((left+time.Second-1)/time.Second), "over %d requests a minute (§8.6)", limit.RequestsPerMinute)
	}
	h.rates[agent] = append(recent, now)
	return nil
}

// depthRetry is what a full inbox tells an agent to wait, in seconds; when the
// human will make room, nobody knows.
const depthRetry = 30

// checkDepth bounds the open asks and tasks of one agent (§8.6).
func (h *Hub) checkDepth(m *message) *Error {
	limit := h.caps.RateLimit
	if limit == nil || limit.InboxDepth <= 0 || m.msg.Type == types.VerbNotify {
		return nil
	}
	var open int64
	for _, other := range h.messages {
		if other.agent == m.agent && other.status == types.StatusOpen && !other.forgotten {
			open++
		}
	}
	if open >= limit.InboxDepth {
		return overQuota(depthRetry, "%d messages are open, the depth of the inbox (§8.6)", open)
	}
	return nil
}

// checkLimits holds the envelope to the advertised sizes (§8.6).
func (h *Hub) checkLimits(m *message) *Error {
	if limit := h.caps.MaxBodyBytes; limit > 0 && int64(len(m.msg.Body)) > limit {
		return invalidField("body is %d bytes, over %d (§8.6)", len(m.msg.Body), limit)
	}
	if limit := h.caps.MaxContextParts; limit != nil && int64(len(m.msg.Context)) > *limit {
		return invalidField("context has %d parts, over %d (§8.6)", len(m.msg.Context), *limit)
	}
	limit := h.caps.MaxPartBytes
	if limit <= 0 {
		return nil
	}
	for i, size := range partSizes(m) {
		if size > limit {
			return invalidField("context[%d] is %d bytes, over %d (§8.6)", i, size, limit)
		}
	}
	return nil
}
