package hubtest_test

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

var brokenAnswers = []breakage{
	{name: "discovery wants a credential", fails: "discovery.document discovery.mailbox discovery.members", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.Discover) && r.Header.Get("Authorization") == "" {
			refusal(401, "unauthenticated").write(w)
			return
		}
		next.ServeHTTP(w, r)
	})},
	{name: "the version of the document is not canonical", fails: "discovery.document", with: says(ma2htest.Discover, 200, func(d doc) { d["ma2h_version"] = "0.04" })},
	{name: "a number of the document is text", fails: "discovery.members", with: says(ma2htest.Discover, 200, func(d doc) { d["retention_days"] = "30" })},
	{name: "a member of an object of the document has another type", fails: "discovery.members", with: says(ma2htest.Discover, 200, func(d doc) { inner(d, "inbound")["webhook_supported"] = "yes" })},
	{name: "an object of the document is text", fails: "discovery.members", with: says(ma2htest.Discover, 200, func(d doc) { d["presence"] = "yes" })},
	{name: "the mailbox is not advertised", fails: "discovery.mailbox", with: says(ma2htest.Discover, 200, func(d doc) { delete(d, "inbound") })},
	{name: "a mailbox is advertised and not there", fails: "directive.form directive.fresh directive.signed discovery.mailbox inbox.ack inbox.ack.again inbox.again inbox.atonce inbox.empty inbox.expires inbox.foreign inbox.hidden inbox.hold inbox.hold.timeout inbox.max inbox.order restart.mailbox webhook.signed", options: ma2htest.Options{Version: types.V03}, with: says(ma2htest.Discover, 200, func(d doc) {
		d["ma2h_version"], d["inbound"] = types.V04, doc{"enabled": true}
	})},
	{name: "a Hub of 0.3 advertises receipts", fails: "discovery.earlier", options: ma2htest.Options{Version: types.V03}, with: says(ma2htest.Discover, 200, func(d doc) { d["ack"] = doc{"enabled": false} })},
	{name: "a 404 is text", fails: "transport.json", with: answers(ma2htest.Pull, func(_ *http.Request, a *answer) {
		if a.status == 404 {
			a.header.Set("Content-Type", "text/plain; charset=utf-8")
		}
	})},
	{name: "the content type is missing", fails: "transport.json", with: answers(ma2htest.Submit, func(_ *http.Request, a *answer) { a.header.Del("Content-Type") })},
	{name: "http is answered too", fails: "transport.tls", with: func(b *bench) { b.plain = true }},
	{name: "errors have no message", fails: "errors.envelope", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		delete(inner(a.doc, "error"), "message")
		a.write(w)
	})},
	{name: "a 404 has the code at the top", fails: "ack.foreign cancel.foreign cancel.unknown errors.envelope pull.foreign pull.unknown", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if a.status == 404 {
			a.doc = doc{"code": "not_found", "message": "no such message"}
		}
		a.write(w)
	})},
	{name: "no credential is needed", fails: "auth.missing errors.envelope", with: authorizes("", func(b *bench, h http.Header) {
		if h.Get("Authorization") == "" && h.Get("X-Api-Key") == "" {
			h.Set("Authorization", "Bearer "+b.hub.Token(agentOne))
		}
	})},
	{name: "any token that begins right is taken", fails: "auth.wrong", with: authorizes("", func(b *bench, h http.Header) {
		if strings.HasPrefix(h.Get("Authorization"), "Bearer "+b.hub.Token(agentOne)) {
			h.Set("Authorization", "Bearer "+b.hub.Token(agentOne))
		}
	})},
	{name: "a missing credential is 403", fails: "auth.missing auth.wrong errors.envelope", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := ask(next, r)
		if a.status == 401 {
			a.status = 403
		}
		a.write(w)
	})},
	{name: "agent.id is not held to the credential", fails: "auth.mismatch errors.envelope", with: takes(func(_ *bench, e doc) {
		if a := inner(e, "agent"); a != nil && a["id"] != agentTwo {
			a["id"] = agentOne
		} else if a != nil && strings.Contains(e["title"].(string), "auth.mismatch") {
			a["id"] = agentOne
		}
	})},
	{name: "an API key is not taken", fails: "auth.scheme", with: authorizes("", func(_ *bench, h http.Header) { h.Del("X-Api-Key") })},
}

