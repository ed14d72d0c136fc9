package ma2htest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// req: DISC-01 DISC-04
func TestDiscoveryNeedsNoCredentialAndSaysTheVersion(t *testing.T) {
	for _, version := range []string{types.V02, types.V03, types.V04} {
		for name, via := range map[string]func(testing.TB, *Hub) *wire{"memory": memory, "tls": overTLS} {
			hub := NewHub(t, Options{Version: version})
			g := via(t, hub).as("").do("GET", "/.well-known/ma2h", "")
			var c types.Capability
			if err := types.Decode(g.body, &c); err != nil || g.status != http.StatusOK {
				t.Fatal(name, g.status, err)
			}
			if c.Version != version || c.OffersAck() != (version == types.V04) || c.OffersPresence() != (version == types.V04) || c.OffersInbound() != (version == types.V04) {
				t.Errorf("%s %s: %+v", name, version, c)
			}
		}
	}
}

// req: SUB-04 FH-14
func TestWithoutAValidCredentialNothingIsServed(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	for name, set := range map[string]func(http.Header){
		"none":                   func(h http.Header) { h.Del("Authorization") },
		"an unknown token":       func(h http.Header) { h.Set("Authorization", "Bearer nope") },
		"an empty token":         func(h http.Header) { h.Set("Authorization", "Bearer ") },
		"basic":                  func(h http.Header) { h.Set("Authorization", "Basic "+w.token) },
		"the key as token":       func(h http.Header) { h.Set("Authorization", "Bearer "+hub.APIKey(bot)) },
		"the token as key":       func(h http.Header) { h.Del("Authorization"); h.Set("X-Api-Key", w.token) },
		"two that disagree":      func(h http.Header) { h.Set("X-Api-Key", hub.APIKey("other/bot")) },
		"a second that is wrong": func(h http.Header) { h.Add("Authorization", "Bearer nope") },
	} {
		for _, endpoint := range []string{"POST /v1/messages", "GET /v1/messages/" + id, "POST /v1/messages/" + id + "/cancel", "POST /v1/messages/" + id + "/ack", "GET /v1/agents/x/presence"} {
			method, path, _ := cut(endpoint)
			req := w.request(t.Context(), method, path, map[string]string{"POST": notify("")}[method])
			set(req.Header)
			resp, err := w.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with %s: %d", endpoint, name, resp.StatusCode)
			}
		}
	}
	hub.RequireMessages(t, 1)
	hub.RequireStatus(t, id, types.StatusOpen)
}

// req: SUB-04
func TestBearerTokenAndAPIKeyAreScopedToOneAgent(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	w.submit(notify(""))
	req := w.as("").request(t.Context(), "POST", "/v1/messages", notify(""))
	req.Header.Set("X-Api-Key", hub.APIKey(bot))
	resp, err := w.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted || hub.APIKey(bot) != req.Header.Get("X-Api-Key") || hub.Token(bot) != w.token {
		t.Fatal(resp.StatusCode)
	}
	for _, token := range []string{hub.Token("other/bot"), hub.OwnerToken()} {
		w.as(token).do("POST", "/v1/messages", notify("")).wantError(t, http.StatusForbidden, types.CodeAgentIDMismatch)
	}
	hub.RequireMessages(t, 2)
}

func TestASchemeThatIsNotAdvertisedIsNotTaken(t *testing.T) {
	hub := NewHub(t, Options{Capability: func(c *types.Capability) { c.AuthSchemes = []string{"apikey"} }})
	memory(t, hub).do("POST", "/v1/messages", notify("")).wantError(t, http.StatusUnauthorized, types.CodeUnauthenticated)
}

// req: ERR-01
func TestUnknownPathsAndMethodsAreRefusedInTheErrorEnvelope(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	for _, path := range []string{"/", "/v1", "/v1/message", "/v1/messages/", "/v1/messages/x/y", "/v1/messages/x/resolve", "/v2/messages", "/v1/agents/a/b/presence", "/v1/agents//presence", "//v1/messages"} {
		w.do("GET", path, "").wantError(t, http.StatusNotFound, types.CodeNotFound)
	}
	for endpoint, allow := range map[string]string{
		"PUT /v1/messages": "POST", "GET /v1/messages": "POST", "DELETE /v1/messages/x": "GET",
		"GET /v1/messages/x/cancel": "POST", "POST /.well-known/ma2h": "GET",
	} {
		method, path, _ := cut(endpoint)
		g := w.do(method, path, "")
		g.wantError(t, http.StatusMethodNotAllowed, "method_not_allowed")
		if g.header.Get("Allow") != allow {
			t.Errorf("%s: Allow %q", endpoint, g.header.Get("Allow"))
		}
	}
}

