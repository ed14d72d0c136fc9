package hubtest

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// probe is one row that runs.
type probe struct {
	*suite
	r   reporter
	row row

	opened   []string // messages
	directed []string // directives
	last     []func() // run when the row ends, in reverse
}

func (p *probe) text(format string, args []any) string {
	return p.redact.Replace(fmt.Sprintf("%s, row %s: %s\n%s", p.row.section, p.row.id, p.row.says, fmt.Sprintf(format, args...)))
}

func (p *probe) fail(format string, args ...any) {
	p.r.Helper()
	p.r.Errorf("%s", p.text(format, args))
}

func (p *probe) fatal(format string, args ...any) {
	p.r.Helper()
	p.r.Fatalf("%s", p.text(format, args))
}

func (p *probe) skip(format string, args ...any) {
	p.r.Helper()
	p.r.Skipf("%s", p.redact.Replace(fmt.Sprintf("[%s] ", p.row.id)+fmt.Sprintf(format, args...)))
}

func (p *probe) atEnd(f func()) { p.last = append(p.last, f) }

// tidy takes back what the row has left at the Hub, as far as that goes.
func (p *probe) tidy() {
	for i := len(p.last) - 1; i >= 0; i-- {
		p.last[i]()
	}
	ctx := context.WithoutCancel(p.r.Context())
	for _, id := range p.opened {
		rep, err := p.try(ctx, p.t.Agent.Credential, "POST", one(id, "/cancel"), nil)
		if err == nil && rep.status/100 != 2 && p.t.Human.Resolve != nil {
			_ = p.t.Human.Resolve(ctx, Resolution{MessageID: id, Outcome: "dismissed", By: p.t.Human.ID})
		}
	}
	if len(p.directed) > 0 {
		_, _ = p.try(ctx, p.t.Agent.Credential, "POST", p.ackURL(), object{"ids": p.directed})
	}
}

// envelope is a message of the agent (§4). What more says replaces a member, and
// nil takes it away.
func (p *probe) envelope(kind string, more ...object) object {
	e := object{
		"ma2h_version": p.version(), "type": kind, "created_at": timestamp(p.now()),
		"title": "hubtest " + p.row.id,
		"agent": object{"id": p.t.Agent.ID, "run_id": "run_" + p.prefix, "runtime": "other"},
	}
	if kind != "notify" {
		e["idempotency_key"] = p.key()
	}
	return e.with(more...)
}

// with is a copy of o in which more replaces members; nil takes one away.
func (o object) with(more ...object) object {
	out := object{}
	for _, layer := range append([]object{o}, more...) {
		for k, v := range layer {
			if v == nil {
				delete(out, k)
			} else {
				out[k] = v
			}
		}
	}
	return out
}

func (p *probe) notify(more ...object) object { return p.envelope("notify", more...) }

// ask is a choice between ship and hold.
func (p *probe) ask(more ...object) object {
	return p.envelope("ask", append([]object{{"request": p.choice()}}, more...)...)
}

func (p *probe) choice(more ...object) object {
	return object{
		"mode": "select", "options": options("ship", "hold"), "allowed_resolvers": []any{p.t.Human.ID},
	}.with(more...)
}

func options(values ...string) []any {
	var list []any
	for _, v := range values {
		list = append(list, object{"value": v, "label": "To " + v})
	}
	return list
}

// input asks for an object with a reason of text and a count.
func (p *probe) input(more ...object) object {
	return object{
		"mode": "input", "allowed_resolvers": []any{p.t.Human.ID},
		"schema": object{
			"type": "object", "required": []any{"reason"},
			"properties": object{"reason": object{"type": "string"}, "count": object{"type": "number"}},
		},
	}.with(more...)
}

func (p *probe) task(more ...object) object {
	return p.envelope("task", append([]object{{"action": object{
		"instructions": "Nothing needs to be done.", "allowed_resolvers": []any{p.t.Human.ID},
	}}}, more...)...)
}

func (p *probe) submit(envelope object) reply {
	p.r.Helper()
	return p.post(messages, envelope)
}

// open submits an envelope that must be taken, and returns its id.
func (p *probe) open(envelope object) string {
	p.r.Helper()
	return p.submit(envelope).accepted()
}

