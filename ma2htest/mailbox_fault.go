package ma2htest

import (
	"slices"
	"strings"
	"time"
)

// shape is a fault in what a drain returns. It strikes a batch that has what it
// needs, and lets others pass without counting them. After counts batches with
// entries. It strikes beside a fault of the request, such as LoseAck.
func shape(name string, times int, f func(*batch) bool) Fault {
	return Fault{name: name, endpoint: Drain, times: times, kind: shaping, shape: f}
}

// strike lets at most one fault shape the batch, which has entries. The lock is
// held.
func (h *Hub) strike(c *call, b *batch) {
	if f := c.shape; f != nil { // drawn by RandomFaults
		f.shape(b)
		return
	}
	if f := alter(&h.faults, Drain, func(f *Fault) func(*batch) bool { return f.shape }, b); f != nil {
		c.row.Fault = f.name
	}
}

// sign signs a body for the batch.
func (b *batch) sign(body []byte, s signing) string {
	// No error: SendDirective takes nothing that cannot be signed.
	value, _ := b.hub.sign(b.now, directiveContext(body), s)
	return signatureHeader + ": " + value
}

// DuplicateEntry delivers the first entry twice in one batch, each with a
// signature of its own.
func DuplicateEntry(times int) Fault {
	return shape("DuplicateEntry", times, func(b *batch) bool {
		first := *b.rows[0]
		first.signature = b.sign(first.body, signing{})
		b.rows = append(b.rows, &first)
		return true
	})
}

// ReorderEntries turns a batch of two or more around.
func ReorderEntries(times int) Fault {
	return shape("ReorderEntries", times, func(b *batch) bool {
		slices.Reverse(b.rows)
		return len(b.rows) > 1
	})
}

// CorruptDirectiveSignature flips a bit in the signature of the first entry.
func CorruptDirectiveSignature(times int) Fault {
	return shape("CorruptDirectiveSignature", times, func(b *batch) bool {
		b.rows[0].signature = b.sign(b.rows[0].body, signing{corrupt: true})
		return true
	})
}

// WrongAddressee makes the first entry one to another agent, with a signature
// that holds (§13.4). On PushCallback it strikes a push to a webhook.
func WrongAddressee(times int) Fault {
	f := shape("WrongAddressee", times, func(b *batch) bool {
		first := b.rows[0]
		first.body = first.d.misaddressed()
		first.signature = b.sign(first.body, signing{})
		return true
	})
	f.forge = func(p *parcel) bool {
		if p.o.directive == nil {
			return false
		}
		p.body = p.o.directive.misaddressed()
		p.context = p.o.context(p.body)
		return true
	}
	return f
}

func (d *directive) misaddressed() []byte {
	return withMember(d.body, "to", "agent:not-"+d.agent)
}

// InjectMember adds a member to the first entry after it was signed. No
// signature covers it unless it is content: a later minor may have such a
// member, and request, action and state never belong there (§13.4). value is
// its JSON text. On PushCallback it strikes a push to a webhook.
func InjectMember(times int, name, value string) Fault {
	inject := func(body []byte) []byte {
		return []byte(strings.TrimSuffix(string(body), "}") + "," + string(quote(name)) + ":" + value + "}")
	}
	f := shape("InjectMember", times, func(b *batch) bool {
		b.rows[0].body = inject(b.rows[0].body)
		return true
	})
	f.forge = func(p *parcel) bool {
		if p.o.directive == nil {
			return false
		}
		p.after = inject
		return true
	}
	return f
}

// LoseInboxAck consumes what is acknowledged and cuts the connection instead
// of the 200.
func LoseInboxAck(times int) Fault {
	return Fault{name: "LoseInboxAck", endpoint: InboxAck, times: times, kind: cutSuccess}
}

// ExpireLease ends the visibility window of all entries of a batch at once: the
// next drain has them again.
func ExpireLease(times int) Fault {
	return shape("ExpireLease", times, func(b *batch) bool {
		for _, r := range b.rows {
			b.hub.reveal(r.d)
		}
		return true
	})
}

// UnknownEntryKind puts a row of a kind that no version has before the entries.
func UnknownEntryKind(times int) Fault {
	return shape("UnknownEntryKind", times, func(b *batch) bool {
		body := b.rows[0].body
		var o object
		o.raw("poke", body)
		o.str("signature", b.sign(body, signing{}))
		b.rows = slices.Insert(b.rows, 0, &row{raw: o.bytes()})
		return true
	})
}

// MalformedRow puts a row before the entries that has not the form of one.
func MalformedRow(times int) Fault {
	return shape("MalformedRow", times, func(b *batch) bool {
		b.rows = slices.Insert(b.rows, 0, &row{raw: []byte(`{"directive":"none","signature":7}`)})
		return true
	})
}

// SkewedDirectiveT signs all entries of a batch as of the Hub's time plus d.
func SkewedDirectiveT(times int, d time.Duration) Fault {
	return shape("SkewedDirectiveT", times, func(b *batch) bool {
		for _, r := range b.rows {
			r.signature = b.sign(r.body, signing{skew: d})
		}
		return true
	})
}

// ReplayedDirective delivers the first entry that the agent had before with
// the signature of that time, where it owes a fresh one (§9.7).
func ReplayedDirective(times int) Fault {
	return shape("ReplayedDirective", times, func(b *batch) bool {
		for _, r := range b.rows {
			if n := len(r.d.deliveries); n > 0 {
				r.signature = r.d.deliveries[n-1].Signature
				return true
			}
		}
		return false
	})
}
