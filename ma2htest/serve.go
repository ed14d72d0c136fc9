package ma2htest

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Endpoints of the Hub, as Fault.On and RequireRequests name them.
const (
	Discover = "GET /.well-known/ma2h"
	Submit   = "POST /v1/messages"
	Pull     = "GET /v1/messages/{id}"
	Cancel   = "POST /v1/messages/{id}/cancel"
	Ack      = "POST /v1/messages/{id}/ack"
	Presence = "GET /v1/agents/{id}/presence"
	Drain    = "GET /v1/inbox"
	InboxAck = "POST /v1/inbox/ack"
)

// maxRequestBody bounds what is read of a request; it is the largest envelope.
const maxRequestBody = 4 << 20

// call is one request on its way through the Hub.
type call struct {
	ctx      context.Context
	endpoint string
	param    string // the {id} of the endpoint
	header   http.Header
	query    url.Values
	body     []byte
	tooLarge bool
	origin   string // scheme, host and prefix that the caller used
	who      principal
	refused  *Error // set if there is no valid credential
	noHold   bool   // a fault ends the hold at once
	shape    *Fault // what RandomFaults drew for the entries of this drain
	row      *Request
}

// reply is an answer before it is written.
type reply struct {
	status  int
	header  map[string]string
	body    []byte
	written int  // how much of body is written, if torn
	torn    bool // the announced length is that of body, the written is not
	cut     bool // no answer at all: the connection ends
}

func (r reply) with(name, value string) reply {
	h := map[string]string{name: value}
	for k, v := range r.header {
		h[k] = v
	}
	r.header = h
	return r
}

// route is one row of the Hub's endpoints.
type route struct {
	endpoint string
	public   bool // needs no credential
	handle   func(*Hub, *call) reply
}

func coreRoutes() []route {
	return []route{
		{Discover, true, (*Hub).discover},
		{Submit, false, (*Hub).submit},
		{Pull, false, (*Hub).pull},
		{Cancel, false, (*Hub).cancel},
		{Ack, false, (*Hub).acknowledge},
		{Presence, false, (*Hub).presence},
		{Drain, false, (*Hub).drain},
		{InboxAck, false, (*Hub).ackInbox},
	}
}

// match returns the value of {id} if path has the shape of pattern. An encoded
// slash is part of its segment.
func match(pattern, path string) (param string, ok bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return "", false
	}
	for i, w := range want {
		g, err := url.PathUnescape(got[i])
		switch {
		case err != nil:
			return "", false
		case w == "{id}" && g != "":
			param = g
		case w != g:
			return "", false
		}
	}
	return param, true
}

func (h *Hub) find(method, escapedPath string) (rt route, param string, allow []string) {
	path, ok := strings.CutPrefix(escapedPath, h.opts.PathPrefix)
	if !ok {
		return route{}, "", nil
	}
	for _, rt := range h.routes {
		m, pattern, _ := strings.Cut(rt.endpoint, " ")
		p, ok := match(pattern, path)
		if ok && m == method {
			return rt, p, nil
		}
		if ok {
			allow = append(allow, m)
		}
	}
	return route{}, "", allow
}

// ServeHTTP is the Hub as a handler, for a server of the caller's own. A cut
// connection is http.ErrAbortHandler, which net/http turns into one.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt, param, allow := h.find(r.Method, r.URL.EscapedPath())
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBody+1))
	if err != nil {
		panic(http.ErrAbortHandler) // the request never came
	}
	scheme := "https://"
	if r.TLS == nil {
		scheme = "http://"
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &call{
		ctx: ctx, endpoint: rt.endpoint, param: param,
		header: r.Header, query: r.URL.Query(), body: body,
		tooLarge: len(body) > maxRequestBody,
		origin:   scheme + r.Host + h.opts.PathPrefix,
	}
	var fault *Fault
	c.row, fault = h.arrive(r, c, cancel)
	rep := h.answer(rt, c, allow, fault)
	h.depart(c, rep)
	rep.write(w)
}

func (h *Hub) answer(rt route, c *call, allow []string, fault *Fault) reply {
	handle := func() reply {
		switch {
		case rt.handle == nil && allow != nil:
			e := refuse(http.StatusMethodNotAllowed, "method_not_allowed", "this path takes %s", strings.Join(allow, ", "))
			return e.reply().with("Allow", strings.Join(allow, ", "))
		case rt.handle == nil:
			return notFound().reply()
		}
		if !rt.public && c.refused != nil {
			return c.refused.reply().with("WWW-Authenticate", "Bearer")
		}
		return rt.handle(h, c)
	}
	if fault == nil {
		return handle()
	}
	return h.serveFault(fault, c, handle)
}

func (r reply) write(w http.ResponseWriter) {
	if r.cut {
		panic(http.ErrAbortHandler)
	}
	for k, v := range r.header {
		w.Header().Set(k, v)
	}
	bodyless := r.status == http.StatusNoContent || r.status == http.StatusNotModified
	if !bodyless {
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(r.status)
	if bodyless {
		return
	}
	body := r.body
	if r.torn {
		body = body[:r.written]
	}
	_, _ = w.Write(body) // the caller has gone; there is nobody to tell
}
