package hubtest_test

import (
	"net/http"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// Idempotency.
var brokenKeys = []breakage{
	{name: "a key is forgotten at once", fails: "errors.envelope key.atonce key.conflict key.day key.overdue key.replay key.run key.status pull.message restart.messages", with: takes(func(b *bench, e doc) {
		if k := text(e["idempotency_key"]); k != "" && e["type"] != "notify" {
			e["idempotency_key"] = k + newURL()
		}
	})},
	{name: "the key of a notify does not count", fails: "key.replay", with: takes(func(_ *bench, e doc) {
		if e["type"] == "notify" {
			delete(e, "idempotency_key")
		}
	})},
	{name: "what counts is the payload and not the key", fails: "key.fresh", with: takes(func(b *bench, e doc) {
		if e["type"] == "ask" && e["idempotency_key"] != nil && text(e["title"]) == "hubtest key.fresh" {
			e["idempotency_key"] = "one for all"
		}
	})},
	{name: "a conflict is taken for a replay", fails: "errors.envelope key.conflict", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		var key string
		if is(r, ma2htest.Submit) {
			key = text(submitted(r)["idempotency_key"])
		}
		a := ask(next, r)
		if key != "" && a.status == 202 {
			b.note(key, string(a.body))
		}
		if key != "" && a.status == 409 {
			a.status, a.doc = 202, decode([]byte(b.noted(key)))
		}
		a.write(w)
	})},
	{name: "a conflict overwrites the message", fails: "key.conflict", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		var e doc
		if is(r, ma2htest.Submit) {
			e = submitted(r)
		}
		a := ask(next, r)
		switch key := text(e["idempotency_key"]); {
		case key != "" && a.status == 202:
			b.note("id of "+key, text(a.doc["id"]))
		case key != "" && a.status == 409:
			b.note("last "+b.noted("id of "+key), string(encode(e)))
		}
		if last := b.noted("last " + idOf(r)); is(r, ma2htest.Pull) && last != "" {
			for name, v := range decode([]byte(last)) {
				a.doc[name] = v
			}
		}
		a.write(w)
	})},
	{name: "a replay has the status of the first time", fails: "key.overdue key.status", with: says(ma2htest.Submit, 202, func(d doc) {
		if d["status"] == "cancelled" || d["status"] == "expired" {
			d["status"] = "open"
		}
	})},
	{name: "each run has its own keys", fails: "key.conflict key.run pull.message", with: takes(func(_ *bench, e doc) {
		if k := text(e["idempotency_key"]); k != "" {
			e["idempotency_key"] = k + text(inner(e, "agent")["run_id"])
		}
	})},
	{name: "all agents share their keys", fails: "key.agents", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !is(r, ma2htest.Submit) {
			next.ServeHTTP(w, r)
			return
		}
		e := submitted(r)
		key, agent := text(e["idempotency_key"]), text(inner(e, "agent")["id"])
		if first := b.noted("ack of " + key); key != "" && first != "" && b.noted("agent of "+key) != agent {
			(&answer{status: 202, header: jsonHeader(), body: []byte(first)}).write(w)
			return
		}
		a := ask(next, r)
		if key != "" && a.status == 202 {
			b.note("ack of "+key, string(a.body))
			b.note("agent of "+key, agent)
		}
		a.write(w)
	})},
	{name: "a key that is in use is a conflict", fails: "key.atonce", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.Submit) && text(submitted(r)["title"]) == "hubtest key.atonce" && !b.once("in use", "yes") {
			refusal(409, "idempotency_conflict").write(w)
			return
		}
		next.ServeHTTP(w, r)
	})},
	{name: "a replay is checked like a first submit", fails: "key.overdue", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.Submit) {
			if at, err := time.Parse(time.RFC3339Nano, text(submitted(r)["expires_at"])); err == nil && !at.After(b.hub.Now()) {
				refusal(422, "invalid_field").write(w)
				return
			}
		}
		next.ServeHTTP(w, r)
	})},
	{name: "a key is known for an hour", fails: "key.day", options: ma2htest.Options{KeyTTL: time.Hour}},
}

