package hubtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/ma2htest/hubtest"
	"github.com/ma2h/ma2h-go/types"
)

// How messages end.
var brokenEnds = []breakage{
	{name: "a cancel leaves no Response", fails: "cancel.ask pull.state resolve.withdraw response.ids response.version", with: reads(func(m doc) {
		if m["status"] == "cancelled" {
			delete(m, "response")
		}
	})},
	{name: "a cancel has no body", fails: "cancel.again cancel.ask cancel.intime push.cancelled push.pull restart.messages restart.push retry.4xx retry.5xx retry.end retry.network retry.redirect", with: answers(ma2htest.Cancel, func(_ *http.Request, a *answer) {
		if a.status == 200 {
			a.doc = doc{}
		}
	})},
	{name: "a second cancel is a conflict", fails: "cancel.again", may: "cancel.race", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if is(r, ma2htest.Cancel) && a.status == 200 && !b.once("cancelled "+idOf(r), "yes") {
			a.status = 409
		}
		a.write(w)
	})},
	{name: "an unknown id is cancelled", fails: "cancel.foreign cancel.unknown", with: answers(ma2htest.Cancel, func(r *http.Request, a *answer) {
		if a.status == 404 {
			a.status, a.doc = 200, doc{"id": idOf(r), "status": "cancelled"}
		}
	})},
	{name: "an agent cancels what is another's", fails: "cancel.foreign", with: authorizes(ma2htest.Cancel, asOne)},
	{name: "a foreign cancel is 403", fails: "cancel.foreign", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if _, there := b.hub.Message(idOf(r)); is(r, ma2htest.Cancel) && a.status == 404 && there {
			a.status = 403
			inner(a.doc, "error")["code"] = "not_authorized"
		}
		a.write(w)
	})},
	{name: "a task can be cancelled", fails: "cancel.task", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if is(r, ma2htest.Cancel) && a.status == 400 {
			a.status, a.doc = 200, doc{"id": idOf(r), "status": "cancelled"}
		}
		a.write(w)
	})},
	{name: "a late cancel pretends", fails: "cancel.late cancel.overdue cancel.race retry.same", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !is(r, ma2htest.Cancel) {
			next.ServeHTTP(w, r)
			return
		}
		// In the race the answers come first.
		for m, _ := b.hub.Message(idOf(r)); m.Title == "hubtest cancel.race" && m.Status == types.StatusOpen; m, _ = b.hub.Message(idOf(r)) {
			runtime.Gosched()
		}
		a := ask(next, r)
		if a.status == 409 {
			a.status, a.doc = 200, doc{"id": idOf(r), "status": "cancelled"}
		}
		a.write(w)
	})},
	{name: "a cancel and an answer are both told that they won", fails: "cancel.late cancel.overdue cancel.race resolve.once resolve.race retry.same", with: all(answers(ma2htest.Cancel, func(r *http.Request, a *answer) {
		if a.status == 409 {
			a.status, a.doc = 200, doc{"id": idOf(r), "status": "cancelled"}
		}
	}), resolves(func(_ *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		if err := next(r); !errors.Is(err, ma2htest.ErrTerminal) {
			return err
		}
		return nil
	}))},
	{name: "what is cancelled and answered at once stays open", fails: "cancel.race", with: all(serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if m, _ := b.hub.Message(idOf(r)); is(r, ma2htest.Cancel) && m.Title == "hubtest cancel.race" {
			refusal(409, "already_terminal").write(w)
			return
		}
		next.ServeHTTP(w, r)
	}), resolves(func(b *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		if m, _ := b.hub.Message(r.MessageID); m.Title == "hubtest cancel.race" {
			return errors.New("busy")
		}
		return next(r)
	}))},
	{name: "a late cancel does not tell the outcome", fails: "cancel.late cancel.overdue", with: answers(ma2htest.Cancel, func(r *http.Request, a *answer) {
		if a.status == 409 {
			delete(a.doc, "status")
		}
	})},
	{name: "a cancel beats the answer of an overdue ask", fails: "cancel.overdue", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		switch {
		case is(r, ma2htest.Cancel) && a.doc["status"] == "expired":
			b.note(idOf(r), "cancelled")
			a.status, a.doc = 200, doc{"id": idOf(r), "status": "cancelled"}
		case is(r, ma2htest.Pull) && b.noted(idOf(r)) == "cancelled":
			a.doc["status"] = "cancelled"
		}
		a.write(w)
	})},
	{name: "an ask is over at expires_at and not after it", fails: "cancel.intime expiry.intime", with: all(serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.Cancel) {
			b.expireNow(idOf(r))
		}
		next.ServeHTTP(w, r)
	}), resolves(func(b *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		b.expireNow(r.MessageID)
		return next(r)
	}))},
	{name: "any value is taken for an option", fails: "resolve.options", with: resolves(func(_ *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		if r.Value == "burn" {
			r.Value = "ship"
		}
		return next(r)
	})},
	{name: "a confirm takes yes", fails: "resolve.confirm", with: resolves(func(_ *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		if r.Value == "yes" {
			r.Value = "approve"
		}
		return next(r)
	})},
	{name: "a confirm cannot be denied", fails: "resolve.confirm", with: reads(func(m doc) {
		if d := inner(m, "response", "response"); d["value"] == "deny" {
			d["value"] = "approve"
		}
	})},
	{name: "an input takes any object", fails: "resolve.schema", with: resolves(func(_ *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		if m, ok := r.Value.(map[string]any); ok && m["reason"] == nil {
			m["reason"] = ""
		}
		return next(r)
	})},
	{name: "an ask can be completed", fails: "resolve.verb", with: resolves(func(b *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		err := next(r)
		if r.Outcome == "completed" && errors.Is(err, ma2htest.ErrInvalid) {
			return b.hub.Decline(r.MessageID, ma2htest.By(r.By))
		}
		return err
	})},
	{name: "a notify can be answered", fails: "resolve.notify", with: all(resolves(func(b *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		err := next(r)
		if err != nil && strings.Contains(err.Error(), "notify") {
			b.note(r.MessageID, "answered")
		}
		return err
	}), serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if is(r, ma2htest.Pull) && b.noted(idOf(r)) == "answered" {
			a.doc["response"] = doc{"resolution": "answered"}
		}
		a.write(w)
	}))},
	{name: "allow_respond does not count", fails: "resolve.respond", with: takes(func(_ *bench, e doc) {
		if p := inner(e, "request", "permissions"); p != nil {
			delete(p, "allow_respond")
		}
	})},
	{name: "allow_ignore does not count", fails: "resolve.ignore", with: takes(func(_ *bench, e doc) {
		if p := inner(e, "request", "permissions"); p != nil {
			delete(p, "allow_ignore")
		}
	})},
	{name: "allow_respond false also takes the refusal away", fails: "resolve.respond", with: takes(func(_ *bench, e doc) {
		if p := inner(e, "request", "permissions"); p["allow_respond"] == false {
			p["allow_ignore"] = false
		}
	})},
	{name: "allow_ignore false also takes the answer away", fails: "resolve.ignore", with: takes(func(_ *bench, e doc) {
		if p := inner(e, "request", "permissions"); p["allow_ignore"] == false {
			p["allow_respond"] = false
		}
	})},
	{name: "anybody resolves", fails: "resolve.listed", with: resolves(func(_ *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		if r.By == "human:mallory" {
			r.By = "human:alice"
		}
		return next(r)
	})},
	{name: "without a list anybody resolves", fails: "resolve.unlisted", with: resolves(func(_ *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		err := next(r)
		if errors.Is(err, ma2htest.ErrNotAuthorized) && r.By == "human:alice" {
			r.By = "agent:" + agentOne
			return next(r)
		}
		return err
	})},
	{name: "a refused resolver is not told", fails: "resolve.listed resolve.unlisted", with: resolves(func(_ *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		if err := next(r); !errors.Is(err, ma2htest.ErrNotAuthorized) {
			return err
		}
		return nil
	})},
	{name: "the last answer wins", fails: "expiry.late resolve.once resolve.race", may: "cancel.race", with: all(resolves(func(b *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		err := next(r)
		if errors.Is(err, ma2htest.ErrTerminal) && r.Outcome == "answered" {
			b.note(r.MessageID, text(r.Value))
			return nil
		}
		return err
	}), serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if v := b.noted(idOf(r)); is(r, ma2htest.Pull) && v != "" {
			if d := inner(a.doc, "response", "response"); d != nil {
				d["value"] = v
			}
		}
		a.write(w)
	}))},
	{name: "a withdrawal is forgotten", fails: "resolve.withdraw", with: func(b *bench) {
		b.target.Human.Withdraw = func(context.Context, string) error { return nil }
	}},

	{name: "the value is lost", fails: "expiry.intime hold.answer push.response resolve.confirm resolve.race response.answered response.input", with: detail("answered", func(d doc) { delete(d, "value") })},
	{name: "the actor is the agent", fails: "expiry.intime push.response response.answered response.input", with: detail("answered", func(d doc) { d["actor"] = "agent:" + agentOne })},
	{name: "the actor has no type", fails: "response.completed", with: detail("completed", func(d doc) { d["actor"] = "alice" })},
	{name: "the comment is lost", fails: "push.response response.answered", with: detail("answered", func(d doc) { delete(d, "comment") })},
	{name: "the answer to an input is text", fails: "response.input", with: detail("answered", func(d doc) {
		if o, ok := d["value"].(doc); ok {
			d["value"] = string(encode(o))
		}
	})},
	{name: "a number of an answer is text", fails: "response.input", with: detail("answered", func(d doc) {
		if o, ok := d["value"].(doc); ok && o["count"] != nil {
			o["count"] = o["count"].(json.Number).String()
		}
	})},
	{name: "a refusal has a value", fails: "response.declined", with: detail("declined", func(d doc) { d["value"] = "hold" })},
	{name: "a refusal has no response", fails: "response.declined", with: reads(func(m doc) {
		if m["status"] == "declined" {
			delete(inner(m, "response"), "response")
		}
	})},
	{name: "a task has a value", fails: "response.completed", with: detail("completed", func(d doc) { d["value"] = "done" })},
	{name: "a dismissed task is declined", fails: "response.dismissed", with: reads(func(m doc) {
		if m["status"] == "dismissed" {
			m["status"] = "declined"
		}
	})},
	{name: "a dismissed task has another resolution than status", fails: "response.dismissed", with: reads(func(m doc) {
		if r := inner(m, "response"); m["status"] == "dismissed" {
			r["resolution"] = "completed"
		}
	})},
	{name: "a Response has the version of the Hub at 0.3", fails: "response.version", with: reads(func(m doc) {
		if r := inner(m, "response"); r != nil {
			r["ma2h_version"] = "0.3"
		}
	})},
	{name: "a Response is not to its run", fails: "cancel.ask expiry.bare expiry.default expiry.default.input expiry.intime expiry.late expiry.null expiry.task push.response resolve.withdraw response.answered response.completed response.declined response.dismissed response.input", with: reads(func(m doc) { delete(inner(m, "response", "agent"), "run_id") })},
	{name: "a Response is in reply to another", fails: "cancel.ask expiry.bare expiry.default expiry.default.input expiry.intime expiry.late expiry.null expiry.task push.response resolve.withdraw response.answered response.completed response.declined response.dismissed response.input", with: reads(func(m doc) {
		if r := inner(m, "response"); r != nil {
			r["in_reply_to"] = "msg_other"
		}
	})},
	{name: "a Response has no resolution_id", fails: "ack.forged cancel.ask expiry.bare expiry.default expiry.default.input expiry.intime expiry.late expiry.null expiry.task push.response resolve.withdraw response.answered response.completed response.declined response.dismissed response.ids response.input", with: reads(func(m doc) { delete(inner(m, "response"), "resolution_id") })},
	{name: "resolved_at is another clock's", fails: "push.response response.time", with: detail("answered", func(d doc) { d["resolved_at"] = "2001-01-01T00:00:00Z" })},
	{name: "resolved_at is a number", fails: "response.completed", with: detail("completed", func(d doc) { d["resolved_at"] = 1 })},
	{name: "all messages end with one resolution_id", fails: "ack.forged push.response response.ids", with: reads(func(m doc) {
		if r := inner(m, "response"); r != nil {
			r["resolution_id"] = "res_1"
		}
	})},

	{name: "no default is applied", fails: "expiry.default expiry.default.input expiry.late push.expired", with: takes(func(_ *bench, e doc) {
		if r := inner(e, "request"); r["default_on_expire"] == "hold" || inner(r, "default_on_expire") != nil && inner(r, "default_on_expire")["reason"] == "late" {
			delete(r, "default_on_expire")
		}
	})},
	{name: "a default is not marked", fails: "expiry.default expiry.default.input expiry.late", with: reads(func(m doc) { delete(inner(m, "response"), "defaulted") })},
	{name: "a default has a human for an actor", fails: "expiry.default expiry.default.input expiry.late", with: detail("expired", func(d doc) {
		if d["actor"] == "system:default_on_expire" {
			d["actor"] = "human:alice"
		}
	})},
	{name: "every expiry is a default", fails: "expiry.bare expiry.null expiry.task", with: reads(func(m doc) {
		if m["status"] == "expired" {
			inner(m, "response")["defaulted"] = true
		}
	})},
	{name: "a default of null is a value", fails: "expiry.null", with: reads(func(m doc) {
		d := inner(m, "response", "response")
		if v, there := inner(m, "request")["default_on_expire"]; there && v == nil && d != nil {
			d["value"] = nil
		}
	})},
	{name: "an expired task is completed", fails: "expiry.task", with: reads(func(m doc) {
		if m["type"] == "task" && m["status"] == "expired" {
			m["status"] = "completed"
		}
	})},
	{name: "an expiry has a human for an actor", fails: "expiry.actor", with: detail("expired", func(d doc) {
		if d["actor"] != "system:default_on_expire" {
			d["actor"] = "human:alice"
		}
	})},
	{name: "asks expire early", fails: "expiry.early", with: takes(func(b *bench, e doc) {
		if at, err := time.Parse(time.RFC3339Nano, text(e["expires_at"])); err == nil && at.Sub(b.hub.Now()) > 30*time.Minute {
			e["expires_at"] = at.Add(-5 * time.Minute).Format(time.RFC3339Nano)
		}
	})},
	{name: "asks do not expire", fails: "cancel.overdue expiry.actor expiry.bare expiry.default expiry.default.input expiry.hold expiry.late expiry.null expiry.task key.overdue push.expired", with: takes(func(b *bench, e doc) {
		if at, err := time.Parse(time.RFC3339Nano, text(e["expires_at"])); err == nil && at.After(b.hub.Now()) {
			delete(e, "expires_at")
		}
	}), hangs: true},
	{name: "a late answer beats the default", fails: "expiry.late", with: all(resolves(func(b *bench, r hubtest.Resolution, next func(hubtest.Resolution) error) error {
		err := next(r)
		if m, _ := b.hub.Message(r.MessageID); err != nil && m.Status == types.StatusExpired {
			b.note(r.MessageID, "answered")
			return nil
		}
		return err
	}), serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if is(r, ma2htest.Pull) && b.noted(idOf(r)) == "answered" {
			a.doc["status"] = "answered"
		}
		a.write(w)
	}))},
	{name: "an ask with a default expires as answered", fails: "expiry.default expiry.default.input expiry.late", with: reads(func(m doc) {
		if inner(m, "response")["defaulted"] == true {
			m["status"], inner(m, "response")["resolution"] = "answered", "answered"
		}
	})},
}

