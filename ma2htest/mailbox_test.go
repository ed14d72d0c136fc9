package ma2htest

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go/schema"
	"github.com/ma2h/ma2h-go/types"
)

// drained is one entry of a drain, taken apart.
type drained struct {
	id, to, jti, t, v1 string
	body               string
	signature          string
}

// entries reads a drain whose rows are all directives.
func (g got) entries(t testing.TB) []drained {
	t.Helper()
	if g.status != http.StatusOK {
		t.Fatalf("drain: %d %s", g.status, g.body)
	}
	var batch types.InboxBatch
	if err := types.Decode(g.body, &batch); err != nil {
		t.Fatalf("%v in %s", err, g.body)
	}
	out := []drained{}
	for _, e := range batch.Messages {
		var d struct{ ID, To string }
		if err := json.Unmarshal(e.Directive, &d); err != nil {
			t.Fatalf("%v in %s", err, e.Directive)
		}
		header, ok := strings.CutPrefix(e.Signature, "MA2H-Signature: ")
		m := headerItems.FindStringSubmatch(header)
		if !ok || m == nil {
			t.Fatalf("signature %q", e.Signature)
		}
		_, v1, _ := strings.Cut(header, "v1=")
		out = append(out, drained{id: d.ID, to: d.To, t: m[1], jti: m[2], v1: v1, body: string(e.Directive), signature: e.Signature})
	}
	return out
}

func (w *wire) drain(query string) []drained {
	w.t.Helper()
	return w.do("GET", "/v1/inbox"+query, "").entries(w.t)
}

func (w *wire) ackInbox(note string, ids ...string) int64 {
	w.t.Helper()
	f := fields{"ids": append([]string{}, ids...)}
	if note != "" {
		f["note"] = note
	}
	g := w.do("POST", "/v1/inbox/ack", f.json())
	var r types.InboxAckResult
	if err := types.Decode(g.body, &r); err != nil || g.status != http.StatusOK {
		w.t.Fatalf("ack: %d %s", g.status, g.body)
	}
	return r.Acked
}

func idsOf(entries []drained) []string {
	ids := []string{}
	for _, e := range entries {
		ids = append(ids, e.id)
	}
	return ids
}

// send puts directives with these titles into the mailbox of bot.
func send(t testing.TB, h *Hub, titles ...string) []string {
	t.Helper()
	var ids []string
	for _, title := range titles {
		id, err := h.SendDirective(bot, DirectiveDraft{Title: title})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func wantIDs(t testing.TB, got []drained, want ...string) {
	t.Helper()
	if !slices.Equal(idsOf(got), want) {
		t.Fatalf("drained %v, want %v", idsOf(got), want)
	}
}

// req: DISC-05 DISC-02 VER-05
func TestTheMailboxIsAdvertisedWhereThereIsOneAndIsNotThereElsewhere(t *testing.T) {
	hub := NewHub(t, Options{PathPrefix: "/hub"})
	w := memory(t, hub)
	var doc types.Capability
	if err := types.Decode(w.do("GET", "/.well-known/ma2h", "").body, &doc); err != nil {
		t.Fatal(err)
	}
	in := doc.Inbound
	if in == nil || !in.Enabled || in.PollURL != w.base+"/v1/inbox" || in.AckURL != w.base+"/v1/inbox/ack" ||
		in.MaxBatch != 32 || in.VisibilityTimeoutSeconds != 60 || in.RetentionDays != 30 || !in.WebhookSupported || len(in.SignatureAlgs) != 2 {
		t.Fatalf("inbound %+v", in)
	}
	w.drain("")

	without := map[string]Options{
		"0.3":      {Version: "0.3"},
		"0.2":      {Version: "0.2"},
		"switched": {Capability: func(c *types.Capability) { c.Inbound.Enabled = false }},
		"omitted":  {Capability: func(c *types.Capability) { c.Inbound = nil }},
	}
	for name, opts := range without {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t, opts)
			w := memory(t, hub)
			var doc types.Capability
			if err := types.Decode(w.do("GET", "/.well-known/ma2h", "").body, &doc); err != nil || doc.OffersInbound() {
				t.Fatalf("%v, inbound %v", err, doc.Inbound)
			}
			w.do("GET", "/v1/inbox", "").wantError(t, 404, types.CodeNotFound)
			w.do("POST", "/v1/inbox/ack", `{"ids":["dir_1"]}`).wantError(t, 404, types.CodeNotFound)
			if id, err := hub.SendDirective(bot, DirectiveDraft{Title: "Pause"}); !isError(err, ErrNotFound) || id != "" {
				t.Fatalf("sent %q, %v", id, err)
			}
		})
	}
}

