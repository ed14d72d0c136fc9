package ma2htest

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// req: ACK-06 INB-12 FH-11
func TestAnAcknowledgedDirectiveIsConsumedAndItsReceiptStands(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	ids := send(t, hub, "one", "two", "three")
	hub.RequireDelivery(t, ids[0], Queued)
	w.drain("?max=2")
	hub.RequireDelivery(t, ids[0], Delivered)
	hub.RequireDelivery(t, ids[2], Queued)

	hub.Advance(time.Second)
	if n := w.ackInbox("on it", ids[0], ids[0]); n != 1 {
		t.Fatalf("acked %d", n)
	}
	hub.RequireDelivery(t, ids[0], types.Acknowledged)
	hub.RequireDelivery(t, ids[1], Delivered)
	hub.Advance(time.Second)
	if n := w.ackInbox("again", ids[0]); n != 0 {
		t.Fatalf("acked %d the second time", n)
	}
	d, _ := hub.Directive(ids[0])
	want := types.Ack{Version: "0.4", Type: "ack", InReplyTo: ids[0], By: "agent:" + bot, AckedAt: in(time.Second), Note: "on it"}
	if *d.Delivery.Ack != want || d.Delivery.DeliveredAt != in(0) || d.Delivery.AcknowledgedAt != in(time.Second) || d.InFlight {
		t.Fatalf("%+v, receipt %+v", d, *d.Delivery.Ack)
	}
	if err := d.Delivery.Ack.Validate(); err != nil {
		t.Fatal(err)
	}

	hub.Advance(time.Hour)
	wantIDs(t, w.drain(""), ids[2], ids[1])
	if n := w.ackInbox("", ids[1], ids[2]); n != 2 {
		t.Fatalf("acked %d", n)
	}
	hub.Advance(time.Hour)
	wantIDs(t, w.drain(""))
}

// req: ACK-06
func TestAnAcknowledgmentAfterTheWindowStillConsumes(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	ids := send(t, hub, "one", "two")
	w.drain("?max=1")
	hub.Advance(time.Hour)
	if n := w.ackInbox("", ids[0]); n != 1 {
		t.Fatalf("acked %d", n)
	}
	wantIDs(t, w.drain(""), ids[1])
}

