package hubtest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// What a Hub takes, and how it says so (§4, §5, §8.1, §10).
var submitRows = []row{
	{id: "submit.notify", section: "§5.1", says: "a notify is taken with 202 and is delivered", check: func(p *probe) {
		p.submit(p.notify()).taken("delivered")
	}},
	{id: "submit.ask", section: "§5.2", says: "an ask is taken with 202 and is open", check: func(p *probe) {
		p.submit(p.ask()).taken("open")
	}},
	{id: "submit.task", section: "§5.3", says: "a task is taken with 202 and is open", check: func(p *probe) {
		p.submit(p.task()).taken("open")
	}},
	{id: "submit.modes", section: "§5.2", says: "confirm with and without options and input are taken", check: func(p *probe) {
		for _, request := range []object{
			p.choice(object{"mode": "confirm", "options": nil}),
			p.choice(object{"mode": "confirm"}),
			p.input(),
		} {
			p.submit(p.ask(object{"request": request})).taken("open")
		}
	}},
	{id: "submit.poll_url", section: "§8.1", says: "poll_url leads to the message", check: func(p *probe) {
		rep := p.submit(p.ask())
		id := rep.accepted()
		to := rep.json.str("poll_url")
		if !strings.Contains(to, "://") {
			rep.fatal("an absolute poll_url")
		}
		if !sameOrigin(to, p.t.BaseURL) {
			p.skip("poll_url is not of the origin of Target.BaseURL; no credential is sent there")
		}
		p.get(to).is(id, "open")
	}},
	{id: "submit.id", section: "§4", says: "the id and the status are the Hub's and not the agent's", check: func(p *probe) {
		mine := "msg_" + p.key()
		id := p.open(p.ask(object{"id": mine, "status": "answered", "response": object{"resolution": "answered"}}))
		if id == mine {
			p.fail("the Hub took the id %s that the agent sent", mine)
		}
		rep := p.pull(id)
		if _, there := rep.is(id, "open")["response"]; there {
			rep.wrong("no response of the agent's")
		}
	}},
	{id: "submit.label", section: "§4", says: "client_ref never makes two messages one", check: func(p *probe) {
		ref := object{"client_ref": p.key()}
		if a, b := p.open(p.notify(ref)), p.open(p.notify(ref)); a == b {
			p.fail("two notifies without idempotency_key and with one client_ref got the one id %s", a)
		}
	}},
	{id: "submit.unknown", section: "§10", says: "unknown members are ignored at every depth", check: func(p *probe) {
		e := p.ask(object{"x_unknown": object{"deep": []any{1}}})
		e["agent"] = e.obj("agent").with(object{"x_unknown": true})
		e["request"] = e.obj("request").with(object{"x_unknown": "yes"})
		p.submit(e).taken("open")
	}},
	{id: "submit.minor", section: "§10", says: "envelopes of any minor of the major are taken", check: func(p *probe) {
		for _, v := range []string{"0.2", "0.3", "0.4", "0.19"} {
			p.submit(p.ask(object{"ma2h_version": v})).taken("open")
		}
	}},
	{id: "submit.major", section: "§10", says: "an unknown major is 400 version_not_supported", check: func(p *probe) {
		for _, v := range []string{"1.0", "2.3"} {
			p.submit(p.ask(object{"ma2h_version": v})).refused(400, "version_not_supported")
		}
	}},
	{id: "submit.spelling", section: "§10", says: "a minor with a leading zero is 400 validation_error", needs: []need{need04}, check: func(p *probe) {
		p.submit(p.ask(object{"ma2h_version": "0.03"})).refused(400, "validation_error")
	}},
	{id: "submit.parity", section: "§10", says: "a push before 0.3 is 400 version_not_supported and a pull is taken", needs: []need{need03, needCallback}, check: func(p *probe) {
		cb, _ := p.callback("", nil)
		old := object{"ma2h_version": "0.2"}
		p.submit(p.ask(old, p.pushTo(cb, ""))).refused(400, "version_not_supported")
		p.submit(p.ask(old)).taken("open")
		p.submit(p.ask(p.pushTo(cb, ""))).taken("open")
	}},
}

// taken holds an acknowledgment to its form (§8.1).
func (r reply) taken(status string) string {
	r.p.r.Helper()
	id := r.accepted()
	if got := r.json.str("status"); got != status {
		r.wrong("status %s", status)
	}
	if r.json.str("poll_url") == "" {
		r.wrong("a poll_url")
	}
	if v, there := r.json["review_url"]; there && kind(v) != "string" {
		r.wrong("a review_url of text")
	}
	return id
}

