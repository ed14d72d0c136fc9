package hubtest

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// What a human may do to a message (§5.2, §7, §9.1).
var resolveRows = []row{
	{id: "resolve.options", section: "§5.2", says: "an answer is one of the options", needs: []need{needResolve}, check: func(p *probe) {
		id := p.open(p.ask())
		for _, v := range []any{"burn", "Ship", ""} {
			p.refusesTo(Resolution{MessageID: id, Outcome: "answered", Value: v}, "the value is not one of the options")
		}
	}},
	{id: "resolve.confirm", section: "§5.2", says: "a confirm without options has the answers approve and deny", needs: []need{needResolve}, check: func(p *probe) {
		ask := func() object {
			return p.ask(object{"request": p.choice(object{"mode": "confirm", "options": nil})})
		}
		id := p.open(ask())
		p.refusesTo(Resolution{MessageID: id, Outcome: "answered", Value: "yes"}, "the options are approve and deny")
		for _, v := range []string{"approve", "deny"} {
			id := p.open(ask())
			p.answer(id, v)
			if rep := p.pull(id); rep.is(id, "answered").str("response", "response", "value") != v {
				rep.wrong("value %s", v)
			}
		}
	}},
	{id: "resolve.schema", section: "§5.2", says: "an answer to an input fits its schema", needs: []need{needResolve}, check: func(p *probe) {
		id := p.open(p.ask(object{"request": p.input()}))
		for _, v := range []any{map[string]any{"count": 1}, map[string]any{"reason": 7}, "reason"} {
			p.refusesTo(Resolution{MessageID: id, Outcome: "answered", Value: v}, "the value does not fit the schema")
		}
	}},
	{id: "resolve.verb", section: "§6", says: "an ask does not end as a task does, nor a task as an ask", needs: []need{needResolve}, check: func(p *probe) {
		ask, task := p.open(p.ask()), p.open(p.task())
		for _, outcome := range []string{"completed", "dismissed"} {
			p.refusesTo(Resolution{MessageID: ask, Outcome: outcome}, "an ask does not end as "+outcome)
		}
		p.refusesTo(Resolution{MessageID: task, Outcome: "answered", Value: "ship"}, "a task does not end as answered")
		p.refusesTo(Resolution{MessageID: task, Outcome: "declined"}, "a task does not end as declined")
	}},
	{id: "resolve.notify", section: "§5.1", says: "a notify takes no answer", needs: []need{needResolve}, check: func(p *probe) {
		id := p.open(p.notify())
		_ = p.tryResolve(Resolution{MessageID: id, Outcome: "answered", Value: "ship"})
		rep := p.pull(id)
		if m := rep.is(id, "delivered"); m["response"] != nil {
			rep.wrong("no response: none is routed for a notify")
		}
	}},
	{id: "resolve.respond", section: "§5.2", says: "allow_respond false takes the answer away", needs: []need{needResolve}, check: func(p *probe) {
		id := p.open(p.ask(object{"request": p.choice(object{"permissions": object{"allow_respond": false}})}))
		p.refusesTo(Resolution{MessageID: id, Outcome: "answered", Value: "ship"}, "allow_respond is false")
		p.resolve(Resolution{MessageID: id, Outcome: "declined"})
	}},
	{id: "resolve.ignore", section: "§5.2", says: "allow_ignore false takes the refusal away", needs: []need{needResolve}, check: func(p *probe) {
		id := p.open(p.ask(object{"request": p.choice(object{"permissions": object{"allow_ignore": false}})}))
		p.refusesTo(Resolution{MessageID: id, Outcome: "declined"}, "allow_ignore is false")
		p.answer(id, "ship")
	}},
	{id: "resolve.listed", section: "§9.1", says: "who is not in allowed_resolvers does not resolve", needs: []need{needResolve}, check: func(p *probe) {
		for id, outcome := range map[string]Resolution{
			p.open(p.ask()): {Outcome: "answered", Value: "ship"}, p.open(p.task()): {Outcome: "completed"},
		} {
			outcome.MessageID, outcome.By = id, p.t.Human.Stranger
			p.refusesTo(outcome, "the resolver is not in allowed_resolvers")
		}
	}},
	{id: "resolve.unlisted", section: "§9.1", says: "without allowed_resolvers no human resolves", needs: []need{needResolve}, check: func(p *probe) {
		id := p.open(p.ask(object{"request": p.choice(object{"allowed_resolvers": nil})}))
		p.refusesTo(Resolution{MessageID: id, Outcome: "answered", Value: "ship"}, "only the submitting agent may resolve")
	}},
	{id: "resolve.once", section: "§7", says: "the first end stands, whatever comes after", needs: []need{needResolve}, check: func(p *probe) {
		id := p.open(p.ask())
		p.answer(id, "ship")
		first := p.pull(id).is(id, "answered")
		for _, r := range []Resolution{{Outcome: "answered", Value: "hold"}, {Outcome: "declined"}} {
			r.MessageID = id
			if err := p.tryResolve(r); err == nil {
				p.fail("Target.Human.Resolve returned no error for a message that had ended")
			}
			rep := p.pull(id)
			if m := rep.is(id, "answered"); !same(m["response"], first["response"]) {
				rep.wrong("response to be %s, as at first", show(first["response"]))
			}
		}
	}},
	{id: "resolve.race", section: "§7", says: "of many answers at once exactly one is taken", needs: []need{needResolve}, check: func(p *probe) {
		for range 2 {
			id := p.open(p.ask())
			values, errs := []string{"ship", "hold"}, make([]error, 8)
			together(len(errs), func(i int) {
				errs[i] = p.tryResolve(Resolution{MessageID: id, Outcome: "answered", Value: values[i%2]})
			})
			rep := p.pull(id)
			value := rep.is(id, "answered").str("response", "response", "value")
			var taken []string
			for i, err := range errs {
				if err == nil {
					taken = append(taken, values[i%2])
				}
			}
			if len(taken) != 1 || taken[0] != value {
				p.fail("%d answers at once ended the message, and its value is %s: exactly one may, and it is that value", len(taken), value)
			}
		}
	}},
	{id: "resolve.withdraw", section: "§7", says: "an ask that the Hub withdraws is cancelled with a Response", needs: []need{needWithdraw}, check: func(p *probe) {
		e := p.ask()
		id := p.open(e)
		if err := p.t.Human.Withdraw(p.r.Context(), id); err != nil {
			p.fatal("Target.Human.Withdraw: %v", err)
		}
		rep := p.pull(id)
		rep.is(id, "cancelled")
		rep.response(e, id, ending{resolution: "cancelled"})
	}},
}

