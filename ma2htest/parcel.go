package ma2htest

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// parcel is one attempt on its way: what is sent, and what faults make of it.
type parcel struct {
	hub        *Hub
	o          *obligation
	now        time.Time
	credential credential
	via        http.RoundTripper

	// What a forging fault may change.
	body     []byte
	context  contextOf
	signing  signing
	unsigned bool                     // no signature header at all
	after    func(body []byte) []byte // what becomes of the body once it is signed
	resend   bool                     // the bytes of the last attempt
	copies   int                      // more pushes of the same, each signed anew
	repeats  int                      // more pushes of the same bytes

	// What a fault of the request side does.
	answer *int   // the receiver's answer, without asking it
	unsent error  // or this failure
	loses  *Fault // cutAfter or cutSuccess: the answer gets lost
	lost   bool   // it was
	hung   bool   // no answer until the time is over
	// restarted: the Hub did, and knows no outcome.
	restarted bool

	fresh, replays []delivery
}

// delivery is one request of a parcel.
type delivery struct {
	row    *Push
	status int
	err    error
}

// pack makes the next attempt of an obligation, signed now, or returns nil if
// there is to be none now. The lock is held.
func (h *Hub) pack(o *obligation, now time.Time) *parcel {
	if o.gone() {
		return nil
	}
	p := &parcel{hub: h, o: o, now: now, body: o.body, context: o.context(o.body)}
	names := o.fault
	o.fault = ""
	struck := h.faults.take(PushCallback)
	if struck != nil {
		if name := p.struckBy(struck); name != "" {
			names = joined(names, name)
		}
		if struck.kind == delayed {
			o.fault = names
			h.clock.after(now.Add(struck.delay), func(time.Time) { h.pushes.ready = append(h.pushes.ready, o) })
			return nil
		}
	}
	if f := h.forge(p); f != nil {
		names = joined(names, f.name)
	}
	o.attempts++
	p.credential, p.signing.keys = h.credentialFor(o)
	p.via = h.wayTo(o.url)
	if o.directive != nil && p.unsent == nil && p.answer == nil {
		o.directive.presented = true
	}
	for range 1 + p.copies {
		row, err := p.seal(names)
		if err != nil {
			p.unsent = err
		}
		p.fresh = append(p.fresh, delivery{row: row})
	}
	for range p.repeats {
		row := *p.fresh[0].row
		h.pushes.log[o.id()] = append(h.pushes.log[o.id()], &row)
		p.replays = append(p.replays, delivery{row: &row})
	}
	return p
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}

// seal signs the body and records the attempt.
func (p *parcel) seal(fault string) (*Push, error) {
	o := p.o
	row := &Push{
		Attempt: o.attempts, URL: o.url, At: p.now, Credential: p.credential.scheme, Body: p.body,
		Header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"ma2htest"}},
		Fault:  fault, kind: o.kind,
	}
	p.hub.pushes.log[o.id()] = append(p.hub.pushes.log[o.id()], row)
	if p.resend {
		row.Header, row.Body = o.last.Header.Clone(), o.last.Body
		return row, nil
	}
	value, err := p.hub.sign(p.now, p.context, p.signing)
	if err != nil {
		return row, fmt.Errorf("%w: %w", ErrPushUnsigned, err)
	}
	if !p.unsigned {
		row.Header.Set(signatureHeader, value)
	}
	if p.after != nil {
		row.Body = p.after(row.Body)
	}
	o.last = row
	return row, nil
}

// finish records what became of the attempt and settles the obligation. Only
// 5xx and failures of the network are tried again: 3xx and 4xx are the
// receiver's word, and a refused destination stays refused. The lock is held.
func (p *parcel) finish(now time.Time) {
	done, retry := false, true
	for i, d := range append(p.fresh, p.replays...) {
		d = p.outcome(d)
		d.row.Status, d.row.Err, d.row.Ended = d.status, d.err, now
		if i >= len(p.fresh) {
			continue // a replay is nobody's delivery
		}
		done = done || d.status/100 == 2
		if i == 0 {
			final := errors.Is(d.err, ErrPushRefused) || errors.Is(d.err, ErrPushUnsigned)
			retry = d.status >= 500 || d.status == 0 && !final
		}
	}
	if p.loses != nil && !p.lost {
		p.loses.rearm()
	}
	switch {
	case p.restarted:
		p.o.attempts--
		p.hub.pushes.ready = append(p.hub.pushes.ready, p.o)
	case done:
		if p.o.delivered != nil {
			p.o.delivered(now)
		}
	case retry:
		p.hub.again(p.o, now)
	}
}

// outcome is what the Hub gets to see of a delivery.
func (p *parcel) outcome(d delivery) delivery {
	switch {
	case p.unsent != nil:
		d.status, d.err = 0, p.unsent
	case p.answer != nil:
		d.status = *p.answer
	case p.loses != nil && d.err == nil && (p.loses.kind == cutAfter || d.status/100 == 2):
		d.status, d.err, p.lost = 0, ErrPushNetwork, true
	}
	return d
}
