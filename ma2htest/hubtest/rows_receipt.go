package hubtest

import (
	"net/http"
	"net/url"
	"time"
)

// Receipts of Responses (§14).
var receiptRows = []row{
	{id: "ack.message", section: "§14.1", says: "an acknowledgment is by the agent, at the Hub's time, with the note", needs: []need{needAck, needResolve}, check: func(p *probe) {
		id, resolution := p.answered()
		ack := p.ack(p.t.Agent, id, object{"note": "Going on.", "resolution_id": resolution}).object(http.StatusOK)
		rep := p.pull(id)
		for name, want := range map[string]any{"type": "ack", "in_reply_to": id, "by": "agent:" + p.t.Agent.ID, "note": "Going on."} {
			if !same(ack[name], want) {
				rep.wrong("%s of the acknowledgment to be %s, not %s", name, show(want), show(ack[name]))
			}
		}
		if minor(ack.str("ma2h_version")) < 4 {
			rep.wrong("ma2h_version of the acknowledgment to be 0.4 or later, not %s", show(ack["ma2h_version"]))
		}
		if _, err := time.Parse(time.RFC3339Nano, ack.str("acked_at")); err != nil {
			rep.wrong("acked_at of the acknowledgment to be of RFC 3339, not %s", show(ack["acked_at"]))
		}
	}},
	{id: "ack.first", section: "§14.1", says: "the first acknowledgment stands and is what every other gets", needs: []need{needAck, needResolve}, check: func(p *probe) {
		id, _ := p.answered()
		first := p.ack(p.t.Agent, id, object{"note": "one"}).object(http.StatusOK)
		for _, body := range []any{object{"note": "two"}, object{}} {
			if rep := p.ack(p.t.Agent, id, body); !sameAck(rep.object(http.StatusOK), first) {
				rep.wrong("the first acknowledgment, %s", show(first))
			}
		}
	}},
	{id: "ack.race", section: "§14.1", says: "of many acknowledgments at once one stands and all get it", needs: []need{needAck, needResolve}, check: func(p *probe) {
		id, _ := p.answered()
		notes := []string{"a", "b", "c", "d", "e", "f"}
		var first object
		for _, rep := range p.atOnce(len(notes), func(i int) (string, any) { return one(id, "/ack"), object{"note": notes[i]} }) {
			got := rep.object(http.StatusOK)
			if first == nil {
				first = got
			}
			if !sameAck(got, first) {
				rep.wrong("%s, as the others got", show(first))
			}
		}
	}},
	{id: "ack.open", section: "§14.3", says: "an open message cannot be acknowledged", needs: []need{needAck}, check: func(p *probe) {
		id := p.open(p.ask())
		rep := p.ack(p.t.Agent, id, object{"note": "early"})
		if rep.status != http.StatusConflict || rep.code() == "" {
			rep.wrong("409 in an error envelope")
		}
		p.pull(id).is(id, "open")
	}},
	{id: "ack.forged", section: "§14.1", says: "who acknowledged what is the Hub's word and not the request's", needs: []need{needAck, needResolve}, check: func(p *probe) {
		id, resolution := p.answered()
		rep := p.ack(p.t.Agent, id, object{"by": "agent:somebody", "in_reply_to": "msg_other", "resolution_id": "res_other"})
		if rep.status/100 == 4 {
			rep = p.ack(p.t.Agent, id, object{}) // it may refuse the wrong id
		}
		ack := rep.object(http.StatusOK)
		if ack.str("by") != "agent:"+p.t.Agent.ID || ack.str("in_reply_to") != id {
			rep.wrong("by agent:%s and in_reply_to %s", p.t.Agent.ID, id)
		}
		if r, there := ack["resolution_id"]; there && !same(r, resolution) {
			rep.wrong("resolution_id %s, that of the Response", resolution)
		}
	}},
	{id: "ack.foreign", section: "§14.3", says: "an acknowledgment by another agent is as if the id were unknown and does nothing", needs: []need{needAck, needResolve, needOther}, check: func(p *probe) {
		id, _ := p.answered()
		p.asUnknown("POST", one(id, "/ack"), one("msg_"+p.key(), "/ack"), object{"note": "not mine"})
		rep := p.ack(p.t.Agent, id, object{"note": "mine"})
		if got := rep.object(http.StatusOK).str("note"); got != "mine" {
			rep.wrong("the agent's own acknowledgment")
		}
	}},
	{id: "ack.track", section: "§14.2", says: "a read makes it delivered-to-agent and an acknowledgment acknowledged, and neither touches the resolution", needs: []need{needAck, needResolve}, check: func(p *probe) {
		id, _ := p.answered()
		rep := p.pull(id)
		before := rep.is(id, "answered")
		if before.str("delivery", "state") != "delivered-to-agent" {
			rep.wrong("delivery.state delivered-to-agent: the agent has read the message")
		}
		ack := p.ack(p.t.Agent, id, object{"note": "Going on."}).object(http.StatusOK)
		rep = p.pull(id)
		after := rep.is(id, "answered")
		if after.str("delivery", "state") != "acknowledged" {
			rep.wrong("delivery.state acknowledged")
		}
		if got := after.obj("delivery", "ack"); got != nil && !sameAck(got, ack) {
			rep.wrong("delivery.ack to be %s", show(ack))
		}
		if !same(after["response"], before["response"]) {
			rep.wrong("response to be %s, as before", show(before["response"]))
		}
	}},
	{id: "ack.pushed", section: "§14.4", says: "an acknowledgment that is pushed is the one on record, signed", needs: []need{needAck, needResolve, needPushAck, needAckKeys}, check: func(p *probe) {
		for _, body := range []object{{"note": "Going on \u2028 </b>."}, {}} {
			id, _ := p.answered()
			ack := p.ack(p.t.Agent, id, body).object(http.StatusOK)
			rec := p.receiver(nil)
			if err := p.t.Human.PushAck(p.r.Context(), id, rec); err != nil {
				p.fatal("Target.Human.PushAck: %v", err)
			}
			a := p.arrived(rec, 1)[0]
			if !sameAck(a.body, ack) {
				a.reply(p).wrong("the acknowledgment %s", show(ack))
			}
			p.signed(a, ackContext(a.body), p.t.AckKeys)
		}
	}},
}

