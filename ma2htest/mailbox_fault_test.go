package ma2htest

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

func (w *wire) rows(query string) []json.RawMessage {
	w.t.Helper()
	var batch struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(w.do("GET", "/v1/inbox"+query, "").body, &batch); err != nil {
		w.t.Fatal(err)
	}
	return batch.Messages
}

// genuine reports whether the signature of an entry is what the Hub signs for
// its body.
func genuine(t testing.TB, h *Hub, e drained) bool {
	t.Helper()
	text, err := directiveContext([]byte(e.body))(nonce{t: e.t, jti: e.jti})
	if err != nil {
		t.Fatal(err)
	}
	return renderSignature(nonce{t: e.t, jti: e.jti}, h.Keys()[0].sign(text)) == strings.TrimPrefix(e.signature, "MA2H-Signature: ")
}

// req: FH-15 FH-11
func TestAFaultOfTheMailboxStrikesAsOftenAsItSaysAndThenTheHubIsWell(t *testing.T) {
	for name, row := range map[string]struct {
		fault Fault
		check func(t *testing.T, h *Hub, sent []string, got []drained)
	}{
		"DuplicateEntry": {DuplicateEntry(1), func(t *testing.T, h *Hub, sent []string, got []drained) {
			wantIDs(t, got, sent[0], sent[1], sent[0])
			if got[0].jti == got[2].jti || got[0].body != got[2].body || !genuine(t, h, got[0]) || !genuine(t, h, got[2]) {
				t.Fatalf("%+v", got)
			}
		}},
		"ReorderEntries": {ReorderEntries(1), func(t *testing.T, h *Hub, sent []string, got []drained) {
			wantIDs(t, got, sent[1], sent[0])
		}},
		"CorruptDirectiveSignature": {CorruptDirectiveSignature(1), func(t *testing.T, h *Hub, sent []string, got []drained) {
			wantIDs(t, got, sent...)
			if genuine(t, h, got[0]) || !genuine(t, h, got[1]) {
				t.Fatal("not the first signature alone is bad")
			}
		}},
		"WrongAddressee": {WrongAddressee(1), func(t *testing.T, h *Hub, sent []string, got []drained) {
			wantIDs(t, got, sent...)
			if got[0].to == "agent:"+bot || !genuine(t, h, got[0]) || got[1].to != "agent:"+bot || !genuine(t, h, got[1]) {
				t.Fatalf("to %s and %s", got[0].to, got[1].to)
			}
		}},
		"InjectMember": {InjectMember(1, "x_prompt", `{"say":1}`), func(t *testing.T, h *Hub, sent []string, got []drained) {
			if !strings.HasSuffix(got[0].body, `,"x_prompt":{"say":1}}`) || !genuine(t, h, got[0]) || strings.Contains(got[1].body, "x_prompt") {
				t.Fatalf("%s", got[0].body)
			}
		}},
		"InjectMember of content": {InjectMember(1, "body", `"more"`), func(t *testing.T, h *Hub, sent []string, got []drained) {
			if genuine(t, h, got[0]) {
				t.Fatal("the signature covers a body that the human did not write")
			}
		}},
		"SkewedDirectiveT": {SkewedDirectiveT(1, -time.Hour), func(t *testing.T, h *Hub, sent []string, got []drained) {
			want := strconv.FormatInt(h.Now().Add(-time.Hour).Unix(), 10)
			for _, e := range got {
				if e.t != want || !genuine(t, h, e) {
					t.Fatalf("t %s, want %s", e.t, want)
				}
			}
		}},
		"ExpireLease": {ExpireLease(1), func(t *testing.T, h *Hub, sent []string, got []drained) {
			wantIDs(t, got, sent...)
			again := memory(t, h).drain("")
			wantIDs(t, again, sent...)
			if again[0].jti == got[0].jti {
				t.Fatal("redelivered with the same jti")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start})
			w := memory(t, hub)
			hub.Fault(row.fault)
			w.drain("") // an empty drain has nothing to strike
			sent := send(t, hub, "one", "two")
			row.check(t, hub, sent, w.drain(""))
			if last := hub.Requests(); last[1].Fault != row.fault.name || last[0].Fault != "" {
				t.Fatalf("recorded as %q and %q", last[0].Fault, last[1].Fault)
			}
			hub.Advance(time.Minute)
			after := w.drain("")
			if len(after) != len(sent) {
				t.Fatalf("afterwards %v, want each once", idsOf(after))
			}
			for _, e := range after {
				if !genuine(t, hub, e) || e.to != "agent:"+bot || strings.Contains(e.body, "x_prompt") {
					t.Fatalf("still ill: %+v", e)
				}
			}
		})
	}
}

