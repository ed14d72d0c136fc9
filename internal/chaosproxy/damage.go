package chaosproxy

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
)

type object map[string]json.RawMessage

func read(text []byte) object {
	var o object
	if json.Unmarshal(text, &o) != nil {
		return nil
	}
	return o
}

func (o object) write() []byte {
	b, _ := json.Marshal(o) // of parts that were JSON
	return b
}

func (o object) text(name string) string {
	var s string
	_ = json.Unmarshal(o[name], &s)
	return s
}

// JTI is the nonce of a signature header, or of an inbox entry's.
func JTI(signature string) string {
	_, rest, _ := strings.Cut(signature, "jti=")
	jti, _, _ := strings.Cut(rest, ",")
	return jti
}

// signedMembers are those that a signature covers, by kind of the delivery.
func signedMembers(o object) []string {
	switch o.text("type") {
	case "directive":
		return []string{"ma2h_version", "id", "from", "to", "title", "body", "context", "priority"}
	case "ack":
		return []string{"ma2h_version", "in_reply_to", "by", "acked_at", "note"}
	}
	return []string{"ma2h_version", "in_reply_to", "resolution_id", "resolution", "response", "state"}
}

// damage makes of a signed delivery one that must not verify. It reports
// whether it found something to change.
func damage(f Fault, r *rand.Rand, body []byte) ([]byte, bool) {
	o := read(body)
	if o == nil {
		return body, false
	}
	detail := read(o["response"])
	inside := detail != nil && r.IntN(2) == 0
	switch f {
	case OldForm:
		o["ma2h_version"] = json.RawMessage(`"0.2"`)
	case FieldRemoved:
		in, names := o, signedMembers(o)
		if inside {
			in, names = detail, []string{"value", "actor", "resolved_at", "comment", "edited"}
		}
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		gone := false
		for _, name := range names {
			if v, ok := in[name]; ok && string(v) != "null" && !gone {
				delete(in, name)
				gone = true
			}
		}
		if !gone {
			return body, false
		}
		if inside {
			o["response"] = detail.write()
		}
	case Tampered:
		in, name := o, map[string]string{"directive": "title", "ack": "by"}[o.text("type")]
		if name == "" {
			name = "resolution_id"
		}
		if inside {
			in, name = detail, "actor"
			if detail.text("value") != "" {
				name = "value"
			}
		}
		in[name], _ = json.Marshal(in.text(name) + "!")
		if inside {
			o["response"] = detail.write()
		}
	default:
		return body, false
	}
	return o.write(), true
}

// downgrade makes a capability document say less than the Hub does.
func downgrade(f Fault, r *rand.Rand, body []byte) ([]byte, bool) {
	o := read(body)
	if o == nil {
		return body, false
	}
	switch f {
	case OldVersion:
		older := []string{`"0.2"`, `"0.3"`}[r.IntN(2)]
		o["ma2h_version"] = json.RawMessage(older)
		for _, leg := range []string{"inbound", "ack", "presence"} {
			delete(o, leg)
		}
	case FewerLegs:
		leg := []string{"inbound", "ack", "presence", "callback_auth_schemes", "signature_algs"}[r.IntN(5)]
		delete(o, leg)
	}
	return o.write(), true
}

// mutilate takes a member from a message that is pulled, without which it
// contradicts itself.
func mutilate(r *rand.Rand, body []byte) ([]byte, bool) {
	o := read(body)
	name := []string{"id", "status", "type", "title", "agent", "response"}[r.IntN(6)]
	if o[name] == nil {
		return body, false
	}
	delete(o, name)
	return o.write(), true
}

// pass records how a copy of a signed delivery goes on.
func (t *trip) pass(signature string, damaged, respelled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	jti := JTI(signature)
	f := t.fates[jti]
	if f == nil {
		f = &Fate{}
		t.fates[jti] = f
	}
	switch {
	case damaged:
		f.Damaged++
	case respelled:
		f.Respelled++
	default:
		f.Plain++
	}
}

// changePush damages a push, or respells it.
func (t *trip) changePush() {
	signature := t.header.Get(signatureHeader)
	damaged, respelled := t.fault == ShortRequest, false
	switch t.fault {
	case Unsigned:
		t.header.Del(signatureHeader)
		damaged = true
	case OldForm, FieldRemoved, Tampered:
		t.body, damaged = damage(t.fault, t.rand, t.body)
	}
	switch {
	case damaged:
		t.header.Set(Mark, "damaged")
		if t.fault != ShortRequest {
			t.count(t.fault)
		}
	case t.respell:
		var did []Fault
		t.body, did = Respell(t.rand, t.body)
		t.count(did...)
		respelled = len(did) > 0
	}
	t.pass(signature, damaged, respelled)
}

// changeDrain damages the entries of a batch, or respells it.
func (t *trip) changeDrain(body []byte) []byte {
	batch := read(body)
	var rows []json.RawMessage
	if batch == nil || json.Unmarshal(batch["messages"], &rows) != nil {
		return body
	}
	out := make([][]byte, len(rows))
	for i := range rows {
		row := read(rows[i])
		signature, damaged, did := row.text("signature"), false, []Fault(nil)
		switch t.fault {
		case Unsigned:
			delete(row, "signature")
			damaged = true
		case OldForm, FieldRemoved, Tampered:
			row["directive"], damaged = damage(t.fault, t.rand, row["directive"])
		}
		if out[i] = rows[i]; damaged {
			t.count(t.fault)
			out[i] = row.write()
		}
		if t.respell {
			out[i], did = Respell(t.rand, out[i])
			t.count(did...)
		}
		t.pass(signature, damaged, len(did) > 0)
	}
	return slices.Concat([]byte(`{"messages":[`), bytes.Join(out, []byte(",")), []byte("]}"))
}
