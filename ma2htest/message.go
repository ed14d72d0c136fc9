package ma2htest

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// message is what the Hub keeps of a submit.
type message struct {
	id        string
	agent     string
	msg       types.Message
	raw       []byte   // the request body
	members   []member // its members, as received, without those of the Hub
	check     func(value []byte) error
	accepted  time.Time
	status    types.Status
	changed   time.Time // when status became what it is
	expiry    *due
	resolved  *Resolved
	delivery  *types.Delivery
	ready     chan struct{} // closed when an open message ends or is forgotten
	holds     int
	forgotten bool
}

type member struct {
	name  string
	value json.RawMessage
}

// ofTheHub are members of the pulled body that an agent cannot set (§4, §8.2).
var ofTheHub = map[string]bool{"id": true, "status": true, "response": true, "delivery": true, "mailbox": true, "from": true}

// split lists the members of an object in order, values untouched.
func split(object []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var out []member
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var m member
		m.name, _ = name.(string)
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		if !ofTheHub[m.name] {
			out = append(out, m)
		}
	}
	return out, nil
}

// object writes members in order.
type object struct{ buf bytes.Buffer }

func (o *object) raw(name string, value []byte) {
	if o.buf.Len() == 0 {
		o.buf.WriteByte('{')
	} else {
		o.buf.WriteByte(',')
	}
	o.buf.Write(quote(name))
	o.buf.WriteByte(':')
	o.buf.Write(value)
}

func (o *object) str(name, value string) { o.raw(name, quote(value)) }

func (o *object) bytes() []byte {
	if o.buf.Len() == 0 {
		return []byte("{}")
	}
	return append(o.buf.Bytes(), '}')
}

func quote(s string) []byte {
	b, _ := json.Marshal(s) // a string never fails
	return b
}

// view is the body of a pull: the message as submitted, id, status, and once
// it ended the Response and the receipt track (§8.2).
func (m *message) view() []byte {
	var o object
	for _, mm := range m.members {
		o.raw(mm.name, mm.value)
	}
	o.str("id", m.id)
	o.str("status", string(m.status))
	if m.resolved != nil {
		o.raw("response", m.resolved.Body)
	}
	if m.delivery != nil {
		if b, err := types.Encode(m.delivery); err == nil {
			o.raw("delivery", b)
		}
	}
	return o.bytes()
}

func (m *message) outcome() *Outcome {
	o := &Outcome{ID: m.id, Status: m.status}
	if m.resolved != nil {
		o.Resolution, o.ResolutionID = m.resolved.Resolution, m.resolved.ResolutionID
	}
	return o
}

// retained reports whether the message can still be pulled: an open one
// always, an ended one for the retention time (§8.2).
func (h *Hub) retained(m *message, now time.Time) bool {
	if m.forgotten {
		return false
	}
	days := h.caps.RetentionDays
	return m.status == types.StatusOpen || days <= 0 || !now.After(m.changed.AddDate(0, 0, int(days)))
}
