package hubtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

const (
	discovery = "/.well-known/ma2h"
	messages  = "/v1/messages"

	maxAnswer = 16 << 20
)

// reply is one request and what came of it.
type reply struct {
	p      *probe
	sent   string // method, path and body
	status int
	header http.Header
	body   []byte
	json   object // nil if the body is no JSON object
	fault  error  // why not
}

// try makes one request. The body is nil, bytes as they are, or anything that
// encodes as JSON.
func (s *suite) try(ctx context.Context, who Credential, method, path string, body any) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, s.t.Patience)
	defer cancel()
	return s.hold(ctx, who, method, path, body)
}

// hold is try without a bound of its own.
func (s *suite) hold(ctx context.Context, who Credential, method, path string, body any) (reply, error) {
	rep := reply{sent: method + " " + path}
	var content io.Reader
	if body != nil {
		text, raw := body.([]byte)
		if !raw {
			var err error
			if text, err = encode(body); err != nil {
				return rep, err
			}
		}
		content = bytes.NewReader(text)
		rep.sent += " " + shorten(string(text), 600)
	}
	full, ours := s.url(path)
	if !ours {
		return rep, fmt.Errorf("the URL is not of the Hub's origin")
	}
	req, err := http.NewRequestWithContext(ctx, method, full, content)
	if err != nil {
		return rep, err
	}
	if !who.isZero() {
		req.Header.Set(who.header, who.value)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.t.HTTPClient.Do(req)
	if err != nil {
		return rep, err
	}
	defer resp.Body.Close()
	if rep.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return rep, err
	}
	rep.status, rep.header = resp.StatusCode, resp.Header
	rep.json, rep.fault = readObject(rep.body)
	return rep, nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// send makes one request that must be answered.
func (p *probe) send(who Credential, method, path string, body any) reply {
	p.r.Helper()
	rep, err := p.try(p.r.Context(), who, method, path, body)
	rep.p = p
	if err != nil {
		p.fatal("no answer: %v\n\tsent: %s", err, rep.sent)
	}
	return rep
}

// as is send for one of the agents.
func (p *probe) as(a Agent, method, path string, body any) reply {
	p.r.Helper()
	return p.send(a.Credential, method, path, body)
}

func (p *probe) post(path string, body any) reply {
	p.r.Helper()
	return p.as(p.t.Agent, "POST", path, body)
}

func (p *probe) get(path string) reply {
	p.r.Helper()
	return p.as(p.t.Agent, "GET", path, nil)
}

// one is the path of a message, with what comes after it.
func one(id, after string) string { return messages + "/" + url.PathEscape(id) + after }

func (p *probe) pull(id string) reply {
	p.r.Helper()
	return p.get(one(id, ""))
}

func (p *probe) cancel(id string) reply {
	p.r.Helper()
	return p.post(one(id, "/cancel"), nil)
}

func (r reply) came() string {
	body := shorten(strings.ToValidUTF8(string(r.body), "?"), 600)
	switch {
	case r.status == 0:
		return body // a push
	case body == "":
		return fmt.Sprintf("%d without a body", r.status)
	}
	return fmt.Sprintf("%d %s", r.status, body)
}

func (r reply) text(want string, args []any) string {
	return fmt.Sprintf("\tsent: %s\n\tcame: %s\n\twant: %s", r.sent, r.came(), fmt.Sprintf(want, args...))
}

// wrong fails the row; it goes on.
func (r reply) wrong(want string, args ...any) {
	r.p.r.Helper()
	r.p.fail("%s", r.text(want, args))
}

// fatal fails the row and ends it.
func (r reply) fatal(want string, args ...any) {
	r.p.r.Helper()
	r.p.fatal("%s", r.text(want, args))
}

// object is the body of an answer with this status; anything else ends the row.
func (r reply) object(status int) object {
	r.p.r.Helper()
	if r.status != status || r.json == nil {
		r.fatal("%d with a JSON object%s", status, r.why())
	}
	return r.json
}

func (r reply) why() string {
	if r.fault != nil && len(r.body) > 0 {
		return "; the body is none: " + r.fault.Error()
	}
	return ""
}

// accepted is the id in the acknowledgment of a submit (§8.1).
func (r reply) accepted() string {
	r.p.r.Helper()
	ack := r.object(http.StatusAccepted)
	id := ack.str("id")
	if id == "" {
		r.fatal("202 with an id (§8.1)")
	}
	r.p.opened = append(r.p.opened, id)
	return id
}

// refused holds an answer to one error of §8.5; where the text leaves a choice,
// more codes are named.
func (r reply) refused(status int, codes ...string) {
	r.p.r.Helper()
	r.refusedBy(refusal{status, codes})
}

// invalid is the answer to an envelope that breaks the shape: the table of §8.5
// has a row for a malformed envelope and one for an invalid field.
func (r reply) invalid() {
	r.p.r.Helper()
	r.refusedBy(refusal{400, []string{"validation_error"}}, refusal{422, []string{"invalid_field"}})
}

type refusal struct {
	status int
	codes  []string
}

func (r reply) refusedBy(any ...refusal) {
	r.p.r.Helper()
	var want []string
	for _, f := range any {
		for _, code := range f.codes {
			if r.status == f.status && r.code() == code {
				return
			}
			want = append(want, fmt.Sprintf("%d %s", f.status, code))
		}
	}
	if r.status == http.StatusAccepted {
		r.accepted() // so that it is tidied up
	}
	r.wrong("%s in an error envelope (§8.5)%s", strings.Join(want, " or "), r.why())
}

// code is that of the error envelope, or "".
func (r reply) code() string { return r.json.str("error", "code") }

// mediaType is that of the answer.
func (r reply) mediaType() string {
	mt, _, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil {
		return "none"
	}
	return mt
}

// message is the body of a pull of id (§8.2).
func (r reply) message(id string) object {
	r.p.r.Helper()
	m := r.object(http.StatusOK)
	if m.str("id") != id {
		r.fatal("the message with its id %s (§8.2)", id)
	}
	return m
}

// is holds a pull of id to a status.
func (r reply) is(id, status string) object {
	r.p.r.Helper()
	m := r.message(id)
	if m.str("status") != status {
		r.fatal("status %s", status)
	}
	return m
}
