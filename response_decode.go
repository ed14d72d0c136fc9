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
	var r reader
	canon.Each(doc.Bytes(), func(name, value []byte) {
		switch string(name) {
		case "ma2h_version":
			w.Version = r.text("ma2h_version", value)
		case "in_reply_to":
			w.InReplyTo = r.text("in_reply_to", value)
		case "resolution_id":
			w.ResolutionID = r.text("resolution_id", value)
		case "resolution":
			w.Resolution = types.Resolution(r.text("resolution", value))
		case "defaulted":
			w.Defaulted = r.flag("defaulted", value)
		case "state":
			w.State = value
		case "agent":
			canon.Each(r.object("agent", value), func(name, value []byte) {
				switch string(name) {
				case "id":
					w.Agent.ID = r.text("id", value)
				case "run_id":
					w.Agent.RunID = r.text("run_id", value)
				}
			})
		case "response":
			if string(value) != "null" {
				w.Response = r.detail(r.object("response", value))
			}
		}
	})
	if r.err != nil {
		return types.Response{}, r.err
	}
	return w, nil
}

// reader reads typed values and keeps the first error. Null is a value only
// where its caller says so.
type reader struct{ err error }

func (r *reader) detail(object []byte) *types.ResponseDetail {
	d := &types.ResponseDetail{}
	canon.Each(object, func(name, value []byte) {
		switch string(name) {
		case "value":
			d.Value = value
		case "edited":
			d.Edited = r.flag("edited", value)
		case "actor":
			d.Actor = r.text("actor", value)
		case "resolved_at":
			d.ResolvedAt = r.text("resolved_at", value)
		case "comment":
			d.Comment = r.text("comment", value)
		case "checklist":
			r.fail(types.Decode(value, &d.Checklist))
		}
	})
	return d
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) text(name string, value []byte) string {
	s, ok := canon.Text(value)
	if !ok {
		r.fail(&strict.Error{Member: name, Reason: "not a string"})
	}
	return s
}

func (r *reader) flag(name string, value []byte) bool {
	yes := string(value) == "true"
	if !yes && string(value) != "false" {
		r.fail(&strict.Error{Member: name, Reason: "not a boolean"})
	}
	return yes
}

func (r *reader) object(name string, value []byte) []byte {
	if value[0] != '{' {
		r.fail(&strict.Error{Member: name, Reason: "not an object"})
	}
	return value
}