// The Response of a message that has ended (§6).
var responseRows = []row{
	{id: "response.answered", section: "§6", says: "an answer is the value, and the actor is whom the Hub attests", needs: []need{needResolve}, check: func(p *probe) {
		e := p.ask(object{"state": awkward()})
		id := p.open(e)
		p.resolve(Resolution{MessageID: id, Outcome: "answered", Value: "ship", Comment: "Go ahead."})
		p.pull(id).response(e, id, ending{resolution: "answered", value: "ship", actor: p.t.Human.ID, comment: "Go ahead."})
	}},
	{id: "response.input", section: "§6", says: "the answer to an input is the object", needs: []need{needResolve}, check: func(p *probe) {
		e := p.ask(object{"request": p.input()})
		id := p.open(e)
		p.answer(id, map[string]any{"reason": "Late \u2028 hour", "count": 2})
		p.pull(id).response(e, id, ending{resolution: "answered", value: object{"reason": "Late \u2028 hour", "count": 2}, actor: p.t.Human.ID})
	}},
	{id: "response.declined", section: "§6", says: "a refusal is declined, with an actor and without a value", needs: []need{needResolve}, check: func(p *probe) {
		e := p.ask()
		id := p.open(e)
		p.resolve(Resolution{MessageID: id, Outcome: "declined", Comment: "Not now."})
		p.pull(id).response(e, id, ending{resolution: "declined", actor: p.t.Human.ID, comment: "Not now."})
	}},
	{id: "response.completed", section: "§6", says: "a task that is done is completed, with its comment and never with a value", needs: []need{needResolve}, check: func(p *probe) {
		e := p.task(object{"state": object{"sealed": "blob"}})
		id := p.open(e)
		p.resolve(Resolution{MessageID: id, Outcome: "completed", Comment: "Done."})
		p.pull(id).response(e, id, ending{resolution: "completed", actor: p.t.Human.ID, comment: "Done."})
	}},
	{id: "response.dismissed", section: "§6", says: "a task that is refused is dismissed", needs: []need{needResolve}, check: func(p *probe) {
		e := p.task()
		id := p.open(e)
		p.resolve(Resolution{MessageID: id, Outcome: "dismissed"})
		p.pull(id).response(e, id, ending{resolution: "dismissed"})
	}},
	{id: "response.version", section: "§10", says: "a Response has the version that was submitted", needs: []need{need03}, check: func(p *probe) {
		for m := 3; m <= min(p.minor, 4); m++ {
			v := fmt.Sprintf("0.%d", m)
			id := p.open(p.ask(object{"ma2h_version": v}))
			p.cancel(id).object(200)
			if rep := p.pull(id); rep.is(id, "cancelled").str("response", "ma2h_version") != v {
				rep.wrong("response.ma2h_version %s, that of the submit", v)
			}
		}
	}},
	{id: "response.time", section: "§9.5", says: "resolved_at is a time of the Hub's clock", needs: []need{needResolve, needStandstill}, check: func(p *probe) {
		id := p.open(p.ask())
		p.t.Clock.Advance(time.Hour)
		p.answer(id, "ship")
		rep := p.pull(id)
		at, err := time.Parse(time.RFC3339Nano, rep.is(id, "answered").str("response", "response", "resolved_at"))
		if err != nil || at.Sub(p.now()).Abs() > time.Second {
			rep.wrong("resolved_at %s, as the Hub's clock says", timestamp(p.now()))
		}
	}},
	{id: "response.ids", section: "§6", says: "each end has a resolution_id of its own", check: func(p *probe) {
		seen := make(map[string]bool)
		for range 3 {
			id := p.open(p.ask())
			p.cancel(id).object(200)
			rep := p.pull(id)
			r := rep.is(id, "cancelled").str("response", "resolution_id")
			if r == "" || seen[r] {
				rep.wrong("a resolution_id that no other message has")
			}
			seen[r] = true
		}
	}},
}

