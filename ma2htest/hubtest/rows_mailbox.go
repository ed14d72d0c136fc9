package hubtest

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// The mailbox of an agent (§8.7).
var mailboxRows = []row{
	{id: "inbox.empty", section: "§8.7", says: "an empty mailbox is 200 with an empty list", needs: []need{needInbound}, check: func(p *probe) {
		p.emptyMailbox() // ends with one
	}},
	{id: "inbox.order", section: "§8.7", says: "directives come in the order in which they were sent", needs: []need{needInbound, needDirect}, check: func(p *probe) {
		p.emptyMailbox()
		var ids []string
		for i := range 3 {
			ids = append(ids, p.direct(Directive{Title: fmt.Sprint("number ", i)}))
		}
		if d := p.drain(""); !same(d.ids(), texts(ids)) {
			d.wrong("the directives %s in this order", show(texts(ids)))
		}
	}},
	{id: "inbox.max", section: "§8.7", says: "max bounds a batch, and max_batch bounds max", needs: []need{needInbound, needDirect}, check: func(p *probe) {
		p.emptyMailbox()
		limit, bounded := p.doc.whole("inbound", "max_batch")
		n := 3
		if bounded && limit < 64 {
			n = max(n, int(limit)+2)
		}
		var ids []string
		for i := range n {
			ids = append(ids, p.direct(Directive{Title: fmt.Sprint("number ", i)}))
		}
		if d := p.drain("?max=1"); len(d.entries) != 1 || d.entry(ids[0]) == nil {
			d.wrong("one entry, the directive %s", ids[0])
		}
		if d := p.drain("?max=" + strconv.Itoa(n+1000)); len(d.entries) == 0 || bounded && int64(len(d.entries)) > limit {
			d.wrong("1 to %d entries, the max_batch of the capability document; there are %d", limit, len(d.entries))
		}
	}},
	{id: "inbox.hidden", section: "§8.7", says: "what was drained is hidden for the visibility window", needs: []need{needInbound, needDirect}, check: func(p *probe) {
		p.emptyMailbox()
		id := p.direct(Directive{Title: "once"})
		p.drain("").must(id)
		if d := p.drain(""); d.entry(id) != nil {
			d.wrong("the directive %s not before its window lapses", id)
		}
	}},
	{id: "inbox.again", section: "§8.7", says: "what was not acknowledged comes again after the window", needs: []need{needInbound, needDirect, needClock}, check: func(p *probe) {
		p.emptyMailbox()
		id := p.direct(Directive{Title: "twice"})
		first := p.drain("").must(id)
		for range 2 {
			p.pastVisibility()
			if d := p.drain(""); !same(d.must(id).directive, first.directive) {
				d.wrong("the same directive, %s", show(first.directive))
			}
		}
	}},
	{id: "inbox.ack", section: "§8.7", says: "what was acknowledged does not come again", needs: []need{needInbound, needDirect, needClock}, check: func(p *probe) {
		p.emptyMailbox()
		id, other := p.direct(Directive{Title: "to be acknowledged"}), p.direct(Directive{Title: "not to be acknowledged"})
		p.drain("").must(id)
		rep := p.ackInbox(p.t.Agent, "Got it.", id)
		if n, ok := rep.object(http.StatusOK).whole("acked"); !ok || n < 0 {
			rep.wrong(`200 {"acked": <count>}`)
		}
		p.pastVisibility()
		d := p.drain("")
		if d.entry(id) != nil {
			d.wrong("the directive %s not: it was acknowledged", id)
		}
		d.must(other)
	}},
	{id: "inbox.ack.again", section: "§8.7", says: "an acknowledgment of what is unknown or acknowledged is no error", needs: []need{needInbound, needDirect}, check: func(p *probe) {
		p.emptyMailbox()
		id := p.direct(Directive{Title: "to be acknowledged"})
		p.drain("").must(id)
		for range 2 {
			p.ackInbox(p.t.Agent, "", id, "dir_"+p.key()).object(http.StatusOK)
		}
		p.ackInbox(p.t.Agent, "").object(http.StatusOK)
	}},
	{id: "inbox.foreign", section: "§13.5", says: "no agent drains or acknowledges what is another's", needs: []need{needInbound, needDirect, needOther, needClock}, check: func(p *probe) {
		p.emptyMailbox()
		id := p.direct(Directive{Title: "for one agent only"})
		d := p.drainAs(p.t.Other, "")
		if d.entry(id) != nil {
			d.wrong("the directive %s not: it is to another agent", id)
		}
		p.drain("").must(id)
		rep, nobody := p.ackInbox(p.t.Other, "", id), p.ackInbox(p.t.Other, "", "dir_"+p.key())
		if rep.status != nobody.status || !same(rep.json, nobody.json) {
			rep.wrong("%s, as for an id that nobody has", nobody.came())
		}
		p.pastVisibility()
		p.drain("").must(id)
	}},
	{id: "inbox.atonce", section: "§8.7", says: "of many drains at once one gets a directive", needs: []need{needInbound, needDirect}, check: func(p *probe) {
		p.emptyMailbox()
		id := p.direct(Directive{Title: "for one drain only"})
		got := make([]int, 6)
		errs := make([]error, len(got))
		together(len(got), func(i int) {
			rep, err := p.try(p.r.Context(), p.t.Agent.Credential, "GET", p.inboxURL(), nil)
			errs[i] = err
			for _, e := range (reply{p: p, json: rep.json}).entries() {
				if e.directive.str("id") == id {
					got[i]++
				}
			}
		})
		n := 0
		for i := range got {
			if errs[i] != nil {
				p.fatal("no answer: %v", errs[i])
			}
			n += got[i]
		}
		if n != 1 {
			p.fail("6 drains at once got the directive %s %d times: it is hidden once it is drained", id, n)
		}
	}},
	{id: "inbox.expires", section: "§13.3", says: "a directive is delivered before expires_at and dropped after it", needs: []need{needInbound, needDirect, needClock}, check: func(p *probe) {
		p.emptyMailbox()
		at := p.soon(time.Hour)
		id := p.direct(Directive{Title: "for an hour", ExpiresAt: at})
		undrained := p.direct(Directive{Title: "for an hour, undrained", ExpiresAt: at})
		p.drain("?max=1").must(id)
		p.until(at.Add(-time.Minute)) // its window has lapsed, if it is shorter
		p.drain("?max=1").must(undrained)
		p.until(at.Add(time.Second))
		p.pastVisibility()
		d := p.drain("")
		for _, id := range []string{id, undrained} {
			if d.entry(id) != nil {
				d.wrong("the directive %s not: it has expired", id)
			}
		}
	}},
	{id: "inbox.retention", section: "§13.3", says: "a directive without expires_at is kept for retention_days and no longer", needs: []need{needInbound, needDirect, needClock}, check: func(p *probe) {
		days := p.limit(400, "inbound", "retention_days")
		p.emptyMailbox()
		id, later := p.direct(Directive{Title: "kept"}), p.direct(Directive{Title: "kept too"})
		p.t.Clock.Advance(time.Duration(days)*24*time.Hour - time.Hour)
		p.drain("?max=1").must(id)
		p.t.Clock.Advance(2 * time.Hour)
		p.pastVisibility()
		d := p.drain("")
		for _, id := range []string{id, later} {
			if d.entry(id) != nil {
				d.wrong("the directive %s not: its retention has passed", id)
			}
		}
	}},
	{id: "inbox.hold", section: "§8.7", says: "a long-poll ends when a directive comes", needs: []need{needInbound, needDirect}, check: func(p *probe) {
		p.emptyMailbox()
		poll := p.poll(p.inboxURL() + "?wait=60")
		if p.t.Held != nil {
			p.held(poll, "", "on an empty mailbox")
		}
		id := p.direct(Directive{Title: "while somebody waits"})
		rep := p.await(poll, "after a directive was sent")
		d := drained{rep, rep.entriesOf(http.StatusOK)}
		if len(d.entries) == 0 {
			d = p.drain("") // the Hub was faster or does not hold
		}
		d.must(id)
	}},
	{id: "inbox.hold.timeout", section: "§8.7", says: "a long-poll on an empty mailbox is held for wait seconds, 60 at most, and is then empty", needs: []need{needInbound, needClock, needHeld}, check: func(p *probe) {
		p.emptyMailbox()
		for _, wait := range []int{10, 3600} {
			poll := p.poll(p.inboxURL() + "?wait=" + strconv.Itoa(wait))
			p.held(poll, "", "at first")
			ends := min(wait, 60)
			if wait <= 60 {
				p.t.Clock.Advance(time.Duration(ends-1) * time.Second)
				p.held(poll, "", fmt.Sprintf("after %d of %d seconds", ends-1, wait))
				ends = 1
			}
			p.t.Clock.Advance(time.Duration(ends) * time.Second)
			rep := p.await(poll, "after all of its seconds")
			if len(rep.entriesOf(http.StatusOK)) > 0 {
				rep.wrong("no entries")
			}
		}
	}},
}