var brokenSubmits = []breakage{
	{name: "a task is taken with 200", fails: "cancel.task expiry.task key.replay push.task resolve.listed resolve.verb response.completed response.dismissed restart.messages submit.task", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		task := is(r, ma2htest.Submit) && submitted(r)["type"] == "task"
		a := ask(next, r)
		if task && a.status == 202 {
			a.status = 200
		}
		a.write(w)
	})},
	{name: "a notify is open", fails: "envelope.key envelope.parts envelope.title limits.body limits.parts submit.notify", with: says(ma2htest.Submit, 202, func(d doc) {
		if d["status"] == "delivered" {
			d["status"] = "open"
		}
	})},
	{name: "an ask is pending", fails: "envelope.default envelope.default.input envelope.expired submit.ask submit.minor submit.modes submit.parity submit.task submit.unknown", with: says(ma2htest.Submit, 202, func(d doc) {
		if d["status"] == "open" {
			d["status"] = "pending"
		}
	})},
	{name: "an acknowledgment has no id", fails: "cancel.task expiry.task key.replay push.task resolve.listed resolve.verb response.completed response.dismissed restart.messages submit.task", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		task := is(r, ma2htest.Submit) && submitted(r)["type"] == "task"
		a := ask(next, r)
		if task {
			delete(a.doc, "id")
		}
		a.write(w)
	})},
	{name: "confirm needs options", fails: "resolve.confirm submit.modes", with: takes(func(_ *bench, e doc) {
		if r := inner(e, "request"); r["mode"] == "confirm" && r["options"] == nil {
			r["mode"] = "select"
		}
	})},
	{name: "there is no poll_url", fails: "envelope.default envelope.default.input envelope.expired envelope.key envelope.parts envelope.title limits.body limits.parts submit.ask submit.minor submit.modes submit.notify submit.parity submit.poll_url submit.task submit.unknown", with: says(ma2htest.Submit, 202, func(d doc) { delete(d, "poll_url") })},
	{name: "review_url is no text", fails: "envelope.default envelope.default.input envelope.expired envelope.key envelope.parts envelope.title limits.body limits.parts submit.ask submit.minor submit.modes submit.notify submit.parity submit.task submit.unknown", with: says(ma2htest.Submit, 202, func(d doc) { d["review_url"] = 1 })},
	{name: "poll_url leads to another message", fails: "submit.poll_url", with: says(ma2htest.Submit, 202, func(d doc) { d["poll_url"] = d["poll_url"].(string) + "x" })},
	{name: "the agent chooses the id", fails: "submit.id", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		var mine any
		if is(r, ma2htest.Submit) {
			mine = submitted(r)["id"]
		}
		a := ask(next, r)
		if a.doc != nil && mine != nil {
			a.doc["id"] = mine
		}
		a.write(w)
	})},
	{name: "the agent may send a response", fails: "submit.id", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		var sent any
		if is(r, ma2htest.Submit) {
			sent = submitted(r)["response"]
		}
		a := ask(next, r)
		if sent != nil && a.doc != nil {
			b.note(a.doc["id"].(string), "sent")
		}
		if is(r, ma2htest.Pull) && a.doc != nil && b.noted(idOf(r)) != "" {
			a.doc["response"] = doc{"resolution": "answered"}
		}
		a.write(w)
	})},
	{name: "client_ref is a key", fails: "submit.label", with: takes(func(_ *bench, e doc) {
		if e["client_ref"] != nil && e["idempotency_key"] == nil {
			e["idempotency_key"] = e["client_ref"]
		}
	})},
	{name: "an unknown member is an error", fails: "submit.unknown", with: takes(func(_ *bench, e doc) {
		for name := range e {
			if strings.HasPrefix(name, "x_") {
				delete(e, "title")
			}
		}
	})},
	{name: "an unknown member deep inside is an error", fails: "submit.unknown", with: takes(func(_ *bench, e doc) {
		if _, there := inner(e, "request")["x_unknown"]; there {
			delete(e, "title")
		}
	})},
	{name: "a later minor is refused", fails: "submit.minor", with: takes(func(_ *bench, e doc) {
		if e["ma2h_version"] == "0.19" {
			e["ma2h_version"] = "1.0"
		}
	})},
	{name: "an earlier minor is refused", fails: "submit.minor submit.parity", with: takes(func(_ *bench, e doc) {
		if e["ma2h_version"] == "0.2" {
			e["ma2h_version"] = "1.0"
		}
	})},
	{name: "an unknown major is taken", fails: "submit.major", with: takes(func(_ *bench, e doc) {
		if e["ma2h_version"] == "1.0" {
			e["ma2h_version"] = "0.3"
		}
	})},
	{name: "an unknown major is a validation_error", fails: "submit.major submit.parity", with: answers(ma2htest.Submit, func(_ *http.Request, a *answer) {
		if inner(a.doc, "error")["code"] == "version_not_supported" {
			inner(a.doc, "error")["code"] = "validation_error"
		}
	})},
	{name: "a leading zero is taken", fails: "submit.spelling", with: takes(func(_ *bench, e doc) {
		if e["ma2h_version"] == "0.03" {
			e["ma2h_version"] = "0.3"
		}
	})},
	{name: "a push before 0.3 is taken", fails: "submit.parity", with: takes(func(_ *bench, e doc) {
		if e["ma2h_version"] == "0.2" && inner(e, "request", "callback") != nil {
			e["ma2h_version"] = "0.3"
		}
	})},
	{name: "a body that is no JSON is 500", fails: "envelope.malformed", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.Submit) && submitted(r) == nil {
			http.Error(w, "oops", http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(w, r)
	})},
	{name: "a title is not needed", fails: "envelope.members", with: takes(func(_ *bench, e doc) {
		if e["title"] == nil {
			e["title"] = "Untitled"
		}
	})},
	{name: "an unknown type is 500", fails: "envelope.type", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.Submit) && submitted(r)["type"] == "poke" {
			http.Error(w, "oops", http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(w, r)
	})},
	{name: "an unknown type is a notify", fails: "envelope.type", with: takes(func(_ *bench, e doc) {
		if e["type"] == "directive" {
			e["type"] = "notify"
			delete(e, "request")
		}
	})},
	{name: "a notify may carry a request", fails: "envelope.blocks", with: takes(func(_ *bench, e doc) {
		if e["type"] == "notify" {
			delete(e, "request")
		}
	})},
	{name: "a title is bounded in bytes", fails: "envelope.title", with: takes(func(_ *bench, e doc) {
		if title, ok := e["title"].(string); ok && len(title) > 200 {
			e["title"] = ""
		}
	})},
	{name: "a long title is cut", fails: "envelope.title", with: takes(func(_ *bench, e doc) {
		if title, ok := e["title"].(string); ok && len([]rune(title)) > 200 {
			e["title"] = title[:200]
		}
	})},
	{name: "an unknown priority is normal", fails: "envelope.values", with: takes(func(_ *bench, e doc) {
		if e["priority"] == "medium" {
			e["priority"] = "normal"
		}
	})},
	{name: "a part of an unknown kind is dropped", fails: "envelope.parts", with: takes(func(_ *bench, e doc) {
		if list, ok := e["context"].([]any); ok {
			if part, ok := list[0].(doc); ok && part["kind"] == "video" {
				delete(e, "context")
			}
		}
	})},
	{name: "a file has no place", fails: "envelope.parts", with: takes(func(_ *bench, e doc) {
		if list, ok := e["context"].([]any); ok && len(list) == 3 {
			e["context"] = "file"
		}
	})},
	{name: "a task needs no key", fails: "envelope.key", with: takes(func(b *bench, e doc) {
		if e["type"] == "task" && e["idempotency_key"] == nil {
			e["idempotency_key"] = "made up"
		}
	})},
	{name: "a confirm may have one option", fails: "envelope.question", with: takes(func(_ *bench, e doc) {
		if r := inner(e, "request"); r["mode"] == "confirm" {
			if list, ok := r["options"].([]any); ok && len(list) == 1 {
				delete(r, "options")
			}
		}
	})},
	{name: "an expires_at in the past is forgotten", fails: "envelope.expired envelope.now errors.envelope key.overdue", with: takes(func(b *bench, e doc) {
		if at, err := time.Parse(time.RFC3339Nano, text(e["expires_at"])); err == nil && !at.After(b.hub.Now()) {
			delete(e, "expires_at")
		}
	})},
	{name: "an expires_at in the past is 400", fails: "envelope.expired envelope.now errors.envelope", with: answers(ma2htest.Submit, func(_ *http.Request, a *answer) {
		if a.status == 422 && strings.Contains(text(inner(a.doc, "error")["message"]), "expires_at") {
			a.status = 400
		}
	})},
	{name: "an expires_at of now is taken", fails: "envelope.now", with: takes(func(b *bench, e doc) {
		if at, err := time.Parse(time.RFC3339Nano, text(e["expires_at"])); err == nil && at.Equal(b.hub.Now()) {
			e["expires_at"] = at.Add(time.Hour).Format(time.RFC3339Nano)
		}
	})},
	{name: "a default may be anything", fails: "envelope.default", with: takes(func(_ *bench, e doc) {
		if r := inner(e, "request"); r["default_on_expire"] == "burn" {
			delete(r, "default_on_expire")
		}
	})},
	{name: "a default of null is refused", fails: "envelope.default expiry.null", with: takes(func(_ *bench, e doc) {
		if d, there := inner(e, "request")["default_on_expire"]; there && d == nil {
			inner(e, "request")["default_on_expire"] = "null"
		}
	})},
	{name: "the default of an input may be anything", fails: "envelope.default.input", with: takes(func(_ *bench, e doc) {
		if d := inner(e, "request", "default_on_expire"); d != nil && d["reason"] == nil {
			d["reason"] = ""
		}
	})},
	{name: "a callback may lack its reference", fails: "envelope.callback", with: takes(func(_ *bench, e doc) {
		if a := inner(e, "request", "callback", "auth"); a != nil && a["secret_ref"] == nil && a["token_ref"] == nil {
			a["secret_ref"] = "env:NONE"
		}
	})},
	{name: "a long body is cut", fails: "limits.body", with: takes(func(_ *bench, e doc) {
		if body := text(e["body"]); len(body) > 4<<10 {
			e["body"] = body[:10]
		}
	})},
	{name: "a long body is 413", fails: "limits.body", with: answers(ma2htest.Submit, func(_ *http.Request, a *answer) {
		if a.status == 422 && strings.Contains(text(inner(a.doc, "error")["message"]), "body is") {
			a.status = 413
		}
	})},
	{name: "parts too many are dropped", fails: "limits.parts", with: takes(func(_ *bench, e doc) {
		if list, ok := e["context"].([]any); ok && len(list) > 16 {
			e["context"] = list[:16]
		}
	})},
	{name: "a long part is cut", fails: "limits.part", with: takes(func(_ *bench, e doc) {
		if list, ok := e["context"].([]any); ok && len(list) == 1 {
			if part, ok := list[0].(doc); ok && len(text(part["text"])) > 8<<10 {
				part["text"] = "cut"
			}
		}
	})},
	{name: "a 429 of the rate has no Retry-After", fails: "limits.rate", options: limited(40, 0), with: answers(ma2htest.Submit, func(_ *http.Request, a *answer) { a.header.Del("Retry-After") })},
	{name: "a 429 of the rate promises too much", fails: "limits.rate", options: limited(40, 0), with: answers(ma2htest.Submit, func(_ *http.Request, a *answer) {
		if a.status == 429 {
			a.header.Set("Retry-After", "1")
		}
	})},
	{name: "the rate is not held to", fails: "limits.rate", with: says(ma2htest.Discover, 200, func(d doc) { d["rate_limit"] = doc{"requests_per_minute": 40} })},
	{name: "a 429 of the depth has no Retry-After", fails: "limits.depth", options: limited(0, 30), with: answers(ma2htest.Submit, func(_ *http.Request, a *answer) { a.header.Del("Retry-After") })},
	{name: "the depth is not held to", fails: "limits.depth", with: says(ma2htest.Discover, 200, func(d doc) { d["rate_limit"] = doc{"inbox_depth": 30} })},
	{name: "over the rate it is 503", fails: "limits.rate", options: limited(40, 0), with: answers(ma2htest.Submit, func(_ *http.Request, a *answer) {
		if a.status == 429 {
			a.status = 503
		}
	})},
}

func limited(rate, depth int64) ma2htest.Options {
	return ma2htest.Options{Capability: func(c *types.Capability) {
		c.RateLimit = &types.RateLimit{RequestsPerMinute: rate, InboxDepth: depth}
	}}
}

// submitted is the body of a request, which can be read again.
func submitted(r *http.Request) doc {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return decode(body)
}

func text(v any) string { s, _ := v.(string); return s }

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