// ending is how a message should have ended. An empty actor is any.
type ending struct {
	resolution string
	value      any
	actor      string
	comment    string
	defaulted  bool
}

var attested = regexp.MustCompile(`^(human|agent|system):.+$`)

// response holds a pull of id to the Response that it must embed (§6).
func (r reply) response(envelope object, id string, want ending) {
	r.p.r.Helper()
	m := r.message(id)
	if m.str("status") != want.resolution {
		r.wrong("status %s", want.resolution)
	}
	if resp := m.obj("response"); resp == nil {
		r.wrong("a response, the message having ended")
	} else {
		r.envelope(resp, envelope, id, want)
	}
}

// envelope holds a Response, pulled or pushed, to the message that it answers.
func (r reply) envelope(resp, envelope object, id string, want ending) {
	r.p.r.Helper()
	for name, v := range map[string]any{
		"ma2h_version": envelope["ma2h_version"], "in_reply_to": id, "resolution": want.resolution, "state": envelope["state"],
	} {
		if !same(resp[name], v) {
			r.wrong("%s of the Response to be %s", name, show(v))
		}
	}
	if resp.str("resolution_id") == "" {
		r.wrong("a resolution_id in the Response")
	}
	for _, name := range []string{"id", "run_id"} {
		if !same(resp.at("agent", name), envelope.at("agent", name)) {
			r.wrong("agent.%s of the Response to be %s", name, show(envelope.at("agent", name)))
		}
	}
	if resp.flag("defaulted") != want.defaulted {
		r.wrong("defaulted %v: it is true if and only if default_on_expire was applied", want.defaulted)
	}
	detail := resp.obj("response")
	if detail == nil {
		if envelope.str("type") == "ask" || want.comment != "" {
			r.wrong("response.response: it is mandatory for an ask and carries the comment of a task")
		}
		return
	}
	actor := detail.str("actor")
	if !attested.MatchString(actor) || want.actor != "" && actor != want.actor {
		r.wrong("actor %s of the form <type>:<id>", want.actor)
	}
	if _, err := time.Parse(time.RFC3339Nano, detail.str("resolved_at")); err != nil {
		r.wrong("a resolved_at of RFC 3339")
	}
	if _, there := detail["value"]; there != (want.value != nil) || !same(detail["value"], want.value) {
		r.wrong("value to be %s", show(want.value))
	}
	if detail.str("comment") != want.comment {
		r.wrong("comment to be %s", show(want.comment))
	}
}

