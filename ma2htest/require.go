package ma2htest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/types"
)

// RequireMessages fails the test unless the Hub accepted exactly n messages.
func (h *Hub) RequireMessages(t testing.TB, n int) {
	t.Helper()
	if got := len(h.Messages()); got != n {
		t.Fatalf("the Hub has %d messages, want %d\n%s", got, n, h.report())
	}
}

// RequireStatus fails the test unless the message has the status.
func (h *Hub) RequireStatus(t testing.TB, id string, want types.Status) {
	t.Helper()
	m, ok := h.Message(id)
	if !ok {
		t.Fatalf("the Hub has no message %s, want one that is %s\n%s", types.Quote(id), want, h.report())
	}
	if m.Status != want {
		t.Fatalf("message %s is %s, want %s\n%s", id, m.Status, want, h.report())
	}
}

// RequireDelivery fails the test unless the receipt track of the message or
// directive is in the state; empty means that it has none (§14.2).
func (h *Hub) RequireDelivery(t testing.TB, id string, want types.DeliveryState) {
	t.Helper()
	var got types.DeliveryState
	if m, ok := h.Message(id); ok && m.Delivery != nil {
		got = m.Delivery.State
	} else if d, ok := h.Directive(id); ok {
		got = d.Delivery.State
	}
	if got != want {
		t.Fatalf("the delivery of %s is %q, want %q\n%s", types.Quote(id), got, want, h.report())
	}
}

// RequirePushes fails the test unless the Hub made exactly n attempts to push
// the Response of the message.
func (h *Hub) RequirePushes(t testing.TB, id string, n int) {
	t.Helper()
	if got := len(h.Pushes(id)); got != n {
		t.Fatalf("the Hub made %d attempts to push %s, want %d\n%s", got, types.Quote(id), n, h.report())
	}
}

// RequireRequests fails the test unless the Hub saw exactly n requests to the
// endpoint; the empty string counts all. Requests that were cut count too.
func (h *Hub) RequireRequests(t testing.TB, endpoint string, n int) {
	t.Helper()
	h.lock()
	got, dropped := h.requestLog.count(endpoint), h.requestLog.dropped
	h.unlock()
	if dropped > 0 {
		t.Fatalf("cannot count requests: %d were dropped; raise Options.KeepRequests", dropped)
	}
	if got != n {
		t.Fatalf("the Hub saw %d requests to %s, want %d\n%s", got, nameOr(endpoint, "any endpoint"), n, h.report())
	}
}

// reportLines is how much of each list a failure prints.
const reportLines = 40

// report says what the Hub saw, without content and credentials.
func (h *Hub) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Hub clock %s\n", stamp(h.Now()))
	b.WriteString("messages:\n")
	messages := h.Messages()
	for _, m := range messages[max(0, len(messages)-reportLines):] {
		fmt.Fprintf(&b, "  %s %s from %s is %s", m.ID, m.Type, types.Quote(m.AgentID), m.Status)
		if m.Resolved != nil {
			fmt.Fprintf(&b, " by %s", types.Quote(m.Resolved.Actor))
		}
		b.WriteByte('\n')
	}
	b.WriteString("directives:\n")
	directives := h.directives(func(*directive) bool { return true })
	for _, d := range directives[max(0, len(directives)-reportLines):] {
		fmt.Fprintf(&b, "  %s to %s is %s after %d deliveries", d.ID, types.Quote(d.AgentID), d.Delivery.State, len(d.Deliveries))
		if !d.DroppedAt.IsZero() {
			b.WriteString(", dropped")
		}
		b.WriteByte('\n')
		for _, p := range h.DirectivePushes(d.ID) {
			b.WriteString("    " + p.line() + "\n")
		}
	}
	b.WriteString("pushes:\n")
	for _, m := range messages[max(0, len(messages)-reportLines):] {
		for _, p := range h.Pushes(m.ID) {
			b.WriteString("  " + m.ID + " " + p.line() + "\n")
		}
	}
	b.WriteString("requests:\n")
	requests := h.Requests()
	for _, r := range requests[max(0, len(requests)-reportLines):] {
		b.WriteString("  " + r.line() + "\n")
	}
	return b.String()
}
