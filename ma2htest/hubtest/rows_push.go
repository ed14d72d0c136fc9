package hubtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Pushing a Response (§8.3, §9.2).
var pushRows = []row{
	{id: "push.response", section: "§8.3", says: "a push is a POST of the Response that a pull has", needs: []need{needCallback, needResolve}, check: func(p *probe) {
		cb, rec := p.callback("", nil)
		e := p.ask(p.pushTo(cb, ""), object{"state": awkward()})
		id := p.open(e)
		p.resolve(Resolution{MessageID: id, Outcome: "answered", Value: "ship", Comment: "Go ahead."})
		a := p.arrived(rec, 1)[0]
		rep := p.pull(id)
		if a.method != "POST" || (reply{header: a.header}).mediaType() != "application/json" {
			p.fail("a %s of %s came to the callback: want a POST of application/json", a.method, (reply{header: a.header}).mediaType())
		}
		if !same(a.body, rep.is(id, "answered")["response"]) {
			rep.wrong("the Response that was pushed, which is %s", show(a.body))
		}
		a.reply(p).envelope(a.body, e, id, ending{resolution: "answered", value: "ship", actor: p.t.Human.ID, comment: "Go ahead."})
	}},
	{id: "push.signed", section: "§9.2", says: "a push is signed over its answer and its state", needs: []need{needCallback, needResolve}, check: func(p *probe) {
		cb, rec := p.callback("", nil)
		id := p.open(p.ask(object{"state": awkward(), "request": p.input(callbackOf(cb, ""))}))
		p.answer(id, map[string]any{"reason": "Late \u2028 hour </b>", "count": 0.1})
		p.signedPush(cb, p.arrived(rec, 1)[0])
	}},
	{id: "push.schemes", section: "§9.2", says: "a push is signed whatever the scheme of its callback", needs: []need{needCallback, needResolve}, check: func(p *probe) {
		schemes := []string{"hmac", "bearer", "apikey"}
		if list, ok := p.doc["callback_auth_schemes"].([]any); ok {
			schemes = nil
			for _, s := range list {
				if s == "hmac" || s == "bearer" || s == "apikey" {
					schemes = append(schemes, s.(string))
				}
			}
		}
		for _, scheme := range schemes {
			cb, rec := p.callback(scheme, nil)
			id := p.open(p.ask(p.pushTo(cb, scheme)))
			p.answer(id, "ship")
			p.signedPush(cb, p.arrived(rec, 1)[0])
		}
	}},
	{id: "push.task", section: "§5.3", says: "the result of a task is pushed, with its comment", needs: []need{needCallback, needResolve}, check: func(p *probe) {
		cb, rec := p.callback("", nil)
		e := p.task()
		e["action"] = e.obj("action").with(callbackOf(cb, ""))
		id := p.open(e)
		p.resolve(Resolution{MessageID: id, Outcome: "completed", Comment: "Done."})
		a := p.arrived(rec, 1)[0]
		a.reply(p).envelope(a.body, e, id, ending{resolution: "completed", actor: p.t.Human.ID, comment: "Done."})
		p.signedPush(cb, a)
	}},
	{id: "push.cancelled", section: "§8.4", says: "a cancel is pushed like an answer", needs: []need{needCallback}, check: func(p *probe) {
		cb, rec := p.callback("", nil)
		e := p.ask(p.pushTo(cb, ""))
		id := p.open(e)
		p.cancel(id).cancelled(id)
		a := p.arrived(rec, 1)[0]
		a.reply(p).envelope(a.body, e, id, ending{resolution: "cancelled"})
		p.signedPush(cb, a)
	}},
	{id: "push.expired", section: "§7", says: "an expiry is pushed like an answer", needs: []need{needCallback, needClock}, check: func(p *probe) {
		cb, rec := p.callback("", nil)
		at := p.soon(time.Minute)
		e := p.ask(object{"expires_at": timestamp(at), "request": p.choice(object{"default_on_expire": "hold"}, callbackOf(cb, ""))})
		id := p.open(e)
		p.until(at.Add(time.Second))
		a := p.arrived(rec, 1)[0]
		a.reply(p).envelope(a.body, e, id, ending{resolution: "expired", value: "hold", actor: "system:default_on_expire", defaulted: true})
		p.signedPush(cb, a)
	}},
	{id: "push.pull", section: "§8.3", says: "a callback of mode pull is not called", needs: []need{needCallback, needClock}, check: func(p *probe) {
		cb, rec := p.callback("", nil)
		id := p.open(p.ask(object{"request": p.choice(object{"callback": object{"mode": "pull", "url": cb.URL}})}))
		p.cancel(id).cancelled(id)
		p.pass(time.Hour, never)
		if n := rec.count(); n > 0 {
			p.fail("a callback of mode pull was called %d times", n)
		}
		p.pull(id).is(id, "cancelled")
	}},
}