// req: FH-12 INB-18 FH-11
func TestAnAcknowledgmentOfWhatWasNotPresentedToTheCallerChangesNothingAndTellsNothing(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w, other := memory(t, hub), memory(t, hub).as(hub.Token("other"))
	ids := send(t, hub, "drained", "waiting")
	foreign, err := hub.SendDirective("other", DirectiveDraft{Title: "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, other.drain(""), foreign)
	wantIDs(t, w.drain("?max=1"), ids[0])

	ack := func(w *wire, id string) got {
		return w.do("POST", "/v1/inbox/ack", fields{"ids": []string{id}, "note": "mine"}.json())
	}
	unknown := ack(w, "dir_unknown")
	for name, g := range map[string]got{
		"foreign":       ack(w, foreign),
		"not presented": ack(w, ids[1]),
		"other's":       ack(other, ids[0]),
	} {
		if g.status != 200 || string(g.body) != string(unknown.body) || len(g.header) != len(unknown.header) {
			t.Errorf("%s: %d %s %v, unknown: %d %s %v", name, g.status, g.body, g.header, unknown.status, unknown.body, unknown.header)
		}
	}
	hub.RequireDelivery(t, foreign, Delivered)
	hub.RequireDelivery(t, ids[0], Delivered)
	hub.RequireDelivery(t, ids[1], Queued)
	if n := w.ackInbox("", ids[0], foreign, "dir_unknown", ids[1]); n != 1 {
		t.Fatalf("acked %d", n)
	}
	hub.RequireDelivery(t, foreign, Delivered)
	hub.RequireDelivery(t, ids[1], Queued)
}

func TestAnAcknowledgmentOutOfFormIsRefusedAndConsumesNothing(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	id := send(t, hub, "one")[0]
	w.drain("")
	for _, body := range []string{`{}`, `{"ids":null}`, `{"ids":"` + id + `"}`, `{"ids":[1]}`, `["` + id + `"]`, `{"ids":["` + id + `"],"ids":[]}`, `{"Ids":["` + id + `"]}`, `{"ids":["` + id + `"],"note":7}`} {
		w.do("POST", "/v1/inbox/ack", body).wantError(t, 400, types.CodeValidation)
	}
	req := w.request(t.Context(), "POST", "/v1/inbox/ack", `{"ids":["`+id+`"]}`)
	req.Header.Set("Content-Type", "text/plain")
	resp, err := w.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Fatalf("text/plain: %d", resp.StatusCode)
	}
	hub.RequireDelivery(t, id, Delivered)
	if n := w.ackInbox(""); n != 0 {
		t.Fatalf("acked %d of none", n)
	}
	if n := w.ackInbox("", id); n != 1 {
		t.Fatalf("acked %d", n)
	}
}

// req: INB-23 FH-11
func TestAnUnacknowledgedDirectiveIsDroppedOnceItsTimeHasPassed(t *testing.T) {
	const days = 2
	retention := days * 24 * time.Hour
	for name, row := range map[string]struct {
		expires time.Duration // after start; 0 for none
		at      time.Duration
		there   bool
	}{
		"at expires_at":     {time.Hour, time.Hour, true},
		"after expires_at":  {time.Hour, time.Hour + time.Nanosecond, false},
		"at retention":      {0, retention, true},
		"after retention":   {0, retention + time.Nanosecond, false},
		"expires_at counts": {retention + time.Hour, retention + time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start, Capability: func(c *types.Capability) { c.Inbound.RetentionDays = days }})
			w := memory(t, hub)
			var draft DirectiveDraft
			draft.Title = "x"
			if row.expires != 0 {
				draft.ExpiresAt = start.Add(row.expires)
			}
			untouched, err := hub.SendDirective(bot, draft)
			if err != nil {
				t.Fatal(err)
			}
			other := w.as(hub.Token("other"))
			presented, err := hub.SendDirective("other", draft)
			if err != nil {
				t.Fatal(err)
			}
			other.drain("")
			hub.Advance(row.at)
			d, _ := hub.Directive(presented)
			if row.there {
				wantIDs(t, w.drain(""), untouched)
				if n := other.ackInbox("", presented); n != 1 || !d.DroppedAt.IsZero() {
					t.Fatalf("acked %d, dropped at %s", n, d.DroppedAt)
				}
				return
			}
			wantIDs(t, w.drain(""))
			if n := other.ackInbox("", presented); n != 0 || d.DroppedAt != start.Add(row.at) || d.InFlight {
				t.Fatalf("acked %d, %+v", n, d)
			}
			hub.RequireDelivery(t, presented, Delivered)
		})
	}
}

