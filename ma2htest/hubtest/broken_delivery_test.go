package hubtest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/ma2htest/hubtest"
	"github.com/ma2h/ma2h-go/types"
)

// The mailbox.
var brokenMailboxes = []breakage{
	{name: "a batch is a bare list", fails: "directive.form directive.fresh directive.signed inbox.ack inbox.ack.again inbox.again inbox.atonce inbox.empty inbox.expires inbox.foreign inbox.hidden inbox.hold inbox.hold.timeout inbox.max inbox.order inbox.retention presence.drain restart.mailbox webhook.signed", with: answers(ma2htest.Drain, func(_ *http.Request, a *answer) {
		if list, ok := a.doc["messages"]; ok {
			a.body, a.doc = encode(list), nil
		}
	})},
	{name: "an empty mailbox is 204", fails: "directive.form directive.fresh directive.signed discovery.mailbox inbox.ack inbox.ack.again inbox.again inbox.atonce inbox.empty inbox.expires inbox.foreign inbox.hidden inbox.hold inbox.hold.timeout inbox.max inbox.order inbox.retention presence.drain restart.mailbox webhook.signed", with: answers(ma2htest.Drain, func(_ *http.Request, a *answer) {
		if list, ok := a.doc["messages"].([]any); ok && len(list) == 0 {
			a.status, a.doc, a.body = 204, nil, nil
		}
	})},
	{name: "an empty mailbox is null", fails: "directive.form directive.fresh directive.signed inbox.ack inbox.ack.again inbox.again inbox.atonce inbox.empty inbox.expires inbox.foreign inbox.hidden inbox.hold inbox.hold.timeout inbox.max inbox.order inbox.retention presence.drain restart.mailbox webhook.signed", with: says(ma2htest.Drain, 200, func(d doc) {
		if len(d["messages"].([]any)) == 0 {
			d["messages"] = nil
		}
	})},
	{name: "a long-poll without news brings an old directive", fails: "inbox.hold.timeout", with: answers(ma2htest.Drain, func(r *http.Request, a *answer) {
		if list, ok := a.doc["messages"].([]any); ok && len(list) == 0 && r.URL.Query().Has("wait") {
			a.doc["messages"] = []any{doc{"directive": doc{"id": "dir_old"}, "signature": "MA2H-Signature: t=1,jti=j,v1=AAAA"}}
		}
	})},
	{name: "an old directive is in every mailbox", fails: "directive.form directive.fresh directive.signed inbox.ack inbox.ack.again inbox.again inbox.atonce inbox.empty inbox.expires inbox.foreign inbox.hidden inbox.hold inbox.hold.timeout inbox.max inbox.order inbox.retention restart.mailbox webhook.signed", with: says(ma2htest.Drain, 200, func(d doc) {
		if len(d["messages"].([]any)) == 0 {
			d["messages"] = []any{doc{"directive": doc{"id": "dir_old"}, "signature": "MA2H-Signature: t=1,jti=j,v1=AAAA"}}
		}
	})},
	{name: "a batch is in reverse", fails: "inbox.order", with: says(ma2htest.Drain, 200, func(d doc) { slices.Reverse(d["messages"].([]any)) })},
	{name: "max is ignored", fails: "inbox.max", with: withoutQuery("max")},
	{name: "max is not bounded", fails: "inbox.max", options: ma2htest.Options{Capability: func(c *types.Capability) { c.Inbound.MaxBatch = 64 }},
		with: says(ma2htest.Discover, 200, func(d doc) { inner(d, "inbound")["max_batch"] = 4 })},
	{name: "what was drained is not hidden", fails: "inbox.atonce inbox.hidden", with: faulty(ma2htest.ExpireLease(0))},
	{name: "what was drained is gone", fails: "directive.fresh inbox.ack inbox.again inbox.foreign restart.mailbox", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if list, ok := a.doc["messages"].([]any); ok {
			for _, row := range list {
				b.consume(text(inner(row.(doc), "directive")["id"]))
			}
		}
		a.write(w)
	})},
	{name: "what comes again is another directive", fails: "inbox.again", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if list, ok := a.doc["messages"].([]any); ok {
			for _, row := range list {
				if d := inner(row.(doc), "directive"); !b.once(text(d["id"]), "seen") {
					d["created_at"] = "2026-01-01T00:00:00Z"
				}
			}
		}
		a.write(w)
	})},
	{name: "acknowledgments are forgotten", fails: "inbox.ack", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.InboxAck) {
			if e := submitted(r); e["note"] != nil {
				(&answer{status: 200, doc: doc{"acked": 1}, header: jsonHeader()}).write(w)
				return
			}
		}
		next.ServeHTTP(w, r)
	})},
	{name: "acked is a list", fails: "inbox.ack", with: says(ma2htest.InboxAck, 200, func(d doc) { d["acked"] = []any{} })},
	{name: "a known acknowledgment is an error", fails: "inbox.ack.again", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.InboxAck) {
			for _, id := range submitted(r)["ids"].([]any) {
				if d, ok := b.hub.Directive(text(id)); ok && d.Delivery.State == types.Acknowledged {
					refusal(409, "already_terminal").write(w)
					return
				}
			}
		}
		next.ServeHTTP(w, r)
	})},
	{name: "an agent drains what is another's", fails: "inbox.foreign", with: authorizes(ma2htest.Drain, asOne)},
	{name: "an agent acknowledges what is in the mailbox of another", fails: "inbox.foreign", with: authorizes(ma2htest.InboxAck, asOne)},
	{name: "an acknowledgment tells whether the id exists", fails: "inbox.foreign", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.InboxAck) && r.Header.Get("Authorization") == "Bearer "+b.hub.Token(agentTwo) {
			if _, ok := b.hub.Directive(text(submitted(r)["ids"].([]any)[0])); ok {
				refusal(403, "not_authorized").write(w)
				return
			}
		}
		next.ServeHTTP(w, r)
	})},
	{name: "an expired directive is delivered", fails: "directive.form inbox.expires", with: directs(func(_ *bench, d hubtest.Directive, next func(hubtest.Directive) (string, error)) (string, error) {
		d.ExpiresAt = time.Time{}
		return next(d)
	})},
	{name: "a directive expires early", fails: "directive.form inbox.expires", with: directs(func(_ *bench, d hubtest.Directive, next func(hubtest.Directive) (string, error)) (string, error) {
		if !d.ExpiresAt.IsZero() {
			d.ExpiresAt = d.ExpiresAt.Add(-10 * time.Minute)
		}
		return next(d)
	})},
	{name: "directives are kept for less than is advertised", fails: "inbox.retention", with: says(ma2htest.Discover, 200, func(d doc) { inner(d, "inbound")["retention_days"] = 60 })},
	{name: "directives are kept for ever", fails: "inbox.retention", with: says(ma2htest.Discover, 200, func(d doc) { inner(d, "inbound")["retention_days"] = 10 })},
	{name: "no long-poll on a mailbox is held", fails: "inbox.hold inbox.hold.timeout", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.Drain) && r.URL.Query().Has("wait") {
			r.URL.RawQuery = ""
		}
		next.ServeHTTP(w, r)
	})},
	{name: "a long-poll on a mailbox is held for too long", fails: "inbox.hold.timeout", hangs: true, with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.Drain) && r.URL.Query().Get("wait") == "10" {
			r.URL.RawQuery = "wait=60"
		}
		next.ServeHTTP(w, r)
	})},

	{name: "a directive is from another human", fails: "directive.form", with: directs(func(_ *bench, d hubtest.Directive, next func(hubtest.Directive) (string, error)) (string, error) {
		d.From = "human:mallory"
		return next(d)
	})},
	{name: "a directive loses its body", fails: "directive.form", with: directs(func(_ *bench, d hubtest.Directive, next func(hubtest.Directive) (string, error)) (string, error) {
		d.Body = ""
		return next(d)
	})},
	{name: "a directive carries a request", fails: "directive.form", with: entries(func(row doc) { inner(row, "directive")["request"] = doc{} })},
	{name: "a directive was made at no time", fails: "directive.form", with: entries(func(row doc) { delete(inner(row, "directive"), "created_at") })},
	{name: "a directive is of 0.3", fails: "directive.form directive.fresh directive.signed", with: entries(func(row doc) { inner(row, "directive")["ma2h_version"] = "0.3" })},
	{name: "a directive is changed after it was signed", fails: "directive.signed", with: entries(func(row doc) {
		if d := inner(row, "directive"); d["title"] == "Only a title" {
			d["priority"] = "normal"
		}
	})},
	{name: "a directive is not signed", fails: "directive.form directive.fresh directive.signed inbox.ack inbox.ack.again inbox.again inbox.expires inbox.foreign inbox.hidden inbox.hold inbox.hold.timeout inbox.max inbox.order inbox.retention presence.drain restart.mailbox webhook.signed", with: entries(func(row doc) { delete(row, "signature") })},
	{name: "a directive is signed with an unknown key", fails: "directive.fresh directive.signed webhook.signed", with: func(b *bench) {
		b.hub.Advance(0)
		b.target.DirectiveKeys = []hubtest.Key{hubtest.HMACKey([]byte("another"))}
	}},
	{name: "the signature of a directive is garbled", fails: "directive.fresh directive.signed", with: faulty(ma2htest.CorruptDirectiveSignature(0))},
	{name: "a directive is signed once", fails: "directive.fresh", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if list, ok := a.doc["messages"].([]any); ok {
			for _, row := range list {
				id := text(inner(row.(doc), "directive")["id"])
				b.once("signature of "+id, text(row.(doc)["signature"]))
				row.(doc)["signature"] = b.noted("signature of " + id)
			}
		}
		a.write(w)
	})},
	{name: "directives are signed when they are sent", fails: "directive.fresh directive.signed", with: faulty(ma2htest.SkewedDirectiveT(0, -3*time.Hour))},
}

