package hubtest

import (
	"net/http"
	"net/url"
	"time"
)

// One request, one message: idempotency_key (§8.1).
var keyRows = []row{
	{id: "key.replay", section: "§8.1", says: "the same key with the same payload is the same message", check: func(p *probe) {
		for _, e := range []object{p.ask(), p.task(), p.notify(object{"idempotency_key": p.key()})} {
			first := p.submit(e)
			id := first.accepted()
			for range 2 {
				if rep := p.submit(e); rep.accepted() != id || rep.json.str("status") != first.json.str("status") {
					rep.wrong("id %s and status %s, as the first time", id, first.json.str("status"))
				}
			}
		}
	}},
	{id: "key.fresh", section: "§8.1", says: "another key is another message", check: func(p *probe) {
		e := p.ask()
		if a, b := p.open(e), p.open(e.with(object{"idempotency_key": p.key()})); a == b {
			p.fail("two idempotency_keys got the one id %s", a)
		}
	}},
	{id: "key.conflict", section: "§8.1", says: "the same key with another payload is 409 and changes nothing", check: func(p *probe) {
		e := p.ask(object{"state": object{"n": 1}})
		id := p.open(e)
		for _, other := range []object{
			{"title": "Another title"}, {"body": "A body."}, {"tags": []any{"a"}}, {"state": object{"n": 2}}, {"state": nil},
			{"request": p.choice(object{"options": options("ship", "wait")})},
		} {
			p.submit(e.with(other)).refused(409, "idempotency_conflict")
		}
		rep := p.pull(id)
		m := rep.is(id, "open")
		for name, want := range e {
			if !same(m[name], want) {
				rep.wrong("%s to be %s, as it was first submitted", name, show(want))
			}
		}
		if rep := p.submit(e); rep.accepted() != id {
			rep.wrong("id %s: the first payload is still the one", id)
		}
	}},
	{id: "key.status", section: "§8.1", says: "a replay after the end has the original id and the status of now", check: func(p *probe) {
		e := p.ask()
		id := p.open(e)
		p.cancel(id).object(http.StatusOK)
		if rep := p.submit(e); rep.accepted() != id || rep.json.str("status") != "cancelled" {
			rep.wrong("202 with id %s and status cancelled", id)
		}
	}},
	{id: "key.run", section: "§8.1", says: "the key counts across runs of the agent", check: func(p *probe) {
		e := p.ask()
		id := p.open(e)
		rep := p.submit(e.with(object{"agent": e.obj("agent").with(object{"run_id": "run_" + p.key()})}))
		if rep.status == http.StatusConflict && rep.code() == "idempotency_conflict" {
			return // another run_id is another payload
		}
		if rep.accepted() != id {
			rep.wrong("id %s, or 409 idempotency_conflict: another run makes no second message", id)
		}
	}},
	{id: "key.agents", section: "§8.1", says: "the key of one agent is not that of another", needs: []need{needOther}, check: func(p *probe) {
		e := p.notify(object{"idempotency_key": p.key()})
		id := p.open(e)
		rep := p.as(p.t.Other, "POST", messages, e.with(object{"agent": e.obj("agent").with(object{"id": p.t.Other.ID})}))
		if rep.accepted() == id {
			rep.wrong("another id than %s", id)
		}
	}},
	{id: "key.atonce", section: "§8.1", says: "one key from many senders at once is one message", check: func(p *probe) {
		e := p.ask()
		var id string
		for _, rep := range p.atOnce(8, func(int) (string, any) { return messages, e }) {
			got := rep.accepted()
			if id == "" {
				id = got
			}
			if got != id {
				rep.wrong("id %s, as for the others", id)
			}
		}
	}},
	{id: "key.overdue", section: "§8.1", says: "a replay is one also when expires_at has passed", needs: []need{needClock}, check: func(p *probe) {
		at := p.soon(time.Minute)
		e := p.ask(object{"expires_at": timestamp(at)})
		id := p.open(e)
		p.until(at.Add(time.Second))
		if rep := p.submit(e); rep.accepted() != id || rep.json.str("status") != "expired" {
			rep.wrong("202 with id %s and status expired", id)
		}
	}},
	{id: "key.day", section: "§8.1", says: "the key is known for a day", needs: []need{needClock}, check: func(p *probe) {
		e := p.ask()
		id := p.open(e)
		p.t.Clock.Advance(24*time.Hour - time.Minute)
		if rep := p.submit(e); rep.accepted() != id {
			rep.wrong("id %s: a key is known for 24 hours", id)
		}
	}},
}