// When a push does not get through (§8.3, §9.4).
var retryRows = []row{
	{id: "retry.5xx", section: "§8.3", says: "a push is tried again after a 5xx, until a 2xx", needs: []need{needCallback, needClock}, check: func(p *probe) {
		cb, rec := p.callback("", answers(503, 500, 200))
		id := p.open(p.ask(p.pushTo(cb, "")))
		p.cancel(id).cancelled(id)
		p.arrived(rec, 1)
		if !p.pass(24*time.Hour, func() bool { return rec.count() >= 3 }) {
			p.fatal("%d attempts came within 24 hours: a 503 and a 500 are tried again", rec.count())
		}
		p.pass(24*time.Hour, never)
		all := rec.all()
		if len(all) != 3 {
			p.fail("%d attempts came: the third was answered with 200 and was the last", len(all))
		}
		for _, a := range all {
			if !same(a.body, all[0].body) {
				p.fail("an attempt to push had another Response than the first: %s, not %s", show(a.body), show(all[0].body))
			}
			p.signedPush(cb, a)
		}
	}},
	{id: "retry.network", section: "§8.3", says: "a push is tried again after a broken connection", needs: []need{needCallback, needClock}, check: func(p *probe) {
		cb, rec := p.callback("", answers(0, 200))
		id := p.open(p.ask(p.pushTo(cb, "")))
		p.cancel(id).cancelled(id)
		p.arrived(rec, 1)
		if !p.pass(24*time.Hour, func() bool { return rec.count() >= 2 }) {
			p.fail("no second attempt came within 24 hours after the connection broke")
		}
	}},
	{id: "retry.end", section: "§8.3", says: "tries are at least five, ever further apart, and come to an end, and the answer stays", needs: []need{needCallback, needClock}, check: func(p *probe) {
		cb, rec := p.callback("", answers(503))
		id := p.open(p.ask(p.pushTo(cb, "")))
		p.cancel(id).cancelled(id)
		p.arrived(rec, 1)
		if !p.pass(7*24*time.Hour, func() bool { return rec.count() >= 5 }) {
			p.fatal("%d attempts came within 7 days: there are at least 5", rec.count())
		}
		all := rec.all()
		if early, late := all[1].at.Sub(all[0].at), all[4].at.Sub(all[3].at); late <= early {
			p.fail("the fifth attempt came %s after the fourth, and the second %s after the first: the backoff is exponential", late, early)
		}
		p.pass(7*24*time.Hour, never)
		n := rec.count()
		p.pass(7*24*time.Hour, never)
		if more := rec.count() - n; more > 0 {
			p.fail("%d attempts came in the week after the first one: their number and time are capped", more)
		}
		if days, ok := p.doc.whole("retention_days"); !ok || days > 22 {
			p.pull(id).is(id, "cancelled")
		}
	}},
	{id: "retry.4xx", section: "§8.3", says: "a push is not tried again after a 4xx, and the answer stays", needs: []need{needCallback, needClock}, check: func(p *probe) {
		var recs []*receiver
		statuses := []int{400, 404, 409, 429}
		for _, status := range statuses {
			cb, rec := p.callback("", answers(status, 200))
			recs = append(recs, rec)
			id := p.open(p.ask(p.pushTo(cb, "")))
			p.cancel(id).cancelled(id)
			p.arrived(rec, 1)
			p.pull(id).is(id, "cancelled")
		}
		p.pass(24*time.Hour, never)
		for i, rec := range recs {
			if n := rec.count(); n != 1 {
				p.fail("%d attempts came, the first of which was answered with %d: it is final", n, statuses[i])
			}
		}
	}},
	{id: "retry.same", section: "§7", says: "what is tried again is the resolution that stands", needs: []need{needCallback, needResolve, needClock}, check: func(p *probe) {
		cb, rec := p.callback("", answers(503, 200))
		id := p.open(p.ask(p.pushTo(cb, "")))
		p.answer(id, "ship")
		first := p.arrived(rec, 1)[0]
		_ = p.tryResolve(Resolution{MessageID: id, Outcome: "answered", Value: "hold"})
		p.cancel(id).refused(409, "already_terminal")
		if !p.pass(24*time.Hour, func() bool { return rec.count() >= 2 }) {
			p.fatal("no second attempt came within 24 hours after a 503")
		}
		if second := rec.all()[1]; !same(second.body, first.body) {
			p.fail("the second attempt had another Response: %s, not %s", show(second.body), show(first.body))
		}
	}},
	{id: "retry.redirect", section: "§9.4", says: "a push follows no redirect", needs: []need{needCallback, needClock}, check: func(p *probe) {
		cb, rec := p.callback("", answers(307))
		rec.location(cb.URL)
		id := p.open(p.ask(p.pushTo(cb, "")))
		p.cancel(id).cancelled(id)
		p.arrived(rec, 1)
		p.pass(time.Hour, never)
		for _, a := range rec.all() {
			if a.query == redirected {
				p.fail("a push was answered with 307 and the Hub went where it pointed")
				return
			}
		}
	}},
}

