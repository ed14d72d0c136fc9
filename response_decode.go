package ma2h

import (
	"strings"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/strict"
	"github.com/ma2h/ma2h-go/types"
)

// decodeResponse reads a Response out of a document that is canonical, and so
// needs no second parse. It takes and refuses what types.Decode does; a fuzz
// target holds the two together. The raw members are parts of doc, the texts
// are parts of one string.
func decodeResponse(doc canon.Doc) (*types.Response, error) {
	w := new(types.Response)
	var r reader
	doc.Each(func(name, value []byte) {
		switch string(name) {
		case "ma2h_version":
			r.text("ma2h_version", value, &w.Version)
		case "in_reply_to":
			r.text("in_reply_to", value, &w.InReplyTo)
		case "resolution_id":
			r.text("resolution_id", value, &w.ResolutionID)
		case "resolution":
			r.text("resolution", value, (*string)(&w.Resolution))
		case "defaulted":
			w.Defaulted = r.flag("defaulted", value)
		case "state":
			w.State = value
		case "agent":
			canon.Each(r.object("agent", value), func(name, value []byte) {
				switch string(name) {
				case "id":
					r.text("id", value, &w.Agent.ID)
				case "run_id":
					r.text("run_id", value, &w.Agent.RunID)
				}
			})
		case "response":
			if string(value) != "null" {
				w.Response = r.detail(r.object("response", value))
			}
		}
	})
	if r.err != nil {
		return nil, r.err
	}
	r.finish()
	return w, nil
}

// reader reads typed values and keeps the first error. Null is a value only
// where its caller says so.
type reader struct {
	err   error
	texts [9]struct { // every text of a Response has a place
		to    *string
		value []byte
	}
	n, size int
}

func (r *reader) detail(object []byte) *types.ResponseDetail {
	d := &types.ResponseDetail{}
	canon.Each(object, func(name, value []byte) {
		switch string(name) {
		case "value":
			d.Value = value
		case "edited":
			d.Edited = r.flag("edited", value)
		case "actor":
			r.text("actor", value, &d.Actor)
		case "resolved_at":
			r.text("resolved_at", value, &d.ResolvedAt)
		case "comment":
			r.text("comment", value, &d.Comment)
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

// text notes where the text goes that finish reads.
func (r *reader) text(name string, value []byte, to *string) {
	if value[0] != '"' {
		r.fail(&strict.Error{Member: name, Reason: "not a string"})
		return
	}
	r.texts[r.n].to, r.texts[r.n].value = to, value
	r.n++
	r.size += len(value)
}

// finish hands out the texts.
func (r *reader) finish() {
	var all strings.Builder
	all.Grow(r.size)
	for _, t := range r.texts[:r.n] {
		start := all.Len()
		canon.WriteText(&all, t.value)
		*t.to = all.String()[start:]
	}
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