// req: FH-11 INB-01 INB-19 INB-24
func TestDirectivesAreDrainedInTheOrderInWhichTheyWereSent(t *testing.T) {
	for name, via := range map[string]func(testing.TB, *Hub) *wire{"memory": memory, "tls": overTLS} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start, Capability: func(c *types.Capability) { c.Inbound.MaxBatch = 3 }})
			w := via(t, hub)
			if g := w.do("GET", "/v1/inbox", ""); string(g.body) != `{"messages":[]}` {
				t.Fatalf("empty mailbox: %s", g.body)
			}
			ids := send(t, hub, "one", "two", "three", "four", "five", "six")
			wantIDs(t, w.drain("?max=2"), ids[:2]...)
			wantIDs(t, w.drain("?max=99"), ids[2:5]...)
			wantIDs(t, w.drain(""), ids[5:]...)
			wantIDs(t, w.drain("?max=3"))
		})
	}
}

// req: INB-24 SIG-02 AMB-10
func TestADirectiveArrivesAsTheHumanWroteItWithWhatOnlyTheHubSays(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	id, err := hub.SendDirective(bot, DirectiveDraft{
		From: alice, Title: "Pause deploys", Body: "Until *noon*.", Priority: types.PriorityUrgent, Tags: []string{"ops"},
		Context:   []types.Part{{Kind: types.PartData, Data: types.Raw(`{"n":1.50}`)}},
		ExpiresAt: start.Add(time.Hour + time.Nanosecond), Sensitive: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	e := w.drain("")[0]
	want := `{"ma2h_version":"0.4","type":"directive","id":"` + id + `","from":"human:alice","to":"agent:deploybot/dev-team",` +
		`"created_at":"2026-06-04T12:00:00Z","title":"Pause deploys","body":"Until *noon*.","priority":"urgent","tags":["ops"],` +
		`"context":[{"kind":"data","data":{"n":1.50}}],"expires_at":"2026-06-04T13:00:00.000000001Z","sensitive":true}`
	if e.body != want {
		t.Fatalf("got  %s\nwant %s", e.body, want)
	}
	if err := schema.Validate(types.V04, schema.Directive, []byte(e.body)); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(id, "dir_") || e.id != id {
		t.Fatalf("id %q", id)
	}
	if e.t != "1780574400" {
		t.Fatalf("t %s is not the Hub's time", e.t)
	}
}

// req: INB-24 FH-16
func TestADraftThatBreaksTheRulesOfADirectiveIsRefusedAndNotSent(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	for name, row := range map[string]struct {
		to    string
		draft DirectiveDraft
	}{
		"no title":           {bot, DirectiveDraft{}},
		"title too long":     {bot, DirectiveDraft{Title: strings.Repeat("é", 201)}},
		"from an agent":      {bot, DirectiveDraft{Title: "x", From: "agent:other"}},
		"from nobody":        {bot, DirectiveDraft{Title: "x", From: "human:"}},
		"to nobody":          {"", DirectiveDraft{Title: "x"}},
		"unknown priority":   {bot, DirectiveDraft{Title: "x", Priority: "now"}},
		"part without kind":  {bot, DirectiveDraft{Title: "x", Context: []types.Part{{}}}},
		"number out of form": {bot, DirectiveDraft{Title: "x", Context: []types.Part{{Kind: types.PartData, Data: types.Raw(`{"n":1e400}`)}}}},
		"a name twice":       {bot, DirectiveDraft{Title: "x", Context: []types.Part{{Kind: types.PartData, Data: types.Raw(`{"n":1,"n":2}`)}}}},
		"too deep":           {bot, DirectiveDraft{Title: "x", Context: []types.Part{{Kind: types.PartData, Data: types.Raw(`{"n":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`)}}}},
		"expired":            {bot, DirectiveDraft{Title: "x", ExpiresAt: start}},
	} {
		if id, err := hub.SendDirective(row.to, row.draft); !isError(err, ErrInvalid) || id != "" {
			t.Errorf("%s: %q, %v", name, id, err)
		}
	}
	if n := len(hub.Directives(bot)) + len(hub.Directives("")); n != 0 {
		t.Fatalf("%d directives were kept", n)
	}
	for name, draft := range map[string]DirectiveDraft{
		"longest title":    {Title: strings.Repeat("é", 200)},
		"from the system":  {Title: "x", From: "system:cron"},
		"expires just now": {Title: "x", ExpiresAt: start.Add(time.Nanosecond)},
	} {
		if _, err := hub.SendDirective(bot, draft); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// req: INB-01
func TestADrainIsHeldUntilADirectiveComes(t *testing.T) {
	for name, via := range map[string]func(testing.TB, *Hub) *wire{"memory": memory, "tls": overTLS} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t)
			w := via(t, hub)
			first, second := make(chan []drained), make(chan []drained)
			for _, c := range []chan []drained{first, second} {
				go func() { c <- w.drain("?wait=60&max=1") }()
			}
			if err := hub.AwaitDrain(t.Context(), bot); err != nil {
				t.Fatal(err)
			}
			ids := send(t, hub, "one", "two")
			got := append(idsOf(<-first), idsOf(<-second)...)
			slices.Sort(got)
			slices.Sort(ids)
			if !slices.Equal(got, ids) {
				t.Fatalf("drained %v, want %v", got, ids)
			}
		})
	}
}

