package ma2htest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// requestLog keeps the latest requests. It has its own mutex: it is written
// while the Hub's is free.
type requestLog struct {
	mu      sync.Mutex
	keep    int
	rows    []*Request
	dropped int
}

// arrive records a request that has been read.
func (h *Hub) arrive(r *http.Request, c *call) *Request {
	row := &Request{
		Endpoint: c.endpoint, Method: r.Method, Host: r.Host, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		Header: r.Header.Clone(), Body: c.body,
	}
	for _, secret := range []string{"Authorization", "X-Api-Key", "Cookie", "Proxy-Authorization"} {
		row.Header.Del(secret)
	}
	row.At = h.lock()
	who, _ := h.authenticate(r.Header)
	h.unlock()
	row.Agent = who.agent
	l := &h.requestLog
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = append(l.rows, row)
	if n := len(l.rows) - max(l.keep, 0); n > 0 {
		l.dropped += n
		clear(l.rows[:n])
		l.rows = l.rows[n:]
	}
	return row
}

func (l *requestLog) finish(row *Request, r reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !r.cut {
		row.Status = r.status
	}
}

func (l *requestLog) fault(row *Request, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	row.Fault = name
}

// Requests returns the recorded requests in the order of their arrival, all of
// them unless there were more than Options.KeepRequests.
func (h *Hub) Requests() []Request {
	l := &h.requestLog
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Request, len(l.rows))
	for i, row := range l.rows {
		out[i] = *row
		out[i].Header = row.Header.Clone()
		out[i].Body = slices.Clone(row.Body)
	}
	return out
}

// ForgetRequests empties the record.
func (h *Hub) ForgetRequests() {
	l := &h.requestLog
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows, l.dropped = nil, 0
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
