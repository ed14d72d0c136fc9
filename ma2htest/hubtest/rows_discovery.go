package hubtest

import (
	"encoding/json"
	"net/http"
	"strings"
)

// What a Hub says of itself, and in what form it says anything (§8, §8.0).
var discoveryRows = []row{
	{id: "discovery.document", section: "§8.0", says: "the capability document needs no credential and names a version", check: func(p *probe) {
		rep := p.send(Credential{}, "GET", discovery, nil)
		if v := rep.object(http.StatusOK).str("ma2h_version"); minor(v) < 0 {
			rep.wrong("ma2h_version of the form 0.x")
		}
	}},
	{id: "discovery.members", section: "§8.0", says: "what the capability document holds has the types of the text", check: func(p *probe) {
		rep := p.send(Credential{}, "GET", discovery, nil)
		rep.document(rep.object(http.StatusOK))
	}},
	{id: "discovery.mailbox", section: "§8.0", says: "a mailbox is there if and only if it is advertised", check: func(p *probe) {
		rep := p.look()
		offered := needInbound.met(p.suite)
		if offered && rep.status != http.StatusOK {
			rep.wrong("200: the capability document offers inbound")
		}
		if !offered && rep.status/100 == 2 {
			rep.wrong("no 2xx: the capability document offers no inbound")
		}
	}},
	{id: "discovery.earlier", section: "§10", says: "a Hub before 0.4 advertises nothing of 0.4", needs: []need{needBefore04}, check: func(p *probe) {
		rep := p.send(Credential{}, "GET", discovery, nil)
		doc := rep.object(http.StatusOK)
		for _, name := range []string{"inbound", "ack", "presence"} {
			if _, there := doc[name]; there {
				rep.wrong("no %s: it came with 0.4", name)
			}
		}
	}},
	{id: "transport.json", section: "§8", says: "every answer with a body is application/json", check: func(p *probe) {
		submitted := p.submit(p.ask())
		id := submitted.accepted()
		for _, rep := range []reply{
			submitted, p.send(Credential{}, "GET", discovery, nil), p.pull(id), p.cancel(id), p.pull(id), p.look(),
			p.pull(p.key()), p.send(Credential{}, "GET", one(id, ""), nil), p.post(messages, object{}),
		} {
			if got := rep.mediaType(); len(rep.body) > 0 && got != "application/json" {
				rep.wrong("Content-Type application/json, not %s", got)
			}
		}
	}},
	{id: "transport.tls", section: "§8", says: "plaintext is not offered", needs: []need{needHTTPS}, check: func(p *probe) {
		plain := "http" + strings.TrimPrefix(p.t.BaseURL, "https")
		req, err := http.NewRequestWithContext(p.r.Context(), "GET", plain+discovery, nil)
		if err != nil {
			p.fatal("%v", err)
		}
		resp, err := p.t.HTTPClient.Do(req)
		if err != nil {
			return // nobody there
		}
		_ = resp.Body.Close()
		if resp.StatusCode/100 == 2 {
			p.fail("\tsent: GET %s\n\tcame: %d\n\twant: no 2xx over plain http", discovery, resp.StatusCode)
		}
	}},
	{id: "errors.envelope", section: "§8.5", says: "every error has a code and a message in the canonical envelope", check: func(p *probe) {
		ask := p.ask()
		id := p.open(ask)
		p.cancel(id)
		stranger := p.ask(object{"agent": object{"id": p.t.Agent.ID + "/nobody", "run_id": "r", "runtime": "other"}})
		for _, provoked := range []struct {
			reply
			status int
		}{
			{p.post(messages, object{}), 400},
			{p.send(Credential{}, "GET", one(id, ""), nil), 401},
			{p.submit(stranger), 403},
			{p.pull(p.key()), 404},
			{p.submit(ask.with(object{"title": "Another title"})), 409},
			{p.submit(p.ask(object{"expires_at": "2001-01-01T00:00:00Z"})), 422},
		} {
			rep := provoked.reply
			if rep.status != provoked.status || rep.code() == "" || rep.json.str("error", "message") == "" {
				rep.wrong(`%d {"error":{"code":"...","message":"..."}}%s`, provoked.status, rep.why())
			}
		}
	}},
}

// document holds the members of a capability document that are there to their
// types (§8.0). Unknown ones, also inside, are nobody's business (§10).
func (r reply) document(doc object) {
	r.p.r.Helper()
	type check struct {
		path string
		fits func(any) bool
		want string
	}
	least := func(low int64) func(any) bool {
		return func(v any) bool {
			n, ok := v.(json.Number)
			i, err := n.Int64()
			return ok && err == nil && i >= low
		}
	}
	names := func(v any) bool {
		list, ok := v.([]any)
		for _, e := range list {
			_, s := e.(string)
			ok = ok && s
		}
		return ok
	}
	boolean := func(v any) bool { _, ok := v.(bool); return ok }
	text := func(v any) bool { s, ok := v.(string); return ok && s != "" }
	for _, c := range []check{
		{"max_body_bytes", least(1), "an integer from 1"},
		{"max_part_bytes", least(1), "an integer from 1"},
		{"max_context_parts", least(0), "an integer from 0"},
		{"auth_schemes", names, "an array of strings"},
		{"callback_auth_schemes", names, "an array of strings"},
		{"signature_algs", names, "an array of strings"},
		{"rate_limit.requests_per_minute", least(0), "an integer"},
		{"rate_limit.inbox_depth", least(0), "an integer"},
		{"retention_days", least(1), "an integer from 1"},
		{"replay_window_seconds", least(1), "an integer from 1"},
		{"inbound.enabled", boolean, "a boolean"},
		{"inbound.poll_url", text, "a URL"},
		{"inbound.ack_url", text, "a URL"},
		{"inbound.max_batch", least(1), "an integer from 1"},
		{"inbound.visibility_timeout_seconds", least(1), "an integer from 1"},
		{"inbound.retention_days", least(1), "an integer from 1"},
		{"inbound.signature_algs", names, "an array of strings"},
		{"inbound.webhook_supported", boolean, "a boolean"},
		{"ack.enabled", boolean, "a boolean"},
		{"ack.signature_algs", names, "an array of strings"},
		{"presence.enabled", boolean, "a boolean"},
		{"presence.freshness_seconds", least(1), "an integer from 1"},
	} {
		path := strings.Split(c.path, ".")
		holder := doc
		if len(path) == 2 {
			if outer, there := doc[path[0]]; there && kind(outer) != "object" {
				r.wrong("%s to be an object", path[0])
				continue
			}
			holder = doc.obj(path[0])
		}
		if v, there := holder[path[len(path)-1]]; there && !c.fits(v) {
			r.wrong("%s to be %s, not %s", c.path, c.want, show(v))
		}
	}
}