// What time does to a message (§7, §9.5).
var expiryRows = []row{
	{id: "expiry.default", section: "§7", says: "an overdue ask expires with its default", needs: []need{needClock}, check: func(p *probe) {
		p.overdue(object{"default_on_expire": "hold"}, ending{value: "hold", actor: "system:default_on_expire", defaulted: true})
	}},
	{id: "expiry.default.input", section: "§7", says: "an overdue input expires with its default object", needs: []need{needClock}, check: func(p *probe) {
		at := p.soon(time.Minute)
		late := object{"reason": "late"}
		e := p.ask(object{"expires_at": timestamp(at), "request": p.input(object{"default_on_expire": late})})
		id := p.open(e)
		p.until(at.Add(time.Second))
		p.pull(id).response(e, id, ending{resolution: "expired", value: late, actor: "system:default_on_expire", defaulted: true})
	}},
	{id: "expiry.bare", section: "§7", says: "an overdue ask without a default expires without a value", needs: []need{needClock}, check: func(p *probe) {
		p.overdue(nil, ending{})
	}},
	{id: "expiry.null", section: "§5.2", says: "a default of null is none", needs: []need{needClock}, check: func(p *probe) {
		at := p.soon(time.Minute)
		e := p.ask(object{"expires_at": timestamp(at)})
		e.obj("request")["default_on_expire"] = nil
		id := p.open(e)
		p.until(at.Add(time.Second))
		p.pull(id).response(e, id, ending{resolution: "expired"})
	}},
	{id: "expiry.task", section: "§5.3", says: "an overdue task expires with no default", needs: []need{needClock}, check: func(p *probe) {
		at := p.soon(time.Minute)
		e := p.task(object{"expires_at": timestamp(at)})
		id := p.open(e)
		p.until(at.Add(time.Second))
		p.pull(id).response(e, id, ending{resolution: "expired"})
	}},
	{id: "expiry.actor", section: "§6", says: "no human is the actor of an expiry", needs: []need{needClock}, check: func(p *probe) {
		at := p.soon(time.Minute)
		id := p.open(p.ask(object{"expires_at": timestamp(at)}))
		p.until(at.Add(time.Second))
		rep := p.pull(id)
		if actor := rep.is(id, "expired").str("response", "response", "actor"); !attested.MatchString(actor) || strings.HasPrefix(actor, "human:") {
			rep.wrong("an actor that is no human")
		}
	}},
	{id: "expiry.early", section: "§7", says: "nothing expires before its time", needs: []need{needClock}, check: func(p *probe) {
		at := p.soon(time.Hour)
		id := p.open(p.ask(object{"expires_at": timestamp(at)}))
		p.until(at.Add(-time.Minute))
		p.pull(id).is(id, "open")
	}},
	{id: "expiry.intime", section: "§7", says: "an answer at exactly expires_at beats the default", needs: []need{needResolve, needStandstill}, check: func(p *probe) {
		at := p.soon(time.Minute)
		e := p.ask(object{"expires_at": timestamp(at), "request": p.choice(object{"default_on_expire": "hold"})})
		id := p.open(e)
		p.until(at)
		p.answer(id, "ship")
		p.pull(id).response(e, id, ending{resolution: "answered", value: "ship", actor: p.t.Human.ID})
	}},
	{id: "expiry.late", section: "§7", says: "an answer after expires_at is too late", needs: []need{needResolve, needClock}, check: func(p *probe) {
		at := p.soon(time.Minute)
		e := p.ask(object{"expires_at": timestamp(at), "request": p.choice(object{"default_on_expire": "hold"})})
		id := p.open(e)
		p.until(at.Add(time.Second))
		_ = p.tryResolve(Resolution{MessageID: id, Outcome: "answered", Value: "ship"})
		p.pull(id).response(e, id, ending{resolution: "expired", value: "hold", actor: "system:default_on_expire", defaulted: true})
	}},
	{id: "expiry.hold", section: "§8.2", says: "a long-poll ends with an expiry", needs: []need{needClock, needHeld}, check: func(p *probe) {
		at := p.soon(5 * time.Second)
		id := p.open(p.ask(object{"expires_at": timestamp(at)}))
		poll := p.poll(one(id, "?wait=60"))
		p.held(poll, id, "at first")
		p.until(at.Add(time.Second))
		p.await(poll, "after the message has expired").is(id, "expired")
	}},
}

// overdue lets an ask expire and looks at its Response.
func (p *probe) overdue(request object, want ending) {
	p.r.Helper()
	at := p.soon(time.Minute)
	e := p.ask(object{"expires_at": timestamp(at), "request": p.choice(request)})
	id := p.open(e)
	p.until(at.Add(time.Second))
	want.resolution = "expired"
	p.pull(id).response(e, id, want)
}