// What is in a mailbox, and who vouches for it (§9.7, §13.1).
var directiveRows = []row{
	{id: "directive.form", section: "§13.1", says: "a directive is what the human wrote, with the Hub's id, author and addressee", needs: []need{needInbound, needDirect}, check: func(p *probe) {
		p.emptyMailbox()
		at := p.soon(time.Hour)
		id := p.direct(Directive{Title: "Pause deploys", Body: "Until *noon*.", Priority: "urgent", Tags: []string{"incident"}, ExpiresAt: at})
		bare := p.direct(Directive{Title: "Only a title"})
		d := p.drain("")
		full := d.must(id).directive
		for name, want := range map[string]any{
			"type": "directive", "id": id, "from": p.t.Human.ID, "to": "agent:" + p.t.Agent.ID, "title": "Pause deploys",
			"body": "Until *noon*.", "priority": "urgent", "tags": []any{"incident"},
		} {
			if !same(full[name], want) {
				d.wrong("%s of the directive to be %s", name, show(want))
			}
		}
		if expires, err := time.Parse(time.RFC3339Nano, full.str("expires_at")); err != nil || !expires.Equal(at) {
			d.wrong("expires_at of the directive to be %s", timestamp(at))
		}
		for _, one := range []object{full, d.must(bare).directive} {
			if minor(one.str("ma2h_version")) < 4 {
				d.wrong("ma2h_version of a directive to be 0.4 or later")
			}
			if _, err := time.Parse(time.RFC3339Nano, one.str("created_at")); err != nil {
				d.wrong("created_at of a directive to be of RFC 3339")
			}
			for _, name := range []string{"request", "action", "state"} {
				if _, there := one[name]; there {
					d.wrong("no %s in a directive", name)
				}
			}
		}
	}},
	{id: "directive.signed", section: "§9.7", says: "every delivery is signed over the directive that is in it", needs: []need{needInbound, needDirect, needKeys}, check: func(p *probe) {
		p.emptyMailbox()
		ids := []string{
			p.direct(Directive{Title: "Only a title"}),
			p.direct(Directive{Title: "All \u2028 of it \U0001F600", Body: "e\u0301 </b> \"\\", Priority: "low", Tags: []string{"\ufb33", "😀"}, ExpiresAt: p.soon(time.Hour)}),
		}
		d := p.drain("")
		for _, id := range ids {
			p.signedEntry(d, d.must(id))
		}
	}},
	{id: "directive.fresh", section: "§9.7", says: "each delivery has a t and a jti of its own", needs: []need{needInbound, needDirect, needKeys, needClock}, check: func(p *probe) {
		p.emptyMailbox()
		id, other := p.direct(Directive{Title: "old"}), p.direct(Directive{Title: "old too"})
		p.t.Clock.Advance(6 * time.Hour)
		d := p.drain("")
		seen := map[string]bool{p.signedEntry(d, d.must(id)).jti: true}
		for range 2 {
			if jti := p.signedEntry(d, d.must(other)).jti; seen[jti] {
				d.wrong("a jti that no delivery had before")
			} else {
				seen[jti] = true
			}
			p.pastVisibility()
			d = p.drain("")
		}
	}},
}

