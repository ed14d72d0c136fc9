package ma2htest

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Request is one request as the Hub saw it. Credentials are not in it.
type Request struct {
	Endpoint string // one of the endpoint constants; empty if none matched
	Method   string
	Host     string
	Path     string // escaped, as it came
	Query    string
	Header   http.Header // without Authorization, X-Api-Key and cookies
	Agent    string      // the agent of the credential; empty without a valid one
	Body     []byte
	Status   int    // the answered status; 0 while it waits or if it was cut
	Fault    string // name of the fault that struck
	At       time.Time
}

// requestLog keeps the latest requests. The Hub's mutex guards it.
type requestLog struct {
	keep    int
	rows    []*Request
	dropped int
}

// arrive is the moment at which a request that has been read takes hold: its
// caller is known, it is recorded, and it meets the fault that is next.
func (h *Hub) arrive(r *http.Request, c *call, cancel context.CancelFunc) (*Request, *Fault) {
	row := &Request{
		Endpoint: c.endpoint, Method: r.Method, Host: r.Host, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		Header: r.Header.Clone(), Body: c.body,
	}
	for _, secret := range []string{"Authorization", "X-Api-Key", "Cookie", "Proxy-Authorization"} {
		row.Header.Del(secret)
	}
	row.At = h.lock()
	defer h.unlock()
	h.calls[c] = cancel
	c.who, c.refused = h.authenticate(r.Header)
	row.Agent = c.who.agent
	fault := h.faults.take(c.endpoint)
	if fault != nil {
		row.Fault = fault.name
	}
	l := &h.requestLog
	l.rows = append(l.rows, row)
	if n := len(l.rows) - max(l.keep, 0); n > 0 {
		l.dropped += n
		clear(l.rows[:n])
		l.rows = l.rows[n:]
	}
	h.wakeWatchers()
	return row, fault
}

// depart records the answer, before it is written.
func (h *Hub) depart(c *call, r reply) {
	h.lock()
	defer h.unlock()
	delete(h.calls, c)
	if !r.cut {
		c.row.Status = r.status
	}
}

// Requests returns the recorded requests in the order of their arrival, all of
// them unless there were more than Options.KeepRequests.
func (h *Hub) Requests() []Request {
	h.lock()
	defer h.unlock()
	l := &h.requestLog
	out := make([]Request, len(l.rows))
	for i, row := range l.rows {
		out[i] = *row
		out[i].Header = row.Header.Clone()
		out[i].Body = slices.Clone(row.Body)
	}
	return out
}

// AwaitRequests waits until the Hub recorded n requests to the endpoint, the
// empty string counting all, whether they are answered or not. It fails when
// ctx ends or the Hub closes.
func (h *Hub) AwaitRequests(ctx context.Context, endpoint string, n int) error {
	return h.watch(ctx, func() bool { return h.requestLog.count(endpoint) >= n })
}

func (l *requestLog) count(endpoint string) (n int) {
	for _, r := range l.rows {
		if endpoint == "" || r.Endpoint == endpoint {
			n++
		}
	}
	return n
}

// ForgetRequests empties the record.
func (h *Hub) ForgetRequests() {
	h.lock()
	defer h.unlock()
	h.requestLog.rows, h.requestLog.dropped = nil, 0
}

// line describes a request without its content.
func (r Request) line() string {
	var b strings.Builder
	b.WriteString(r.At.Format("15:04:05.000") + " " + r.Method + " " + r.Path)
	if r.Query != "" {
		b.WriteString("?" + r.Query)
	}
	b.WriteString(" from " + nameOr(r.Agent, "nobody known") + ": ")
	if r.Status == 0 {
		b.WriteString("no answer")
	} else {
		b.WriteString(strconv.Itoa(r.Status) + " " + http.StatusText(r.Status))
	}
	if r.Fault != "" {
		b.WriteString(" (fault " + r.Fault + ")")
	}
	return b.String()
}

func nameOr(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
