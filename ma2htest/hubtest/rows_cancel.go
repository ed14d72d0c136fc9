package hubtest

import (
	"net/http"
	"time"
)

// Withdrawing an ask (§8.4).
var cancelRows = []row{
	{id: "cancel.ask", section: "§8.4", says: "a cancel is 200 and gives the ask a Response", check: func(p *probe) {
		e := p.ask()
		id := p.open(e)
		p.cancel(id).cancelled(id)
		rep := p.pull(id)
		rep.is(id, "cancelled")
		rep.response(e, id, ending{resolution: "cancelled"})
	}},
	{id: "cancel.again", section: "§8.4", says: "a second cancel is the same 200", check: func(p *probe) {
		id := p.open(p.ask())
		p.cancel(id).cancelled(id)
		p.cancel(id).cancelled(id)
	}},
	{id: "cancel.unknown", section: "§8.4", says: "a cancel of an unknown id is 404", check: func(p *probe) {
		p.cancel("msg_"+p.key()).refused(404, "not_found")
	}},
	{id: "cancel.foreign", section: "§8.4", says: "a cancel by another agent is as if the id were unknown and does nothing", needs: []need{needOther}, check: func(p *probe) {
		id := p.open(p.ask())
		p.asUnknown("POST", one(id, "/cancel"), one("msg_"+p.key(), "/cancel"), nil)
		p.pull(id).is(id, "open")
	}},
	{id: "cancel.task", section: "§8.4", says: "a task cannot be cancelled, nor can a notify", check: func(p *probe) {
		for id, status := range map[string]string{p.open(p.task()): "open", p.open(p.notify()): "delivered"} {
			if rep := p.cancel(id); rep.status/100 != 4 {
				rep.wrong("a 4xx")
			}
			p.pull(id).is(id, status)
		}
	}},
	{id: "cancel.late", section: "§8.4", says: "a cancel after the answer is 409 and tells the outcome", needs: []need{needResolve}, check: func(p *probe) {
		id := p.open(p.ask())
		p.answer(id, "ship")
		rep := p.cancel(id)
		rep.refused(409, "already_terminal")
		if rep.outcome("id") != id || rep.outcome("status") != "answered" || rep.outcome("resolution") != "answered" {
			rep.wrong("id %s, status answered and resolution answered", id)
		}
		p.pull(id).is(id, "answered")
	}},
	{id: "cancel.race", section: "§7", says: "of a cancel and an answer at once the first wins and the other learns it", needs: []need{needResolve}, check: func(p *probe) {
		for range 2 {
			id := p.open(p.ask())
			errs := make([]error, 4)
			replies := p.atOnce(8, func(i int) (string, any) {
				if i%2 == 0 {
					errs[i/2] = p.tryResolve(Resolution{MessageID: id, Outcome: "answered", Value: "ship"})
				}
				return one(id, "/cancel"), nil
			})
			rep := p.pull(id)
			status := rep.message(id).str("status")
			if status != "answered" && status != "cancelled" {
				rep.fatal("status answered or cancelled")
			}
			for _, r := range replies {
				if told := r.status == http.StatusOK; told != (status == "cancelled") {
					r.wrong("what the message says, which is %s", status)
				}
			}
			answered := 0
			for _, err := range errs {
				if err == nil {
					answered++
				}
			}
			if want := map[string]int{"answered": 1}[status]; answered != want {
				p.fail("%d of 4 answers ended the message, which is %s", answered, status)
			}
		}
	}},
	{id: "cancel.overdue", section: "§7", says: "a cancel after expires_at loses to expiry", needs: []need{needClock}, check: func(p *probe) {
		at := p.soon(time.Minute)
		id := p.open(p.ask(object{"expires_at": timestamp(at)}))
		p.until(at.Add(time.Second))
		rep := p.cancel(id)
		if rep.outcome("status") != "expired" {
			rep.wrong("status expired")
		}
		p.pull(id).is(id, "expired")
	}},
	{id: "cancel.intime", section: "§7", says: "a cancel at exactly expires_at is in time", needs: []need{needStandstill}, check: func(p *probe) {
		at := p.soon(time.Minute)
		id := p.open(p.ask(object{"expires_at": timestamp(at)}))
		p.until(at)
		p.cancel(id).cancelled(id)
	}},
}

// cancelled holds an answer to the success of §8.4.
func (r reply) cancelled(id string) {
	r.p.r.Helper()
	if o := r.object(http.StatusOK); o.str("id") != id || o.str("status") != "cancelled" {
		r.wrong(`200 {"id":"%s","status":"cancelled"}`, id)
	}
}

// outcome is a member of what a lost cancel tells. §8.4 shows it bare and §8.5
// wants an error envelope, so it is looked for in both.
func (r reply) outcome(name string) string {
	for _, o := range []object{r.json, r.json.obj("error"), r.json.obj("error", "details")} {
		if s := o.str(name); s != "" {
			return s
		}
	}
	return ""
}