// What a Hub refuses to take (§4, §5, §8.5).
var envelopeRows = []row{
	{id: "envelope.malformed", section: "§8.5", says: "what is no JSON object is 400 validation_error", check: func(p *probe) {
		for _, text := range []string{"", "{", "[]", `"ask"`, "null", `{"ma2h_version":"0.3",}`} {
			p.post(messages, []byte(text)).refused(400, "validation_error")
		}
	}},
	{id: "envelope.members", section: "§4", says: "an envelope without a mandatory member is 400 validation_error", check: func(p *probe) {
		for _, name := range []string{"type", "created_at", "agent", "title"} {
			p.submit(p.ask(object{name: nil})).refused(400, "validation_error")
		}
		// Without a version no major can be known.
		p.submit(p.ask(object{"ma2h_version": nil})).refused(400, "validation_error", "version_not_supported")
	}},
	{id: "envelope.type", section: "§4", says: "an unknown type is 400 validation_error", check: func(p *probe) {
		for _, kind := range []any{"poke", "directive", "ack", "", 7} {
			p.submit(p.ask(object{"type": kind})).refused(400, "validation_error")
		}
	}},
	{id: "envelope.blocks", section: "§4", says: "a verb carries its own block and not that of another", check: func(p *probe) {
		request := object{"request": p.choice()}
		action := object{"action": object{"instructions": "Nothing needs to be done."}}
		for _, e := range []object{
			p.notify(request), p.notify(action), p.ask(action), p.task(request),
			p.ask(object{"request": nil}), p.task(object{"action": nil}),
			p.ask(object{"request": nil}, action), p.task(object{"action": nil}, request),
		} {
			p.submit(e).refused(400, "validation_error")
		}
	}},
	{id: "envelope.title", section: "§4", says: "a title has 200 characters at most, whatever their bytes", check: func(p *probe) {
		p.submit(p.notify(object{"title": strings.Repeat("😀", 200)})).taken("delivered")
		p.submit(p.notify(object{"title": strings.Repeat("a", 201)})).invalid()
	}},
	{id: "envelope.values", section: "§4", says: "a member of another type or value than the text's is refused", check: func(p *probe) {
		for _, wrong := range []object{
			{"title": 7}, {"body": []any{"text"}}, {"tags": []any{"a", 1}}, {"tags": "a"}, {"priority": "medium"},
			{"state": "sealed"}, {"context": object{}}, {"created_at": "yesterday"}, {"expires_at": "2099-01-01"},
			{"agent": p.t.Agent.ID}, {"agent": object{"id": p.t.Agent.ID, "run_id": "r", "runtime": "spaceship"}},
			{"agent": object{"id": p.t.Agent.ID, "run_id": "r", "runtime": "cli", "labels": object{"n": 1}}},
		} {
			p.submit(p.ask(wrong)).invalid()
		}
	}},
	{id: "envelope.parts", section: "§4.2", says: "a part is a text, data or a file, and nothing else", check: func(p *probe) {
		parts := func(list ...any) object { return object{"context": list} }
		p.submit(p.notify(parts(
			object{"kind": "text", "text": "Words.", "metadata": object{"lang": "en"}},
			object{"kind": "data", "data": object{"n": 1}},
			object{"kind": "file", "file": object{"uri": "https://files.example/a", "name": "a", "mime_type": "text/plain"}},
		))).taken("delivered")
		for _, wrong := range []any{
			"text", object{"kind": "text"}, object{"kind": "text", "data": object{}}, object{"kind": "data", "data": []any{1}},
			object{"kind": "file", "file": object{"name": "a"}}, object{"kind": "video", "text": "a"}, object{"text": "a"},
		} {
			p.submit(p.notify(parts(wrong))).invalid()
		}
	}},
	{id: "envelope.key", section: "§8.1", says: "an ask and a task need an idempotency_key, a notify does not", check: func(p *probe) {
		bare := object{"idempotency_key": nil}
		p.submit(p.ask(bare)).refused(400, "validation_error")
		p.submit(p.task(bare)).refused(400, "validation_error")
		p.submit(p.notify()).taken("delivered")
	}},
	{id: "envelope.question", section: "§5.2", says: "a request has what its mode needs", check: func(p *probe) {
		for _, wrong := range []object{
			{"mode": nil}, {"mode": "poll"}, {"options": nil}, {"options": []any{}}, {"options": []any{object{"value": "ship"}}},
			{"options": []any{object{"value": 1, "label": "One"}}},
			{"mode": "confirm", "options": options("only")}, {"mode": "confirm", "options": options("a", "b", "c")},
			{"mode": "input", "options": nil},
		} {
			p.submit(p.ask(object{"request": p.choice(wrong)})).invalid()
		}
	}},
	{id: "envelope.expired", section: "§8.5", says: "an expires_at in the past is 422 invalid_field", check: func(p *probe) {
		p.submit(p.ask(object{"expires_at": timestamp(p.now().Add(-time.Hour))})).refused(422, "invalid_field")
		p.submit(p.ask(object{"expires_at": timestamp(p.now().Add(time.Hour))})).taken("open")
	}},
	{id: "envelope.now", section: "§4", says: "an expires_at that is now is not in the future", needs: []need{needStandstill}, check: func(p *probe) {
		p.submit(p.ask(object{"expires_at": timestamp(p.now())})).refused(422, "invalid_field")
	}},
	{id: "envelope.default", section: "§7", says: "a default_on_expire is one of the options or null", check: func(p *probe) {
		for _, good := range []any{"hold", nil} {
			request := p.choice()
			request["default_on_expire"] = good
			p.submit(p.ask(object{"request": request})).taken("open")
		}
		p.submit(p.ask(object{"request": p.choice(object{"default_on_expire": "burn"})})).refused(422, "invalid_field")
	}},
	{id: "envelope.default.input", section: "§7", says: "the default of an input is an object that fits the schema", check: func(p *probe) {
		p.submit(p.ask(object{"request": p.input(object{"default_on_expire": object{"reason": "late"}})})).taken("open")
		for _, wrong := range []object{{"count": 1}, {"reason": 7}} {
			p.submit(p.ask(object{"request": p.input(object{"default_on_expire": wrong})})).refused(422, "invalid_field")
		}
	}},
	{id: "envelope.callback", section: "§8.3", says: "a push callback has a URL, and its auth the reference of its scheme", needs: []need{needCallback}, check: func(p *probe) {
		cb, _ := p.callback("", nil)
		for _, wrong := range []object{
			{"mode": "push"},
			{"mode": "push", "url": cb.URL, "auth": object{"scheme": "hmac"}},
			{"mode": "push", "url": cb.URL, "auth": object{"scheme": "hmac", "token_ref": "env:X"}},
			{"mode": "push", "url": cb.URL, "auth": object{"scheme": "bearer", "secret_ref": "env:X"}},
			{"mode": "push", "url": cb.URL, "auth": object{"scheme": "rot13", "secret_ref": "env:X"}},
		} {
			p.submit(p.ask(object{"request": p.choice(object{"callback": wrong})})).invalid()
		}
	}},
}