// Reading a message (§8.2).
var pullRows = []row{
	{id: "pull.message", section: "§8.2", says: "a pull has the message as submitted, its id and its status", check: func(p *probe) {
		e := p.ask(object{
			"body": "Some *words*.", "priority": "high", "tags": []any{"a", "b"}, "client_ref": "ref", "sensitive": true,
			"context": []any{object{"kind": "text", "text": "Words."}},
		})
		id := p.open(e)
		rep := p.pull(id)
		m := rep.is(id, "open")
		for name, want := range e {
			if !same(m[name], want) {
				rep.wrong("%s to be %s, as it was submitted", name, show(want))
			}
		}
		if m["response"] != nil {
			rep.wrong("no response while the message is open")
		}
	}},
	{id: "pull.state", section: "§4", says: "state comes back as it was, whatever is in it", check: func(p *probe) {
		id := p.open(p.ask(object{"state": awkward()}))
		rep := p.pull(id)
		if m := rep.message(id); !same(m["state"], awkward()) {
			rep.wrong("state to be %s", show(awkward()))
		}
		p.cancel(id).object(http.StatusOK)
		if rep = p.pull(id); !same(rep.is(id, "cancelled").at("response", "state"), awkward()) {
			rep.wrong("response.state to be %s", show(awkward()))
		}
	}},
	{id: "pull.notify", section: "§5.1", says: "a notify stays delivered and has no Response", check: func(p *probe) {
		id := p.open(p.notify())
		rep := p.pull(id)
		if m := rep.is(id, "delivered"); m["response"] != nil {
			rep.wrong("no response")
		}
	}},
	{id: "pull.stable", section: "§8.2", says: "what has ended reads the same each time", check: func(p *probe) {
		id := p.open(p.ask())
		p.cancel(id).object(http.StatusOK)
		first := p.pull(id).is(id, "cancelled")
		for range 2 {
			rep := p.pull(id)
			if m := rep.is(id, "cancelled"); !same(m["response"], first["response"]) {
				rep.wrong("response to be %s, as at first", show(first["response"]))
			}
		}
	}},
	{id: "pull.unknown", section: "§8.2", says: "an unknown id is 404", check: func(p *probe) {
		p.pull("msg_"+p.key()).refused(404, "not_found")
	}},
	{id: "pull.foreign", section: "§9.1", says: "the message of another agent is as if it were unknown", needs: []need{needOther}, check: func(p *probe) {
		id := p.open(p.ask())
		p.asUnknown("GET", one(id, ""), one("msg_"+p.key(), ""), nil)
		p.pull(id).is(id, "open")
	}},
	{id: "pull.gone", section: "§8.2", says: "a deleted message is 410", needs: []need{needDelete}, check: func(p *probe) {
		id := p.open(p.ask())
		if err := p.t.Human.Delete(p.r.Context(), id); err != nil {
			p.fatal("Target.Human.Delete: %v", err)
		}
		p.pull(id).refused(410, "gone")
	}},
	{id: "pull.retention", section: "§8.2", says: "what has ended is there for retention_days", needs: []need{needClock}, check: func(p *probe) {
		days := p.limit(400, "retention_days")
		id, note := p.open(p.ask()), p.open(p.notify())
		p.cancel(id).object(http.StatusOK)
		p.t.Clock.Advance(time.Duration(days)*24*time.Hour - time.Hour)
		p.pull(id).is(id, "cancelled")
		p.pull(note).is(note, "delivered")
	}},
	{id: "pull.since.news", section: "§8.2", says: "since does not hide what has happened after it", needs: []need{needClock}, check: func(p *probe) {
		id := p.open(p.ask())
		p.t.Clock.Advance(time.Minute)
		since := timestamp(p.now())
		p.t.Clock.Advance(time.Minute)
		p.cancel(id).object(http.StatusOK)
		p.get(one(id, "?since="+url.QueryEscape(since))).is(id, "cancelled")
	}},
	{id: "pull.since.unchanged", section: "§8.2", says: "with since an unchanged status is 304 without a body", needs: []need{needClock}, check: func(p *probe) {
		id := p.open(p.ask())
		p.t.Clock.Advance(time.Minute)
		rep := p.get(one(id, "?since="+url.QueryEscape(timestamp(p.now()))))
		if rep.status != http.StatusNotModified || len(rep.body) > 0 {
			rep.wrong("304 without a body")
		}
	}},
}