// sameAck reports whether two acknowledgments agree in what the text knows
// (§14.1).
func sameAck(a, b object) bool {
	for _, name := range []string{"ma2h_version", "type", "in_reply_to", "by", "acked_at", "note", "resolution_id"} {
		if !same(a[name], b[name]) {
			return false
		}
	}
	return true
}

// answered is an ask that has its answer, which the agent has read.
func (p *probe) answered() (id, resolution string) {
	p.r.Helper()
	id = p.open(p.ask())
	p.answer(id, "ship")
	return id, p.pull(id).is(id, "answered").str("response", "resolution_id")
}

func (p *probe) ack(who Agent, id string, body any) reply {
	p.r.Helper()
	return p.as(who, "POST", one(id, "/ack"), body)
}

// Whether an agent listens (§15).
var presenceRows = []row{
	{id: "presence.unknown", section: "§15.2", says: "an agent that was never seen is unknown", needs: []need{needPresence, needOwner}, check: func(p *probe) {
		p.presence(p.t.Owner, "nobody/"+p.key(), "unknown")
	}},
	{id: "presence.online", section: "§15.1", says: "an agent that has just long-polled is online", needs: []need{needPresence, needOwner}, check: func(p *probe) {
		p.listen()
		p.presence(p.t.Owner, p.t.Agent.ID, "online")
	}},
	{id: "presence.offline", section: "§15.2", says: "after the window of freshness it is offline", needs: []need{needPresence, needOwner, needClock}, check: func(p *probe) {
		p.listen()
		fresh := p.limit(1<<40, "presence", "freshness_seconds")
		p.t.Clock.Advance(time.Duration(fresh+1) * time.Second)
		p.presence(p.t.Owner, p.t.Agent.ID, "offline")
		p.listen()
		p.presence(p.t.Owner, p.t.Agent.ID, "online")
	}},
	{id: "presence.drain", section: "§15.1", says: "an agent that has just drained its mailbox is online", needs: []need{needPresence, needInbound, needOwner, needClock}, check: func(p *probe) {
		fresh := p.limit(1<<40, "presence", "freshness_seconds")
		p.t.Clock.Advance(time.Duration(fresh+1) * time.Second)
		p.drain("")
		p.presence(p.t.Owner, p.t.Agent.ID, "online")
	}},
	{id: "presence.edge", section: "§15.2", says: "at the end of the window it is still online", needs: []need{needPresence, needOwner, needStandstill}, check: func(p *probe) {
		p.listen()
		fresh := p.limit(1<<40, "presence", "freshness_seconds")
		p.t.Clock.Advance(time.Duration(fresh) * time.Second)
		p.presence(p.t.Owner, p.t.Agent.ID, "online")
	}},
	{id: "presence.private", section: "§15.3", says: "to an agent every agent is as one that was never seen", needs: []need{needPresence, needOther}, check: func(p *probe) {
		p.listen()
		nobody := "nobody/" + p.key()
		for _, who := range []Agent{p.t.Other, p.t.Agent} {
			unseen := p.as(who, "GET", presencePath(nobody), nil)
			rep := p.as(who, "GET", presencePath(p.t.Agent.ID), nil)
			if rep.status != unseen.status || rep.code() != unseen.code() || rep.json.str("state") != unseen.json.str("state") || rep.json["last_seen"] != nil {
				rep.wrong("%s, as for an agent that nobody has seen", unseen.came())
			}
			if unseen.status == http.StatusOK && unseen.json.str("state") != "unknown" {
				unseen.wrong("state unknown")
			}
		}
	}},
}