// What a Hub bounds, if it says that it does (§8.6).
var limitRows = []row{
	{id: "limits.body", section: "§8.6", says: "a body over max_body_bytes is 422", check: func(p *probe) {
		limit := p.limit(4<<20, "max_body_bytes")
		p.submit(p.notify(object{"body": strings.Repeat("a", int(limit/2))})).taken("delivered")
		p.submit(p.notify(object{"body": strings.Repeat("a", int(limit)+1)})).refused(422, "invalid_field")
	}},
	{id: "limits.parts", section: "§8.0", says: "more parts than max_context_parts are refused", check: func(p *probe) {
		limit := p.limit(1000, "max_context_parts")
		list := make([]any, limit)
		for i := range list {
			list[i] = object{"kind": "text", "text": "a"}
		}
		p.submit(p.notify(object{"context": list})).taken("delivered")
		p.submit(p.notify(object{"context": append(list, list[0])})).invalid()
	}},
	{id: "limits.part", section: "§8.6", says: "a part over max_part_bytes is 422", check: func(p *probe) {
		limit := p.limit(3<<20, "max_part_bytes")
		p.submit(p.notify(object{"context": []any{object{"kind": "text", "text": strings.Repeat("a", int(limit)+1)}}})).refused(422, "invalid_field")
	}},
	{id: "limits.rate", section: "§8.6", says: "over the rate it is 429 with a Retry-After that is enough", needs: []need{needClock}, check: func(p *probe) {
		limit := p.limit(200, "rate_limit", "requests_per_minute")
		rep := p.untilRefused(limit+1, func() reply { return p.submit(p.notify()) })
		rep.refused(429, "rate_limited")
		p.t.Clock.Advance(rep.retryAfter(p.now()))
		p.submit(p.notify()).taken("delivered")
	}},
	{id: "limits.depth", section: "§8.6", says: "over the depth of the inbox it is 429 with a Retry-After", check: func(p *probe) {
		limit := p.limit(200, "rate_limit", "inbox_depth")
		if rate, ok := p.doc.whole("rate_limit", "requests_per_minute"); ok && rate > 0 && rate <= limit {
			p.skip("the rate limit of the capability document comes before its inbox_depth")
		}
		rep := p.untilRefused(limit+1, func() reply { return p.submit(p.ask()) })
		rep.refused(429, "rate_limited")
		rep.retryAfter(p.now())
	}},
}

// limit is a number of the capability document, if it is one that can be tried.
func (p *probe) limit(most int64, names ...string) int64 {
	p.r.Helper()
	n, ok := p.doc.whole(names...)
	if !ok || n <= 0 || n > most {
		p.skip("needs a Hub that advertises %s from 1 to %d", strings.Join(names, "."), most)
	}
	return n
}

// untilRefused submits until something else than 202 comes, n times at most.
func (p *probe) untilRefused(n int64, submit func() reply) (rep reply) {
	p.r.Helper()
	for range n {
		if rep = submit(); rep.status != http.StatusAccepted {
			return rep
		}
		rep.accepted()
	}
	return rep
}

// retryAfter is the wait that a 429 asks for, in seconds or as a date.
func (r reply) retryAfter(now time.Time) time.Duration {
	r.p.r.Helper()
	v := r.header.Get("Retry-After")
	var seconds int
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), 0)
	} else if n, err := fmt.Sscanf(v, "%d", &seconds); n != 1 || err != nil || seconds < 0 {
		r.fatal("a Retry-After")
	}
	return time.Duration(seconds) * time.Second
}