// req: INB-01
func TestADrainWithoutNewsEndsEmptyWhenItsWaitIsOver(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"":           0,
		"?wait=0":    0,
		"?wait=7":    7 * time.Second,
		"?wait=60":   60 * time.Second,
		"?wait=3600": 60 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			hub := NewHub(t)
			w := memory(t, hub)
			hub.SendDirective("other", DirectiveDraft{Title: "not for this one"})
			begin := time.Now()
			if g := w.do("GET", "/v1/inbox"+query, ""); string(g.body) != `{"messages":[]}` || time.Since(begin) != want {
				t.Errorf("%q: %s after %s, want none after %s", query, g.body, time.Since(begin), want)
			}
		})
	}
}

// req: INB-01
func TestAHeldDrainTakesNothingWhenItsCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		w := memory(t, hub)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { _, err := w.try(ctx, "GET", "/v1/inbox?wait=60", ""); gone <- err }()
		synctest.Wait()
		cancel()
		if err := <-gone; err == nil {
			t.Fatal("the drain was answered")
		}
		ids := send(t, hub, "one")
		if d, _ := hub.Directive(ids[0]); d.Delivery.State != Queued || len(d.Deliveries) != 0 {
			t.Fatalf("%+v", d)
		}
		wantIDs(t, w.drain("?wait=60"), ids...)
	})
}

// req: INB-01
func TestACallerWhoGoesAsADirectiveComesTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		w := memory(t, hub)
		ids := send(t, hub, "one")
		wantIDs(t, w.drain(""), ids...)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { _, err := w.try(ctx, "GET", "/v1/inbox?wait=60", ""); gone <- err }()
		synctest.Wait()
		hub.lock() // the held drain learns of both at once
		cancel()
		hub.reveal(hub.post.directives[ids[0]])
		hub.unlock()
		if err := <-gone; err == nil {
			t.Fatal("the drain was answered")
		}
		synctest.Wait()
		if d, _ := hub.Directive(ids[0]); len(d.Deliveries) != 1 || d.InFlight {
			t.Fatalf("%+v", d)
		}
	})
}