// req: DISC-13
func TestAHubMayLiveUnderAPath(t *testing.T) {
	for name, via := range map[string]func(testing.TB, *Hub) *wire{"memory": memory, "tls": overTLS} {
		hub := NewHub(t, Options{PathPrefix: "/team/hub"})
		w := via(t, hub)
		ack := w.do("POST", "/v1/messages", ask("k1")).ack(t)
		path, ok := strings.CutPrefix(ack.PollURL, w.base)
		if !ok || !strings.HasSuffix(w.base, "/team/hub") {
			t.Fatalf("%s: poll_url %s", name, ack.PollURL)
		}
		w.do("GET", path, "").view(t)
		outside := *w
		outside.base = strings.TrimSuffix(w.base, "/team/hub")
		outside.do("GET", "/.well-known/ma2h", "").wantError(t, http.StatusNotFound, types.CodeNotFound)
	}
}

// req: PRE-01 PRE-02 PRE-03
func TestPresenceFollowsTheLongPollsAndIsTheOwners(t *testing.T) {
	hub := NewHub(t, Options{Start: start, Capability: func(c *types.Capability) { c.Presence.FreshnessSeconds = 30 }})
	w := memory(t, hub)
	owner := w.as(hub.OwnerToken())
	state := func(w *wire, path string) types.Presence {
		t.Helper()
		var p types.Presence
		g := w.do("GET", path, "")
		if err := types.Decode(g.body, &p); err != nil || g.status != http.StatusOK {
			t.Fatal(g.status, err)
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	const path = "/v1/agents/deploybot%2Fdev-team/presence"
	id := w.submit(ask("k1"))
	w.do("GET", "/v1/messages/"+id, "")
	w.do("GET", "/v1/messages/"+id+"?wait=0", "")
	if p := state(owner, path); p.State != types.Unknown || p.AgentID != bot || p.FreshnessSeconds != 30 {
		t.Fatalf("before a long-poll %+v", p)
	}
	if err := hub.Answer(id, "ship"); err != nil {
		t.Fatal(err)
	}
	w.do("GET", "/v1/messages/"+id+"?wait=1", "")
	hub.Advance(30 * time.Second)
	if p := state(owner, path); p.State != types.Online || p.LastSeen != "2026-06-04T12:00:00Z" {
		t.Fatalf("at the edge %+v", p)
	}
	hub.Advance(1)
	if p := state(owner, path); p.State != types.Offline {
		t.Fatalf("past it %+v", p)
	}
	for _, other := range []*wire{w, w.as(hub.Token("other/bot"))} {
		if p := state(other, path); p.State != types.Unknown || p.LastSeen != "" {
			t.Fatalf("an agent reads %+v", p)
		}
	}
	if p := state(owner, "/v1/agents/nobody/presence"); p.State != types.Unknown {
		t.Fatalf("%+v", p)
	}
}

// req: TEL-01
func TestRecordedRequestsAndReportsHoldNoCredential(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	w.submit(ask("k1", fields{"state": fields{"s": "CANARY"}, "body": "CANARY", "title": "CANARY"}))
	r := hub.Requests()[0]
	if r.Agent != bot || r.Status != http.StatusAccepted || r.Endpoint != Submit || r.Host != "hub.test" || r.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v", r)
	}
	if r.Header.Get("Authorization") != "" || r.Header.Get("X-Api-Key") != "" {
		t.Fatal("the record has a credential")
	}
	if !strings.Contains(string(r.Body), "CANARY") {
		t.Fatal("the record lacks the body")
	}
	if report := hub.report(); strings.Contains(report, "CANARY") || strings.Contains(report, w.token) || !strings.Contains(report, "202 Accepted") {
		t.Fatal(report)
	}
}

func TestTheRecordIsBounded(t *testing.T) {
	for keep, want := range map[int]int{-1: 0, 3: 3, 0: 5} {
		hub := NewHub(t, Options{KeepRequests: keep})
		w := memory(t, hub)
		for range 5 {
			w.submit(notify(""))
		}
		if n := len(hub.Requests()); n != want {
			t.Errorf("KeepRequests %d keeps %d", keep, n)
		}
		if fails := failed(func(t testing.TB) { hub.RequireRequests(t, Submit, 5) }); fails != (want < 5) {
			t.Errorf("KeepRequests %d: RequireRequests failed: %v", keep, fails)
		}
	}
}