// inboxURL is where the mailbox is, as advertised or else as in §8.7.
func (p *probe) inboxURL() string { return p.advertised("poll_url", "/v1/inbox") }

func (p *probe) ackURL() string { return p.advertised("ack_url", "/v1/inbox/ack") }

func (s *suite) advertised(name, standard string) string {
	u := s.doc.str("inbound", name)
	if _, ours := s.url(u); u == "" || !ours {
		return standard
	}
	return u
}

// entry is one row of a batch.
type entry struct {
	directive object
	signature string
}

// entries of an answer; nil if it has not the form of §8.7.
func (r reply) entries() []entry {
	list, ok := r.json["messages"].([]any)
	if !ok {
		return nil
	}
	out := []entry{}
	for _, v := range list {
		row, _ := v.(object)
		out = append(out, entry{row.obj("directive"), row.str("signature")})
	}
	return out
}

func (r reply) entriesOf(status int) []entry {
	r.p.r.Helper()
	r.object(status)
	list := r.entries()
	if list == nil {
		r.fatal(`200 {"messages":[...]}`)
	}
	for _, e := range list {
		if e.directive == nil || e.signature == "" {
			r.fatal(`entries of the form {"directive":{...},"signature":"..."}`)
		}
		r.p.directed = append(r.p.directed, e.directive.str("id"))
	}
	return list
}