// resolve has the human end a message; a refusal ends the row.
func (p *probe) resolve(r Resolution) {
	p.r.Helper()
	if err := p.tryResolve(r); err != nil {
		p.fatal("Target.Human.Resolve refused outcome %s of %s: %v", r.Outcome, r.MessageID, err)
	}
}

func (p *probe) tryResolve(r Resolution) error {
	if r.By == "" {
		r.By = p.t.Human.ID
	}
	return p.t.Human.Resolve(p.r.Context(), r)
}

func (p *probe) answer(id string, value any) {
	p.r.Helper()
	p.resolve(Resolution{MessageID: id, Outcome: "answered", Value: value})
}

// refusesTo has the human try what the Hub must not let happen. The message must
// still be open.
func (p *probe) refusesTo(r Resolution, why string) {
	p.r.Helper()
	err := p.tryResolve(r)
	rep := p.pull(r.MessageID)
	if got := rep.message(r.MessageID).str("status"); got != "open" {
		rep.wrong("status open: %s", why)
	} else if err == nil {
		p.fail("Target.Human.Resolve returned no error for outcome %s of %s, and the message is open: %s", r.Outcome, r.MessageID, why)
	}
}

// timestamp is a time on the wire.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// soon is a whole second at least d after now.
func (p *probe) soon(d time.Duration) time.Time {
	return p.now().Add(d + time.Second).Truncate(time.Second)
}

// until moves the clock to a time.
func (p *probe) until(t time.Time) {
	if d := t.Sub(p.now()); d > 0 {
		p.t.Clock.Advance(d)
	}
}

// pass moves the clock in growing steps until done, by limit at most.
func (p *probe) pass(limit time.Duration, done func() bool) bool {
	for gone := time.Duration(0); gone < limit && !done(); {
		step := max(time.Second, gone/8)
		p.t.Clock.Advance(step)
		gone += step
	}
	return done()
}

func never() bool { return false }

// answerTo is what a request in the background came to.
type answerTo struct {
	reply
	err error
}

// poll begins a long-poll in the background. It ends with the row.
func (p *probe) poll(path string) <-chan answerTo {
	ctx, cancel := context.WithCancel(p.r.Context())
	out, ended := make(chan answerTo, 1), make(chan struct{})
	go func() {
		defer close(ended)
		rep, err := p.hold(ctx, p.t.Agent.Credential, "GET", path, nil)
		rep.p = p
		out <- answerTo{rep, err}
	}()
	p.atEnd(func() {
		cancel()
		<-ended
	})
	return out
}

// await is the answer to a poll that must come now.
func (p *probe) await(poll <-chan answerTo, when string) reply {
	p.r.Helper()
	late := time.NewTimer(p.t.Patience)
	defer late.Stop()
	select {
	case a := <-poll:
		if a.err != nil {
			p.fatal("no answer to %s: %v", a.sent, a.err)
		}
		return a.reply
	case <-late.C:
		p.fatal("a long-poll is still held %s, after %s of real time", when, p.t.Patience)
		return reply{}
	}
}

// held waits until the Hub holds the poll. If an answer came in its place, the
// row ends.
func (p *probe) held(poll <-chan answerTo, messageID, when string) {
	p.r.Helper()
	ctx, cancel := context.WithTimeout(p.r.Context(), p.t.Patience)
	defer cancel()
	got := make(chan error, 1)
	go func() { got <- p.t.Held(ctx, p.t.Agent.ID, messageID) }()
	select {
	case a := <-poll:
		cancel()
		<-got
		if a.err != nil {
			p.fatal("no answer to %s: %v", a.sent, a.err)
		}
		a.fatal("that the Hub holds the request %s", when)
	case err := <-got:
		if err != nil {
			p.fatal("the Hub does not hold a long-poll %s: %v", when, err)
		}
	}
}

// together runs f n times at once and returns when all have ended.
func together(n int, f func(i int)) {
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
}

// atOnce makes n requests at once, each of which must be answered.
func (p *probe) atOnce(n int, request func(i int) (path string, body any)) []reply {
	p.r.Helper()
	replies, errs := make([]reply, n), make([]error, n)
	together(n, func(i int) {
		path, body := request(i)
		replies[i], errs[i] = p.try(p.r.Context(), p.t.Agent.Credential, "POST", path, body)
		replies[i].p = p
	})
	for i, err := range errs {
		if err != nil {
			p.fatal("no answer: %v\n\tsent: %s", err, replies[i].sent)
		}
	}
	return replies
}
