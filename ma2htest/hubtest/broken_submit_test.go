package hubtest_test

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// What a Hub says of itself, and who may ask.
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

// What a Hub takes.
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