// The webhook of an agent (§8.7).
var webhookRows = []row{
	{id: "webhook.signed", section: "§8.7", says: "a directive is pushed signed, is tried again after a 5xx with another signature, and stays in the mailbox", needs: []need{needInbound, needDirect, needWebhook, needKeys, needClock}, check: func(p *probe) {
		p.emptyMailbox()
		rec := p.receiver(answers(503, 200))
		stop, err := p.t.Webhook(p.r.Context(), rec)
		if err != nil {
			p.fatal("Target.Webhook: %v", err)
		}
		p.atEnd(stop)
		id := p.direct(Directive{Title: "Pushed", Body: "By webhook."})
		p.arrived(rec, 1)
		if !p.pass(24*time.Hour, func() bool { return rec.count() >= 2 }) {
			p.fatal("no second attempt came within 24 hours after a 503")
		}
		seen := make(map[string]bool)
		for _, a := range rec.all()[:2] {
			directive := a.body
			if inner := directive.obj("directive"); inner != nil {
				directive = inner
			}
			if directive.str("id") != id {
				a.reply(p).wrong("the directive %s", id)
			}
			s := p.signed(a, directiveContext(directive), p.t.DirectiveKeys)
			if seen[s.jti] {
				a.reply(p).wrong("a jti that no attempt had before (§9.7)")
			}
			seen[s.jti] = true
		}
		p.drain("").must(id)
	}},
}

// arrival is one request at a callback.
type arrival struct {
	at     time.Time // on the Hub's clock
	method string
	query  string
	header http.Header
	text   []byte
	body   object // nil if text is no JSON object
}

// receiver is a callback that notes what comes and answers what a row says.
type receiver struct {
	now func() time.Time

	mu     sync.Mutex
	got    []arrival
	answer func(n int) int // by number of the arrival, from 1
	to     string          // of a redirect
	more   chan struct{}   // closed and replaced with each arrival
}

// answers are statuses in order, the last of which stands for all further
// ones. 0 breaks the connection.
func answers(statuses ...int) func(int) int {
	return func(n int) int { return statuses[min(n, len(statuses))-1] }
}

func (p *probe) receiver(answer func(int) int) *receiver {
	if answer == nil {
		answer = answers(200)
	}
	return &receiver{now: p.now, answer: answer, more: make(chan struct{})}
}