// detail changes the inner response of messages that ended so.
func detail(status string, change func(d doc)) func(*bench) {
	return reads(func(m doc) {
		if d := inner(m, "response", "response"); m["status"] == status && d != nil {
			change(d)
		}
	})
}

// expireNow lets a message expire whose expires_at is now.
func (b *bench) expireNow(id string) {
	m, ok := b.hub.Message(id)
	if at, err := time.Parse(time.RFC3339Nano, text(decode(m.Submitted)["expires_at"])); ok && err == nil && at.Equal(b.hub.Now()) {
		b.hub.Advance(time.Millisecond)
	}
}

// Receipts, presence and restarts.
var brokenReceipts = []breakage{
	{name: "an acknowledgment is by nobody", fails: "ack.forged ack.message ack.pushed ack.track", with: says(ma2htest.Ack, 200, func(d doc) { delete(d, "by") })},
	{name: "an acknowledgment is of 0.3", fails: "ack.message ack.pushed ack.track", with: says(ma2htest.Ack, 200, func(d doc) { d["ma2h_version"] = "0.3" })},
	{name: "an acknowledgment has no time", fails: "ack.message ack.pushed ack.track", with: says(ma2htest.Ack, 200, func(d doc) { d["acked_at"] = "now" })},
	{name: "the last acknowledgment stands", fails: "ack.first ack.race", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !is(r, ma2htest.Ack) {
			next.ServeHTTP(w, r)
			return
		}
		note := submitted(r)["note"]
		a := ask(next, r)
		if a.status == 200 {
			a.doc["note"] = note
		}
		a.write(w)
	})},
	{name: "an acknowledgment has the time of each request", fails: "ack.first ack.pushed ack.race ack.track", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if is(r, ma2htest.Ack) && a.status == 200 {
			a.doc["acked_at"] = b.hub.Now().Add(time.Duration(len(newURL())) * time.Second).Format(time.RFC3339)
			b.hub.Advance(time.Second)
		}
		a.write(w)
	})},
	{name: "an open message can be acknowledged", fails: "ack.open", with: answers(ma2htest.Ack, func(_ *http.Request, a *answer) {
		if a.status == 409 {
			a.status, a.doc = 200, doc{"type": "ack"}
		}
	})},
	{name: "an acknowledgment is by whom the request says", fails: "ack.forged", with: forgedAck("by")},
	{name: "an acknowledgment is of what the request says", fails: "ack.forged", with: forgedAck("resolution_id")},
	{name: "an agent acknowledges what is another's", fails: "ack.foreign", with: authorizes(ma2htest.Ack, asOne)},
	{name: "there is no delivery track", fails: "ack.track", with: reads(func(m doc) { delete(m, "delivery") })},
	{name: "the delivery track does not move on", fails: "ack.track", with: reads(func(m doc) {
		if d := inner(m, "delivery"); d != nil {
			d["state"] = "delivered-to-agent"
		}
	})},
	{name: "an acknowledgment ends the message", fails: "ack.track", with: reads(func(m doc) {
		if inner(m, "delivery")["state"] == "acknowledged" {
			m["status"] = "completed"
		}
	})},

	{name: "a pushed acknowledgment has no note", fails: "ack.pushed", with: pushed(func(d doc) {
		if d["type"] == "ack" && d["note"] != nil {
			delete(d, "note")
		}
	})},
	{name: "an acknowledgment without a note is signed without one", fails: "ack.pushed", with: pushed(func(d doc) {
		if _, there := d["note"]; d["type"] == "ack" && !there {
			d["note"] = ""
		}
	})},
	{name: "a pushed acknowledgment is not signed", fails: "ack.pushed", with: pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if submitted(r)["type"] == "ack" {
			r.Header.Del("MA2H-Signature")
		}
		next.ServeHTTP(w, r)
	})},

	{name: "an unseen agent is offline", fails: "presence.private presence.unknown", with: says(ma2htest.Presence, 200, func(d doc) {
		if d["state"] == "unknown" {
			d["state"] = "offline"
		}
	})},
	{name: "a long-poll is no sign of life", fails: "presence.drain presence.edge presence.offline presence.online", with: says(ma2htest.Presence, 200, func(d doc) {
		if d["state"] == "online" {
			d["state"] = "offline"
		}
	})},
	{name: "a drain is no sign of life", fails: "presence.drain", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		switch {
		case is(r, ma2htest.Drain):
			b.note("drained", "yes")
		case is(r, ma2htest.Pull) && r.URL.Query().Has("wait"):
			b.note("drained", "")
		case is(r, ma2htest.Presence) && b.noted("drained") != "" && a.doc["state"] == "online":
			a.doc["state"] = "offline"
		}
		a.write(w)
	})},
	{name: "an agent is online for longer than is advertised", fails: "presence.offline", with: says(ma2htest.Discover, 200, func(d doc) { inner(d, "presence")["freshness_seconds"] = 30 })},
	{name: "an agent is online for less than is advertised", fails: "presence.edge", with: says(ma2htest.Discover, 200, func(d doc) { inner(d, "presence")["freshness_seconds"] = 91 })},
	{name: "presence does not tell its window", fails: "presence.drain presence.edge presence.offline presence.online presence.unknown", with: says(ma2htest.Presence, 200, func(d doc) { delete(d, "freshness_seconds") })},
	{name: "presence has no last_seen", fails: "presence.drain presence.edge presence.offline presence.online", with: says(ma2htest.Presence, 200, func(d doc) { delete(d, "last_seen") })},
	{name: "an agent reads the presence of another", fails: "presence.private", with: authorizes(ma2htest.Presence, func(b *bench, h http.Header) {
		if h.Get("Authorization") != "" {
			h.Set("Authorization", "Bearer "+b.hub.OwnerToken())
		}
	})},
	{name: "an agent is told that there is another", fails: "presence.private", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if is(r, ma2htest.Presence) && r.Header.Get("Authorization") == "Bearer "+b.hub.Token(agentTwo) && strings.Contains(r.URL.Path, agentOne) {
			a = refusal(403, "not_authorized")
		}
		a.write(w)
	})},

	{name: "a restart loses what is open", fails: "restart.messages", with: restarts(func(b *bench) {
		for _, m := range b.hub.Messages() {
			if m.Status == types.StatusOpen {
				b.hub.Forget(m.ID)
			}
		}
	})},
	{name: "a restart loses notifies", fails: "restart.messages", with: restarts(func(b *bench) {
		for _, m := range b.hub.Messages() {
			if m.Status == types.StatusDelivered {
				b.hub.Forget(m.ID)
			}
		}
	})},
	{name: "a restart loses the mailbox", fails: "restart.mailbox", with: restarts(func(b *bench) {
		for _, d := range b.hub.Directives(agentOne) {
			b.consume(d.ID)
		}
	})},
	{name: "a restart loses what is drained", fails: "restart.mailbox", with: restarts(func(b *bench) {
		for _, d := range b.hub.Directives(agentOne) {
			if d.InFlight {
				b.consume(d.ID)
			}
		}
	})},
	{name: "a restart loses pushes", fails: "restart.push", with: all(restarts(func(b *bench) {
		for _, m := range b.hub.Messages() {
			b.note("lost "+m.ID, "yes")
		}
	}), pushes(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if b.noted("lost "+text(submitted(r)["in_reply_to"])) == "" {
			next.ServeHTTP(w, r)
		}
	}))},
}

func restarts(loses func(b *bench)) func(*bench) {
	return func(b *bench) {
		b.target.Restart = func(context.Context) error { loses(b); return nil }
	}
}

// forgedAck lets the request say what is the Hub's to say.
func forgedAck(name string) func(*bench) {
	return serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !is(r, ma2htest.Ack) {
			next.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		a := ask(next, r)
		if v := decode(body)[name]; v != nil && a.status == 200 {
			a.doc[name] = v
		}
		a.write(w)
	})
}