// consume acknowledges a directive in the agent's place.
func (b *bench) consume(ids ...string) {
	r := httptest.NewRequest("POST", b.target.BaseURL+"/v1/inbox/ack", strings.NewReader(string(encode(doc{"ids": ids}))))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+b.hub.Token(agentOne))
	ask(b.hub, r)
}

func directs(change func(b *bench, d hubtest.Directive, next func(hubtest.Directive) (string, error)) (string, error)) func(*bench) {
	return func(b *bench) {
		next := b.target.Human.Direct
		b.target.Human.Direct = func(ctx context.Context, d hubtest.Directive) (string, error) {
			return change(b, d, func(d hubtest.Directive) (string, error) { return next(ctx, d) })
		}
	}
}

// entries changes each row of a batch.
func entries(change func(row doc)) func(*bench) {
	return says(ma2htest.Drain, 200, func(d doc) {
		for _, row := range d["messages"].([]any) {
			change(row.(doc))
		}
	})
}

// Pushes.
var brokenPushes = []breakage{
	{name: "a push has another value than a pull", fails: "ack.pushed push.cancelled push.expired push.response push.schemes push.signed push.task retry.5xx webhook.signed", with: faulty(ma2htest.TamperPayload(0))},
	{name: "a push is a PUT", fails: "push.response", with: pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Method = "PUT"
		next.ServeHTTP(w, r)
	})},
	{name: "a push has no content type", fails: "push.response", with: pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Del("Content-Type")
		next.ServeHTTP(w, r)
	})},
	{name: "a push has no state", fails: "push.response push.signed", with: pushed(func(d doc) { delete(d, "state") })},
	{name: "a push is not signed", fails: "ack.pushed push.cancelled push.expired push.schemes push.signed push.task retry.5xx webhook.signed", with: faulty(ma2htest.DropSignature(0))},
	{name: "a push of an input is not signed over its value", fails: "push.signed", with: pushed(func(d doc) {
		if v := inner(d, "response", "value"); v != nil {
			v["reason"] = "other"
		}
	})},
	{name: "a push is signed as in 0.2", fails: "push.cancelled push.expired push.response push.schemes push.signed push.task retry.5xx", with: faulty(ma2htest.SignAsVersion02(0))},
	{name: "a push is signed with an unknown key", fails: "ack.pushed push.cancelled push.expired push.schemes push.signed push.task retry.5xx webhook.signed", with: faulty(ma2htest.WrongKey(0))},
	{name: "a push has a clock of its own", fails: "ack.pushed push.cancelled push.expired push.schemes push.signed push.task retry.5xx webhook.signed", with: faulty(ma2htest.SkewedT(0, 5*time.Minute))},
	{name: "a push that carries a token is not signed", fails: "push.schemes", with: pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("Authorization") != "" {
			r.Header.Del("MA2H-Signature")
		}
		next.ServeHTTP(w, r)
	})},
	{name: "a push has two signature headers", fails: "push.schemes", with: pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("X-Api-Key") != "" {
			r.Header.Add("MA2H-Signature", "t=1,jti=j,v1=AAAA")
		}
		next.ServeHTTP(w, r)
	})},
	{name: "the result of a task is not pushed", fails: "push.task", hangs: true, with: swallowed("completed")},
	{name: "a cancel is not pushed", fails: "push.cancelled restart.push retry.4xx retry.5xx retry.end retry.network retry.redirect", hangs: true, with: swallowed("cancelled")},
	{name: "an expiry is not pushed", fails: "push.expired", hangs: true, with: swallowed("expired")},
	{name: "a callback of mode pull is called", fails: "push.pull", with: takes(func(_ *bench, e doc) {
		if c := inner(e, "request", "callback"); c["mode"] == "pull" {
			c["mode"] = "push"
		}
	})},
	{name: "a 5xx is final", fails: "restart.push retry.5xx retry.end retry.same webhook.signed", with: answered(func(n, status int) int {
		if status >= 500 {
			return 200
		}
		return status
	})},
	{name: "a 2xx is not final", fails: "retry.5xx", with: answered(func(n, status int) int {
		if status == 200 && n >= 3 && n < 6 {
			return 503
		}
		return status
	})},
	{name: "a retry is another Response", fails: "retry.5xx retry.same", with: func(b *bench) {
		var mu sync.Mutex
		times := make(map[string]int)
		pushed(func(d doc) {
			mu.Lock()
			defer mu.Unlock()
			if id := text(d["in_reply_to"]); id != "" {
				if times[id]++; times[id] > 1 {
					d["resolution_id"] = "res_again"
				}
			}
		})(b)
	}},
	{name: "a broken connection is final", fails: "retry.network", with: pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		defer func() { _ = recover() }()
		next.ServeHTTP(w, r)
	})},
	{name: "there are three tries", fails: "retry.end", with: answered(func(n, status int) int {
		if n == 3 {
			return 200
		}
		return status
	})},
	{name: "tries are evenly apart", fails: "retry.end", with: func(b *bench) {
		clock := &evenly{Hub: b.hub}
		b.target.Clock = clock
		pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
			clock.show(text(submitted(r)["in_reply_to"]))
			next.ServeHTTP(w, r)
			clock.show("")
		})(b)
	}},
	{name: "tries go on for weeks", fails: "retry.end", options: ma2htest.Options{PushAttempts: 30, PushFor: 365 * 24 * time.Hour}},
	{name: "a 4xx is tried again", fails: "retry.4xx", with: answered(func(n, status int) int {
		if status/100 == 4 {
			return 503
		}
		return status
	})},
	{name: "a 429 is tried again", fails: "retry.4xx", with: answered(func(n, status int) int {
		if status == 429 {
			return 503
		}
		return status
	})},
	{name: "a redirect is followed", fails: "retry.redirect", with: pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		if to := rec.Header().Get("Location"); to != "" {
			r.URL, _ = url.Parse(to)
			rec = httptest.NewRecorder()
			next.ServeHTTP(rec, r)
		}
		w.WriteHeader(rec.Code)
	})},
	{name: "a webhook is not signed", fails: "webhook.signed", with: pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if d := submitted(r); d["type"] == "directive" {
			r.Header.Del("MA2H-Signature")
		}
		next.ServeHTTP(w, r)
	})},
	{name: "a webhook is about another directive", fails: "webhook.signed", with: pushed(func(d doc) {
		if d["type"] == "directive" {
			d["id"] = "dir_other"
		}
	})},
	{name: "a webhook consumes", fails: "webhook.signed", with: pushes(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		d := submitted(r)
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		w.WriteHeader(rec.Code)
		if d["type"] == "directive" && rec.Code == 200 {
			b.consume(text(d["id"]))
		}
	})},
	{name: "a webhook is resent as it was signed", fails: "webhook.signed", with: faulty(ma2htest.IdenticalResend(0))},
}