// awkward is a state that a store may spoil: numbers, text, names and nesting.
func awkward() object {
	o, err := readObject([]byte(`{"sealed":"v1.not-a-seal","zero":-0.0,"big":1e21,"small":1e-7,"half":0.5,"most":9007199254740991,` +
		`"text":"\u00e9e\u0301 \u2028 </script> \"\\ \ud83d\ude00\u0001","":null,"list":[[],{},[false,true]],"\ud83d\ude00":1,"\ufb33":2}`))
	if err != nil {
		return nil // a test reads it
	}
	return o
}

// asUnknown holds what Other gets at a message of Agent to what it gets at an id
// that nobody has (§9.1).
func (p *probe) asUnknown(method, path, unknown string, body any) {
	p.r.Helper()
	rep, nobody := p.as(p.t.Other, method, path, body), p.as(p.t.Other, method, unknown, body)
	nobody.refused(404, "not_found")
	if rep.status != nobody.status || rep.code() != nobody.code() {
		rep.wrong("%s, as for an id that nobody has", nobody.came())
	}
}

// Long-polling (§8.2).
var holdRows = []row{
	{id: "hold.cancel", section: "§8.2", says: "a long-poll ends with a cancel", check: func(p *probe) {
		id := p.open(p.ask())
		p.woken(id, "cancelled", func() { p.cancel(id).object(http.StatusOK) })
	}},
	{id: "hold.answer", section: "§8.2", says: "a long-poll ends with the answer", needs: []need{needResolve}, check: func(p *probe) {
		id := p.open(p.ask())
		m := p.woken(id, "answered", func() { p.answer(id, "ship") })
		if m.str("response", "response", "value") != "ship" {
			p.fail("the answer that ended the long-poll is not in it: %s", show(m["response"]))
		}
	}},
	{id: "hold.ended", section: "§8.2", says: "a long-poll on what has ended is answered at once", check: func(p *probe) {
		id, note := p.open(p.ask()), p.open(p.notify())
		p.cancel(id).object(http.StatusOK)
		p.await(p.poll(one(id, "?wait=60")), "on a message that has ended").is(id, "cancelled")
		p.await(p.poll(one(note, "?wait=60")), "on a notify").is(note, "delivered")
	}},
	{id: "hold.timeout", section: "§8.2", says: "a long-poll is held for wait seconds and is then 200 with status open", needs: []need{needClock, needHeld}, check: func(p *probe) {
		id := p.open(p.ask())
		poll := p.poll(one(id, "?wait=10"))
		p.held(poll, id, "at first")
		p.t.Clock.Advance(9 * time.Second)
		p.held(poll, id, "after 9 of 10 seconds")
		p.t.Clock.Advance(time.Second)
		p.await(poll, "after all of its 10 seconds").is(id, "open")
	}},
	{id: "hold.cap", section: "§8.2", says: "no long-poll is held for more than 60 seconds", needs: []need{needClock, needHeld}, check: func(p *probe) {
		id := p.open(p.ask())
		poll := p.poll(one(id, "?wait=3600"))
		p.held(poll, id, "at first")
		p.t.Clock.Advance(time.Minute)
		p.await(poll, "after 60 seconds").is(id, "open")
	}},
}

// woken long-polls the message, ends it and returns what the poll brings.
func (p *probe) woken(id, status string, end func()) object {
	p.r.Helper()
	poll := p.poll(one(id, "?wait=60"))
	if p.t.Held != nil {
		p.held(poll, id, "at first")
	}
	end()
	rep := p.await(poll, "after the message has ended")
	if rep.message(id).str("status") == "open" {
		// The Hub was faster or does not hold; the next read has it.
		rep = p.pull(id)
	}
	return rep.is(id, status)
}