// req: FH-15 INB-03
func TestARowThatIsNoDirectiveComesBesideTheOthersAndIsNotKept(t *testing.T) {
	for name, fault := range map[string]Fault{"UnknownEntryKind": UnknownEntryKind(1), "MalformedRow": MalformedRow(1)} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start})
			w := memory(t, hub)
			ids := send(t, hub, "one")
			hub.Fault(fault)
			rows := w.rows("")
			if len(rows) != 2 {
				t.Fatalf("%d rows", len(rows))
			}
			var e types.InboxEntry
			err := types.Decode(rows[0], &e)
			if name == "MalformedRow" && err == nil || name == "UnknownEntryKind" && (err != nil || e.Kind != "poke" || e.Directive != nil) {
				t.Fatalf("%v, %+v in %s", err, e, rows[0])
			}
			if err := types.Decode(rows[1], &e); err != nil || e.Kind != "directive" {
				t.Fatalf("%v in %s", err, rows[1])
			}
			hub.Advance(time.Minute)
			wantIDs(t, w.drain(""), ids...)
		})
	}
}

// req: SGD-03 FH-15
func TestAReplayHasTheSignatureOfAnEarlierDeliveryAndWaitsForOne(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	hub.Fault(ReplayedDirective(1))
	send(t, hub, "one")
	first := w.drain("")
	hub.Advance(time.Minute)
	second := w.drain("")
	if second[0].signature != first[0].signature || second[0].body != first[0].body {
		t.Fatalf("%+v is not %+v", second[0], first[0])
	}
	hub.Advance(time.Minute)
	if third := w.drain(""); third[0].jti == first[0].jti {
		t.Fatal("replayed once more")
	}
}

func TestALoneEntryIsNotReorderedAndTheFaultWaits(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	hub.Fault(ReorderEntries(1))
	send(t, hub, "one")
	w.drain("")
	ids := send(t, hub, "two", "three")
	wantIDs(t, w.drain(""), ids[1], ids[0])
}

// req: FH-15
func TestAFaultThatIsArmedDuringAHoldStrikesWhatTheHoldBrings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		w := memory(t, hub)
		got := make(chan []drained)
		go func() { got <- w.drain("?wait=60") }()
		synctest.Wait()
		hub.Fault(CorruptDirectiveSignature(1).After(1), DuplicateEntry(1))
		ids := send(t, hub, "one")
		wantIDs(t, <-got, ids[0], ids[0])
		send(t, hub, "two")
		if e := w.drain("")[0]; genuine(t, hub, e) {
			t.Fatal("After let two batches pass")
		}
	})
}

// req: ACK-06 FH-15
func TestALostAcknowledgmentHasConsumed(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	ids := send(t, hub, "one")
	w.drain("")
	hub.Fault(LoseInboxAck(1))
	if _, err := w.try(t.Context(), "POST", "/v1/inbox/ack", fields{"ids": ids, "note": "on it"}.json()); err == nil {
		t.Fatal("the acknowledgment was answered")
	}
	hub.RequireDelivery(t, ids[0], types.Acknowledged)
	if d, _ := hub.Directive(ids[0]); d.Delivery.Ack.Note != "on it" {
		t.Fatalf("receipt %+v", d.Delivery.Ack)
	}
	if n := w.ackInbox("", ids...); n != 0 {
		t.Fatalf("acked %d the second time", n)
	}
}

// req: FH-15 INB-01
func TestFaultsOfAPullStrikeADrainToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		w := memory(t, hub)
		begin := time.Now()
		hub.Fault(EarlyReturn(1).On(Drain))
		wantIDs(t, w.drain("?wait=60"))
		if time.Since(begin) != 0 {
			t.Fatalf("held for %s", time.Since(begin))
		}
		ids := send(t, hub, "one")
		hub.Fault(NoContent(1).On(Drain), Status(503, 1).On(Drain), ResetBefore(1).On(Drain), ResetAfter(1).On(Drain))
		if g := w.do("GET", "/v1/inbox", ""); g.status != 204 {
			t.Fatalf("status %d", g.status)
		}
		w.do("GET", "/v1/inbox", "").wantError(t, 503, "unavailable")
		for range 2 {
			if _, err := w.try(t.Context(), "GET", "/v1/inbox", ""); err == nil {
				t.Fatal("the drain was answered")
			}
		}
		hub.RequireDelivery(t, ids[0], Delivered) // by the one that was cut after
		wantIDs(t, w.drain(""))
		time.Sleep(time.Minute)
		wantIDs(t, w.drain(""), ids...)
	})
}

// req: FH-15
func TestRandomFaultsMayShapeDrains(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	w := memory(t, hub)
	hub.Fault(RandomFaults(7, 0, Chance{1, CorruptDirectiveSignature(0)}).On(Drain))
	send(t, hub, "one")
	if e := w.drain("")[0]; genuine(t, hub, e) {
		t.Fatal("not struck")
	}
	hub.Heal()
	hub.Advance(time.Minute)
	if e := w.drain("")[0]; !genuine(t, hub, e) {
		t.Fatal("struck after Heal")
	}
}