const maxPush = 4 << 20

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, maxPush))
	if err != nil {
		return
	}
	a := arrival{at: r.now(), method: req.Method, query: req.URL.RawQuery, header: req.Header.Clone(), text: body}
	a.body, _ = readObject(body)
	r.mu.Lock()
	r.got = append(r.got, a)
	status, to := r.answer(len(r.got)), r.to
	close(r.more)
	r.more = make(chan struct{})
	r.mu.Unlock()
	if status == 0 {
		panic(http.ErrAbortHandler) // net/http breaks the connection
	}
	if status/100 == 3 {
		w.Header().Set("Location", to)
	}
	w.WriteHeader(status)
}

func (r *receiver) all() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]arrival(nil), r.got...)
}

func (r *receiver) count() int { return len(r.all()) }

func (r *receiver) turn(answer func(int) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

const redirected = "redirected=1"

// location has redirects point back to the callback, with a query that tells.
func (r *receiver) location(raw string) {
	u, err := url.Parse(raw)
	if err != nil {
		return
	}
	u.RawQuery = redirected
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = u.String()
}

// await waits until n have arrived.
func (r *receiver) await(ctx context.Context, n int) bool {
	for {
		r.mu.Lock()
		enough, more := len(r.got) >= n, r.more
		r.mu.Unlock()
		if enough {
			return true
		}
		select {
		case <-more:
		case <-ctx.Done():
			return false
		}
	}
}

// arrived are the first n arrivals, which must come now.
func (p *probe) arrived(r *receiver, n int) []arrival {
	p.r.Helper()
	ctx, cancel := context.WithTimeout(p.r.Context(), p.t.Patience)
	defer cancel()
	if !r.await(ctx, n) {
		p.fatal("no push came to the callback within %s of real time", p.t.Patience)
	}
	return r.all()[:n]
}

// callback is a URL that the Hub may push to.
func (p *probe) callback(scheme string, answer func(int) int) (Callback, *receiver) {
	p.r.Helper()
	rec := p.receiver(answer)
	cb, err := p.t.Callback(p.r.Context(), scheme, rec)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		p.skip("Target.Callback does not do scheme %q", scheme)
	case err != nil || cb.URL == "":
		p.fatal("Target.Callback gave no URL for scheme %q: %v", scheme, err)
	}
	return cb, rec
}

// callbackOf is the member of a request or action.
func callbackOf(cb Callback, scheme string) object {
	c := object{"mode": "push", "url": cb.URL}
	switch scheme {
	case "hmac":
		c["auth"] = object{"scheme": scheme, "secret_ref": cb.Ref}
	case "bearer", "apikey":
		c["auth"] = object{"scheme": scheme, "token_ref": cb.Ref}
	}
	return object{"callback": c}
}

// pushTo gives an ask a callback.
func (p *probe) pushTo(cb Callback, scheme string) object {
	return object{"request": p.choice(callbackOf(cb, scheme))}
}

// reply is an arrival as a failure shows it.
func (a arrival) reply(p *probe) reply {
	return reply{p: p, sent: "nothing: it is what came to the callback", body: a.text, header: a.header}
}

// signed holds an arrival to its signature, which it returns.
func (p *probe) signed(a arrival, context signedContext, keys []Key) signature {
	p.r.Helper()
	if n := len(a.header.Values(signatureHeader)); n != 1 || a.body == nil {
		a.reply(p).fatal("a JSON object and one header %s; there are %d", signatureHeader, n)
	}
	s, err := readSignature(a.header.Get(signatureHeader))
	if err == nil {
		err = context.verify(s, keys, a.at)
	}
	if err != nil {
		a.reply(p).wrong("a signature over this body: %v", err)
	}
	return s
}

// signedPush is signed for a Response (§9.2).
func (p *probe) signedPush(cb Callback, a arrival) {
	p.r.Helper()
	p.signed(a, responseContext(a.body, cb.URL), cb.Keys)
	if m := minor(a.body.str("ma2h_version")); p.minor >= 3 && m < 3 {
		a.reply(p).wrong("a Response of 0.3 or later: the signature of an earlier one leaves the answer open (§10)")
	}
}
