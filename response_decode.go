package ma2h

import (
	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/strict"
	"github.com/ma2h/ma2h-go/types"
)

// decodeResponse reads a Response out of a document that is canonical, and so
// needs no second parse. It takes and refuses what types.Decode does; a fuzz
// target holds the two together. The raw members are parts of doc.
func decodeResponse(doc canon.Doc) (types.Response, error) {
	var w types.Response
	top := members{get: doc.Get}
	top.text("ma2h_version", &w.Version)
	top.text("in_reply_to", &w.InReplyTo)
	top.text("resolution_id", &w.ResolutionID)
	top.text("resolution", (*string)(&w.Resolution))
	top.flag("defaulted", &w.Defaulted)
	w.State, _ = doc.Get("state")
	if agent := top.object("agent"); agent != nil {
		in := members{get: agent.get}
		in.text("id", &w.Agent.ID)
		in.text("run_id", &w.Agent.RunID)
		top.fail(in.err)
	}
	if value, ok := doc.Get("response"); ok && string(value) != "null" {
		if detail := top.object("response"); detail != nil {
			d, err := decodeDetail(detail)
			w.Response = &d
			top.fail(err)
		}
	}
	if top.err != nil {
		return types.Response{}, top.err
	}
	return w, nil
}

func decodeDetail(object object) (types.ResponseDetail, error) {
	var d types.ResponseDetail
	in := members{get: object.get}
	d.Value, _ = object.get("value")
	in.flag("edited", &d.Edited)
	in.text("actor", &d.Actor)
	in.text("resolved_at", &d.ResolvedAt)
	in.text("comment", &d.Comment)
	if list, ok := object.get("checklist"); ok {
		in.fail(types.Decode(list, &d.Checklist))
	}
	return d, in.err
}

// object is a canonical JSON object.
type object []byte

func (o object) get(name string) ([]byte, bool) { return canon.Member(o, name) }

// members reads typed members by exact name and keeps the first error. An
// absent member is the zero value; null is one only where the caller says so.
type members struct {
	get func(name string) ([]byte, bool)
	err error
}

func (m *members) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *members) text(name string, dst *string) {
	value, ok := m.get(name)
	if !ok {
		return
	}
	if *dst, ok = canon.Text(value); !ok {
		m.fail(&strict.Error{Member: name, Reason: "not a string"})
	}
}

func (m *members) flag(name string, dst *bool) {
	value, ok := m.get(name)
	if !ok {
		return
	}
	*dst = string(value) == "true"
	if !*dst && string(value) != "false" {
		m.fail(&strict.Error{Member: name, Reason: "not a boolean"})
	}
}

func (m *members) object(name string) object {
	value, ok := m.get(name)
	if ok && value[0] != '{' {
		m.fail(&strict.Error{Member: name, Reason: "not an object"})
		return nil
	}
	return value
}