// Pulls and long-polls.
var brokenReads = []breakage{
	{name: "tags are lost", fails: "pull.message", with: reads(func(m doc) { delete(m, "tags") })},
	{name: "the title is changed", fails: "key.conflict pull.message", with: reads(func(m doc) { m["title"] = text(m["title"]) + " " })},
	{name: "an open message has a response", fails: "pull.message submit.id", with: reads(func(m doc) {
		if m["status"] == "open" {
			m["response"] = doc{}
		}
	})},
	{name: "state loses what is null", fails: "pull.state push.response response.answered restart.messages", with: reads(func(m doc) {
		delete(inner(m, "state"), "")
		delete(inner(m, "response", "state"), "")
	})},
	{name: "state is normalised", fails: "pull.state push.response response.answered restart.messages", with: reads(func(m doc) {
		for _, s := range []doc{inner(m, "state"), inner(m, "response", "state")} {
			if t, ok := s["text"].(string); ok {
				s["text"] = strings.ReplaceAll(t, "e\u0301", "\u00e9")
			}
		}
	})},
	{name: "a notify has a Response", fails: "pull.notify resolve.notify", with: reads(func(m doc) {
		if m["status"] == "delivered" {
			m["response"] = doc{"resolution": "delivered"}
		}
	})},
	{name: "a notify is pulled without its id", fails: "cancel.task hold.ended pull.notify pull.retention resolve.notify restart.messages", with: reads(func(m doc) {
		if m["status"] == "delivered" {
			delete(m, "id")
		}
	})},
	{name: "a notify ends", fails: "cancel.task hold.ended pull.notify pull.retention resolve.notify restart.messages", with: reads(func(m doc) {
		if m["status"] == "delivered" {
			m["status"] = "completed"
		}
	})},
	{name: "the resolution_id is new each time", fails: "ack.forged ack.track pull.stable push.response resolve.once restart.messages", with: reads(func(m doc) {
		if r := inner(m, "response"); r != nil {
			r["resolution_id"] = "res" + newURL()
		}
	})},
	{name: "the status changes after the end", fails: "pull.stable restart.messages", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if is(r, ma2htest.Pull) && a.status == 200 && a.doc["status"] == "cancelled" && !b.once("ended "+idOf(r), "yes") {
			a.doc["status"] = "expired"
		}
		a.write(w)
	})},
	{name: "an unknown id is 410", fails: "errors.envelope pull.foreign pull.unknown", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if is(r, ma2htest.Pull) && a.status == 404 {
			a.status = 410
			inner(a.doc, "error")["code"] = "gone"
		}
		a.write(w)
	})},
	{name: "a foreign message is 403", fails: "pull.foreign", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if _, there := b.hub.Message(idOf(r)); is(r, ma2htest.Pull) && a.status == 404 && there {
			a.status = 403
			inner(a.doc, "error")["code"] = "not_authorized"
		}
		a.write(w)
	})},
	{name: "an agent reads what is another's", fails: "pull.foreign", with: authorizes(ma2htest.Pull, asOne)},
	{name: "a deleted message was never there", fails: "pull.gone", with: answers(ma2htest.Pull, func(_ *http.Request, a *answer) {
		if a.status == 410 {
			a.status = 404
		}
	})},
	{name: "messages are kept for less than is advertised", fails: "pull.retention", with: says(ma2htest.Discover, 200, func(d doc) { d["retention_days"] = 60 })},
	{name: "since hides the news", fails: "pull.since.news", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if is(r, ma2htest.Pull) && r.URL.Query().Has("since") {
			a = &answer{status: 304, header: http.Header{}}
		}
		a.write(w)
	})},
	{name: "since is ignored", fails: "pull.since.unchanged", with: withoutQuery("since")},
	{name: "no long-poll is held", fails: "expiry.hold hold.answer hold.cancel hold.cap hold.timeout inbox.hold inbox.hold.timeout presence.offline", with: withoutQuery("wait")},
	{name: "a long-poll is not woken", fails: "expiry.hold hold.answer hold.cancel hold.ended inbox.hold", hangs: true, with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		held := r.URL.Query().Get("wait") == "60"
		a := ask(next, r)
		if list, ok := a.doc["messages"].([]any); held && (is(r, ma2htest.Pull) && a.doc["status"] != "open" || ok && len(list) > 0) {
			<-r.Context().Done()
		}
		a.write(w)
	})},
	{name: "a long-poll on what has ended is held", fails: "hold.ended", hangs: true, with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if m, ok := b.hub.Message(idOf(r)); is(r, ma2htest.Pull) && ok && m.Status != types.StatusOpen && r.URL.Query().Get("wait") == "60" {
			<-r.Context().Done()
		}
		next.ServeHTTP(w, r)
	})},
	{name: "a long-poll ends after half of its time", fails: "hold.timeout inbox.hold.timeout", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if q := r.URL.Query(); q.Get("wait") == "10" {
			q.Set("wait", "5")
			r.URL.RawQuery = q.Encode()
		}
		next.ServeHTTP(w, r)
	})},
	{name: "a long-poll is held for as long as is asked", fails: "hold.cap inbox.hold.timeout", hangs: true, with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Query().Get("wait") == "3600" {
			ask(next, r)
			<-r.Context().Done()
		}
		next.ServeHTTP(w, r)
	})},
	{name: "a long-poll that ends is 408", fails: "hold.cap hold.timeout", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if is(r, ma2htest.Pull) && r.URL.Query().Has("wait") && a.doc["status"] == "open" {
			a.status = 408
		}
		a.write(w)
	})},
}

func withoutQuery(name string) func(*bench) {
	return serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		q := r.URL.Query()
		q.Del(name)
		r.URL.RawQuery = q.Encode()
		next.ServeHTTP(w, r)
	})
}
