package hubtest

import "net/http"

// Who may do what (§9.1).
var authRows = []row{
	{id: "auth.missing", section: "§9.1", says: "without a credential everything but discovery is 401", check: func(p *probe) {
		p.locked(Credential{})
	}},
	{id: "auth.wrong", section: "§9.1", says: "a credential that nobody has is 401 everywhere", check: func(p *probe) {
		p.locked(p.t.Agent.Credential.wrong())
	}},
	{id: "auth.mismatch", section: "§9.1", says: "an envelope whose agent.id is not the credential's is 403", check: func(p *probe) {
		id := p.t.Other.ID
		if id == "" {
			id = p.t.Agent.ID + "/nobody"
		}
		p.submit(p.ask(object{"agent": object{"id": id, "run_id": "r", "runtime": "other"}})).refused(403, "agent_id_mismatch")
	}},
	{id: "auth.scheme", section: "§9.1", says: "both credentials of an agent stand for it", needs: []need{needSecond}, check: func(p *probe) {
		id := p.open(p.ask())
		p.send(p.t.Agent.Second, "GET", one(id, ""), nil).is(id, "open")
		other := p.send(p.t.Agent.Second, "POST", messages, p.ask()).accepted()
		p.pull(other).is(other, "open")
	}},
}

// locked tries every endpoint with a credential that is none.
func (p *probe) locked(who Credential) {
	p.r.Helper()
	id := p.open(p.ask())
	tries := []struct {
		method, path string
		body         any
	}{
		{"POST", messages, p.ask()},
		{"GET", one(id, ""), nil},
		{"POST", one(id, "/cancel"), nil},
	}
	if needAck.met(p.suite) {
		tries = append(tries, struct {
			method, path string
			body         any
		}{"POST", one(id, "/ack"), object{}})
	}
	if needInbound.met(p.suite) {
		tries = append(tries, struct {
			method, path string
			body         any
		}{"GET", p.inboxURL(), nil}, struct {
			method, path string
			body         any
		}{"POST", p.ackURL(), object{"ids": []any{}}})
	}
	for _, t := range tries {
		p.send(who, t.method, t.path, t.body).refused(http.StatusUnauthorized, "unauthenticated")
	}
	p.pull(id).is(id, "open")
}
