package ma2htest

import (
	"encoding/json"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// forged is a fault in what the Hub pushes. It strikes an attempt that has what
// it needs, and lets others pass without counting them. It strikes beside a
// fault of the request side, such as Status.
func forged(name string, times int, f func(*parcel) bool) Fault {
	return Fault{name: name, endpoint: PushCallback, times: times, kind: forging, forge: f}
}

// TamperPayload changes the answer after it was signed: to another of the
// options, or, where there is no answer, the resolution to another.
func TamperPayload(times int) Fault {
	return forged("TamperPayload", times, func(p *parcel) bool {
		p.after = p.tamper
		return true
	})
}

// Replay sends the very bytes of an attempt again, after it was answered.
func Replay(times int) Fault {
	return forged("Replay", times, func(p *parcel) bool { p.repeats++; return true })
}

// DuplicatePush sends two copies at the same time, each with a signature of
// its own.
func DuplicatePush(times int) Fault {
	return forged("DuplicatePush", times, func(p *parcel) bool { p.copies++; return true })
}

// IdenticalResend sends a retry with the bytes of the attempt before it and its
// signature, as a Hub may that does not sign anew.
func IdenticalResend(times int) Fault {
	return forged("IdenticalResend", times, func(p *parcel) bool {
		p.resend = p.o.last != nil
		return p.resend
	})
}

// WrongKey signs with a key that the Hub does not list.
func WrongKey(times int) Fault {
	return forged("WrongKey", times, func(p *parcel) bool { p.signing.choice = unknownKey; return true })
}

// OlderKey signs with the key before the newest. If there is none it is
// WrongKey.
func OlderKey(times int) Fault {
	return forged("OlderKey", times, func(p *parcel) bool { p.signing.choice = olderKey; return true })
}

// SkewedT signs as of the Hub's time plus d.
func SkewedT(times int, d time.Duration) Fault {
	return forged("SkewedT", times, func(p *parcel) bool { p.signing.skew = d; return true })
}

// CorruptSignature flips a bit of the signature.
func CorruptSignature(times int) Fault {
	return forged("CorruptSignature", times, func(p *parcel) bool { p.signing.corrupt = true; return true })
}

// DropSignature pushes without the header.
func DropSignature(times int) Fault {
	return forged("DropSignature", times, func(p *parcel) bool { p.unsigned = true; return true })
}

// SignAsVersion02 pushes a genuine Response of 0.2, whatever the message was
// submitted at: its signature leaves the answer open.
func SignAsVersion02(times int) Fault {
	return forged("SignAsVersion02", times, func(p *parcel) bool {
		if p.o.kind != responseKind {
			return false
		}
		p.body = withMember(p.body, "ma2h_version", types.V02)
		p.context = p.o.context(p.body)
		return true
	})
}

// NullResolvedAtAsClock signs the Hub's time as the resolved_at of a Response
// that carries none, where null is due: no receiver can know it. A Response
// with a response member is not struck.
func NullResolvedAtAsClock(times int) Fault {
	return forged("NullResolvedAtAsClock", times, func(p *parcel) bool {
		members, err := membersOf(p.body)
		if err != nil || p.o.kind != responseKind || !isNull(members["response"]) {
			return false
		}
		p.context = responseContextAt(p.body, p.o.url, quote(stamp(p.now)))
		return true
	})
}

// PushBefore202 holds back the 202 of a submit until the first attempt to push
// its Response has ended; a test has somebody answer in the meantime. A submit
// without a push callback is answered and does not count.
func PushBefore202(times int) Fault {
	return Fault{name: "PushBefore202", endpoint: Submit, times: times, kind: heldAck}
}

func (h *Hub) holdAck(f *Fault, c *call, handle func() reply) reply {
	r := handle()
	var ack types.SubmitAck
	if r.status/100 != 2 || json.Unmarshal(r.body, &ack) != nil {
		h.giveBack(f)
		return r
	}
	h.lock()
	cb := h.messages[ack.ID].msg.Callback()
	h.unlock()
	if cb == nil || cb.Mode != types.CallbackPush {
		h.giveBack(f)
		return r
	}
	err := h.watch(c.ctx, func() bool {
		m := h.messages[ack.ID]
		return m.forgotten || h.ended(ack.ID) > 0
	})
	if err != nil {
		return reply{cut: true}
	}
	return r
}

func (f *Fault) rearm() {
	if f.times >= 0 {
		f.times++
	}
}

// forge lets at most one fault change the parcel. The lock is held.
func (h *Hub) forge(p *parcel) *Fault {
	return alter(&h.faults, PushCallback, func(f *Fault) func(*parcel) bool { return f.forge }, p)
}

// struckBy applies a fault of the request side and returns the name to record.
func (p *parcel) struckBy(f *Fault) string {
	switch f.kind {
	case cutBefore:
		p.unsent = ErrPushNetwork
	case cutAfter, cutSuccess:
		p.loses = f
	case answer:
		p.answer = &f.status
	case hang:
		p.hung = true
	case forging, shaping: // drawn by RandomFaults
		if f.forge == nil || !f.forge(p) {
			return ""
		}
	case delayed:
	default:
		return ""
	}
	return f.name
}

// tamper flips what a receiver would act on.
func (p *parcel) tamper(body []byte) []byte {
	members, err := membersOf(body)
	if err != nil {
		return body
	}
	if detail, err := membersOf(orNull(members["response"])); err == nil && !isNull(detail["value"]) {
		return withMember(body, "response", json.RawMessage(withMember(members["response"], "value", p.otherValue(detail["value"]))))
	}
	switch p.o.kind {
	case ackKind:
		return withMember(body, "note", "tampered")
	case directiveKind:
		return withMember(body, "title", "tampered")
	}
	other := types.Completed
	if p.o.message.status == types.StatusCompleted {
		other = types.Dismissed
	}
	if p.o.message.msg.Type == types.VerbAsk {
		other = types.Declined
		if p.o.message.status == types.StatusDeclined {
			other = types.Cancelled
		}
	}
	return withMember(body, "resolution", other)
}

// otherValue is an answer that the resolver did not give, an allowed one if
// there is one.
func (p *parcel) otherValue(value json.RawMessage) any {
	var given string
	if json.Unmarshal(value, &given) != nil {
		return map[string]any{"tampered": true}
	}
	if r := p.o.message.msg.Request; r != nil {
		for _, choice := range r.Choices() {
			if choice != given {
				return choice
			}
		}
	}
	return given + " tampered"
}

// withMember returns the object with one member set.
func withMember(object []byte, name string, value any) []byte {
	members, err := membersOf(object)
	if err != nil {
		return object
	}
	v, err := json.Marshal(value)
	if err != nil {
		return object
	}
	members[name] = v
	out, err := json.Marshal(members)
	if err != nil {
		return object
	}
	return out
}