func presencePath(agentID string) string {
	return "/v1/agents/" + url.PathEscape(agentID) + "/presence"
}

// listen is what makes an agent reachable (§15.1): a long-poll.
func (p *probe) listen() {
	p.r.Helper()
	id := p.open(p.ask())
	p.cancel(id).object(http.StatusOK)
	p.get(one(id, "?wait=1")).is(id, "cancelled")
}

// presence holds the read of §15.3 to a state.
func (p *probe) presence(who Credential, agentID, state string) {
	p.r.Helper()
	rep := p.send(who, "GET", presencePath(agentID), nil)
	o := rep.object(http.StatusOK)
	if o.str("agent_id") != agentID || o.str("state") != state {
		rep.wrong("agent_id %s and state %s", agentID, state)
	}
	if n, ok := o.whole("freshness_seconds"); !ok || n < 1 {
		rep.wrong("freshness_seconds from 1")
	}
	_, seen := o["last_seen"]
	if _, err := time.Parse(time.RFC3339Nano, o.str("last_seen")); seen != (state != "unknown") || seen && err != nil {
		rep.wrong("last_seen of RFC 3339 if and only if the state is not unknown")
	}
}

// What the end of the Hub's process must not take with it (§3.1).
var restartRows = []row{
	{id: "restart.messages", section: "§3.1", says: "a restart loses no open message, no resolution and no notify", needs: []need{needRestart}, check: func(p *probe) {
		ask := p.ask(object{"state": awkward()})
		task, ended, note := p.open(p.task()), p.open(p.ask()), p.open(p.notify())
		open := p.open(ask)
		p.cancel(ended).cancelled(ended)
		before := p.pull(ended).is(ended, "cancelled")
		p.restart()
		p.pull(task).is(task, "open")
		p.pull(note).is(note, "delivered")
		if rep := p.pull(open); !same(rep.is(open, "open")["state"], awkward()) {
			rep.wrong("the state as it was submitted")
		}
		if rep := p.pull(ended); !same(rep.is(ended, "cancelled")["response"], before["response"]) {
			rep.wrong("response to be %s, as before the restart", show(before["response"]))
		}
		if rep := p.submit(ask); rep.accepted() != open {
			rep.wrong("id %s: the idempotency_key is known for its time", open)
		}
	}},
	{id: "restart.mailbox", section: "§3.1", says: "a restart loses no directive", needs: []need{needRestart, needInbound, needDirect, needClock}, check: func(p *probe) {
		p.emptyMailbox()
		id := p.direct(Directive{Title: "before the restart"})
		drained := p.direct(Directive{Title: "drained before the restart"})
		p.drain("?max=2")
		p.restart()
		p.pastVisibility()
		got := p.drain("")
		for _, want := range []string{id, drained} {
			if got.entry(want) == nil {
				got.wrong("the directive %s, which was not acknowledged", want)
			}
		}
	}},
	{id: "restart.push", section: "§3.1", says: "a push that is owed is made after a restart", needs: []need{needRestart, needCallback, needClock}, check: func(p *probe) {
		cb, rec := p.callback("", answers(503))
		id := p.open(p.ask(p.pushTo(cb, "")))
		p.cancel(id).cancelled(id)
		p.arrived(rec, 1)
		rec.turn(answers(200))
		p.restart()
		if !p.pass(24*time.Hour, func() bool { return rec.count() > 1 }) {
			p.fail("no attempt to push came within 24 hours after the restart")
		}
	}},
}

func (p *probe) restart() {
	p.r.Helper()
	if err := p.t.Restart(p.r.Context()); err != nil {
		p.fatal("Target.Restart: %v", err)
	}
}