// req: INB-01
func TestAWrongParameterOfADrainIsRefusedAndTakesNothing(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	ids := send(t, hub, "one")
	for _, query := range []string{"?max=0", "?max=-1", "?max=x", "?max=", "?wait=-1", "?wait=1.5", "?wait=x"} {
		w.do("GET", "/v1/inbox"+query, "").wantError(t, 400, types.CodeValidation)
	}
	wantIDs(t, w.drain("?max=1&wait=1&other=1"), ids...)
}

// req: FH-11 SGD-03 INB-19
func TestADrainedDirectiveIsHiddenForItsWindowAndComesAgainSignedAnew(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	ids := send(t, hub, "one", "two")
	before := w.drain("")
	wantIDs(t, before, ids...)
	newer := send(t, hub, "three")

	hub.Advance(60*time.Second - time.Nanosecond)
	if d, _ := hub.Directive(ids[0]); !d.InFlight {
		t.Fatal("not in flight within its window")
	}
	wantIDs(t, w.drain("?max=1"), newer...) // and nothing of the older ones
	wantIDs(t, w.drain(""))
	later := send(t, hub, "four")

	hub.Advance(time.Nanosecond)
	again := w.drain("")
	wantIDs(t, again, append(later, ids...)...)
	for i, e := range again[1:] {
		was := before[i]
		if e.body != was.body || e.jti == was.jti || e.t != "1780574460" || was.t != "1780574400" || e.v1 == was.v1 {
			t.Fatalf("redelivered as %+v, was %+v", e, was)
		}
	}
	if d, _ := hub.Directive(ids[0]); len(d.Deliveries) != 2 || d.Deliveries[1].Signature != again[1].signature || d.Deliveries[1].At != start.Add(time.Minute) {
		t.Fatalf("deliveries %+v", d.Deliveries)
	}
}

// req: FH-11
func TestTheEndOfAWindowWakesAHeldDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t, Options{Capability: func(c *types.Capability) { c.Inbound.VisibilityTimeoutSeconds = 5 }})
		w := memory(t, hub)
		ids := send(t, hub, "one")
		wantIDs(t, w.drain(""), ids...)
		begin := time.Now()
		wantIDs(t, w.drain("?wait=60"), ids...)
		if got := time.Since(begin); got != 5*time.Second {
			t.Fatalf("redelivered after %s", got)
		}
	})
}

// req: FH-11 INB-18
func TestTheCredentialSelectsTheMailboxAndNothingElseDoes(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	ids := send(t, hub, "one")
	wantIDs(t, w.as(hub.Token("other")).drain("?agent_id="+bot+"&agent="+bot))
	for name, token := range map[string]string{"none": "", "wrong": "tok_wrong"} {
		t.Run(name, func(t *testing.T) {
			x := w.as(token)
			x.t = t
			x.do("GET", "/v1/inbox", "").wantError(t, 401, types.CodeUnauthenticated)
			x.do("POST", "/v1/inbox/ack", `{"ids":[]}`).wantError(t, 401, types.CodeUnauthenticated)
		})
	}
	owner := w.as(hub.OwnerToken())
	owner.do("GET", "/v1/inbox", "").wantError(t, 404, types.CodeNotFound)
	owner.do("POST", "/v1/inbox/ack", `{"ids":[]}`).wantError(t, 404, types.CodeNotFound)
	if g := w.do("POST", "/v1/inbox", "{}"); g.status != 405 || g.header.Get("Allow") != "GET" {
		t.Fatalf("POST: %d, Allow %q", g.status, g.header.Get("Allow"))
	}
	hub.RequireDelivery(t, ids[0], Queued)
	wantIDs(t, w.drain(""), ids...)
}

// req: PRE-03
func TestAHeldDrainIsASignOfLifeUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		w := memory(t, hub)
		begin := time.Now()
		w.drain("?wait=60")
		var p types.Presence
		if err := types.Decode(w.as(hub.OwnerToken()).do("GET", "/v1/agents/deploybot%2Fdev-team/presence", "").body, &p); err != nil {
			t.Fatal(err)
		}
		if p.LastSeen != stamp(begin.Add(time.Minute)) {
			t.Fatalf("last seen %s, the hold began at %s", p.LastSeen, stamp(begin))
		}
	})
}