// evenly is a clock that shows each push of a message one second after the one
// before.
type evenly struct {
	*ma2htest.Hub
	mu    sync.Mutex
	last  map[string]time.Time // by message
	shown time.Time
}

func (c *evenly) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.shown.IsZero() {
		return c.shown
	}
	return c.Hub.Now()
}

func (c *evenly) show(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = make(map[string]time.Time)
	}
	switch at, again := c.last[id]; {
	case id == "":
		c.shown = time.Time{}
	case again:
		c.shown = at.Add(time.Second)
		c.last[id] = c.shown
	default:
		c.shown = c.Hub.Now()
		c.last[id] = c.shown
	}
}

// swallowed are pushes of a resolution that do not arrive.
func swallowed(resolution string) func(*bench) {
	return pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if d := submitted(r); d["resolution"] != resolution {
			next.ServeHTTP(w, r)
		}
	})
}

// answered changes what the Hub gets to see of the n-th answer of a callback.
func answered(change func(n, status int) int) func(*bench) {
	return func(b *bench) {
		var mu sync.Mutex
		times := make(map[string]int)
		pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
			id := text(submitted(r)["in_reply_to"])
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			mu.Lock()
			times[id]++
			n := times[id]
			mu.Unlock()
			w.WriteHeader(change(n, rec.Code))
		})(b)
	}
}