// drained is a batch.
type drained struct {
	reply
	entries []entry
}

func (p *probe) drain(query string) drained {
	p.r.Helper()
	return p.drainAs(p.t.Agent, query)
}

func (p *probe) drainAs(who Agent, query string) drained {
	p.r.Helper()
	rep := p.as(who, "GET", p.inboxURL()+query, nil)
	return drained{rep, rep.entriesOf(http.StatusOK)}
}

func (d drained) entry(id string) *entry {
	for i := range d.entries {
		if d.entries[i].directive.str("id") == id {
			return &d.entries[i]
		}
	}
	return nil
}

// must is the entry of a directive that has to be in the batch.
func (d drained) must(id string) entry {
	d.p.r.Helper()
	e := d.entry(id)
	if e == nil {
		d.fatal("the directive %s in the batch", id)
	}
	return *e
}

func (d drained) ids() []any {
	list := []any{}
	for _, e := range d.entries {
		list = append(list, e.directive.str("id"))
	}
	return list
}

func texts(list []string) []any {
	out := []any{}
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

// direct has the human send a directive to Agent.
func (p *probe) direct(d Directive) string {
	p.r.Helper()
	d.From, d.AgentID = p.t.Human.ID, p.t.Agent.ID
	id, err := p.t.Human.Direct(p.r.Context(), d)
	if err != nil || id == "" {
		p.fatal("Target.Human.Direct gave id %q, %v", id, err)
	}
	p.directed = append(p.directed, id)
	return id
}

func (p *probe) ackInbox(who Agent, note string, ids ...string) reply {
	p.r.Helper()
	body := object{"ids": texts(ids)}
	if note != "" {
		body["note"] = note
	}
	return p.as(who, "POST", p.ackURL(), body)
}

// look drains what may not be a mailbox.
func (p *probe) look() reply {
	p.r.Helper()
	rep := p.get(p.inboxURL())
	for _, e := range rep.entries() {
		p.directed = append(p.directed, e.directive.str("id"))
	}
	return rep
}

// mailboxRounds is how many batches a mailbox may hold before the suite begins.
const mailboxRounds = 100

// emptyMailbox acknowledges whatever is in the mailbox of Agent.
func (p *probe) emptyMailbox() {
	p.r.Helper()
	for range mailboxRounds {
		d := p.drain("")
		if len(d.entries) == 0 {
			return
		}
		var ids []string
		for _, e := range d.entries {
			ids = append(ids, e.directive.str("id"))
		}
		p.ackInbox(p.t.Agent, "", ids...).object(http.StatusOK)
	}
	p.fatal("the mailbox of %s is not empty after %d batches were acknowledged", p.t.Agent.ID, mailboxRounds)
}

// pastVisibility lets the visibility window lapse; unadvertised, it is a day.
func (p *probe) pastVisibility() {
	seconds, ok := p.doc.whole("inbound", "visibility_timeout_seconds")
	if !ok {
		seconds = 24 * 60 * 60
	}
	p.t.Clock.Advance(time.Duration(seconds+1) * time.Second)
}

// signedEntry holds an entry to its signature (§9.7), which it returns.
func (p *probe) signedEntry(d drained, e entry) signature {
	p.r.Helper()
	s, err := readSignature(e.signature)
	if err == nil {
		err = directiveContext(e.directive).verify(s, p.t.DirectiveKeys, p.now())
	}
	if err != nil {
		d.wrong("a signature over this directive: %v", err)
	}
	return s
}