func TestAnAcknowledgedDirectiveDoesNotExpire(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	id, err := hub.SendDirective(bot, DirectiveDraft{Title: "x", ExpiresAt: start.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	w.drain("")
	w.ackInbox("", id)
	hub.Advance(2 * time.Hour)
	if d, _ := hub.Directive(id); !d.DroppedAt.IsZero() || d.Delivery.State != types.Acknowledged {
		t.Fatalf("%+v", d)
	}
	if n := len(hub.clock.due) + len(hub.mailbox(bot).ready); n != 0 {
		t.Fatalf("%d things still wait for a directive that is done with", n)
	}
}

// req: PRE-03 PRE-02
func TestADrainIsASignOfLifeAndAnAcknowledgmentIsNot(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w, owner := memory(t, hub), memory(t, hub).as(hub.OwnerToken())
	presence := func(w *wire) types.Presence {
		t.Helper()
		var p types.Presence
		if err := types.Decode(w.do("GET", "/v1/agents/deploybot%2Fdev-team/presence", "").body, &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	w.ackInbox("", "dir_unknown")
	if p := presence(owner); p.State != types.Unknown || p.LastSeen != "" {
		t.Fatalf("after an ack: %+v", p)
	}
	w.drain("")
	if p := presence(owner); p.State != types.Online || p.LastSeen != in(0) {
		t.Fatalf("after a drain: %+v", p)
	}
	if p := presence(w); p.State != types.Unknown || p.LastSeen != "" {
		t.Fatalf("told to an agent: %+v", p)
	}
	hub.Advance(90 * time.Second)
	if p := presence(owner); p.State != types.Online {
		t.Fatalf("at the window: %+v", p)
	}
	hub.Advance(time.Second)
	if p := presence(owner); p.State != types.Offline || p.LastSeen != in(0) {
		t.Fatalf("past the window: %+v", p)
	}
}

// req: RL-03
func TestDrainsAndAcknowledgmentsShareTheRateOfTheAgent(t *testing.T) {
	hub := NewHub(t, Options{Start: start, Capability: func(c *types.Capability) { c.RateLimit = &types.RateLimit{RequestsPerMinute: 3} }})
	w := memory(t, hub)
	ids := send(t, hub, "one", "two")
	w.submit(ask("k1"))
	w.drain("?max=1")
	if n := w.ackInbox("", ids[0]); n != 1 {
		t.Fatalf("acked %d", n)
	}
	hub.Advance(time.Second)
	for _, g := range []got{w.do("GET", "/v1/inbox", ""), w.do("POST", "/v1/inbox/ack", `{"ids":["`+ids[1]+`"]}`), w.do("POST", "/v1/messages", ask("k2"))} {
		g.wantError(t, 429, types.CodeRateLimited)
		if g.header.Get("Retry-After") != "59" {
			t.Fatalf("Retry-After %q", g.header.Get("Retry-After"))
		}
	}
	hub.RequireDelivery(t, ids[1], Queued)
	w.as(hub.Token("other")).drain("")
	hub.Advance(59 * time.Second)
	wantIDs(t, w.drain(""), ids[1])
}

// req: FH-11 INB-19
func TestManyDrainsAndAcknowledgmentsAtOnceLoseNothingAndDoubleNothing(t *testing.T) {
	const workers, directives = 300, 1500
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t, Options{KeepRequests: -1})
		w := memory(t, hub)
		go func() {
			for i := range directives {
				if _, err := hub.SendDirective(bot, DirectiveDraft{Title: fmt.Sprint("no. ", i)}); err != nil {
					t.Error(err)
				}
			}
		}()
		var mu sync.Mutex
		seen := make(map[string]int)
		acked := int64(0)
		var running sync.WaitGroup
		for i := range workers {
			running.Go(func() {
				for done := false; !done; {
					entries := w.drain(fmt.Sprintf("?wait=60&max=%d", 1+i%7))
					mu.Lock()
					var keep []string // every third is forgotten when it comes first
					for _, e := range entries {
						if seen[e.id]++; seen[e.id] > 1 || len(seen)%3 != 0 {
							keep = append(keep, e.id)
						}
					}
					mu.Unlock()
					n := w.ackInbox("", keep...)
					if i%3 == 0 {
						n += w.ackInbox("", keep...)
					}
					mu.Lock()
					acked += n
					done = acked == directives
					mu.Unlock()
				}
			})
		}
		running.Wait()
		total, twice := 0, 0
		for _, d := range hub.Directives(bot) {
			if d.Delivery.State != types.Acknowledged || len(d.Deliveries) != seen[d.ID] || d.InFlight {
				t.Fatalf("%+v was seen %d times", d, seen[d.ID])
			}
			if len(d.Deliveries) == 2 {
				twice++
				if gap := d.Deliveries[1].At.Sub(d.Deliveries[0].At); gap < time.Minute {
					t.Fatalf("came again after %s", gap)
				}
			}
			total += len(d.Deliveries)
		}
		if len(seen) != directives || acked != directives || total != directives+twice || twice == 0 {
			t.Fatalf("%d were seen, %d acked, %d delivered, %d of them twice", len(seen), acked, total, twice)
		}
	})
}
