package ma2h

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/seeds"
	"github.com/ma2h/ma2h-go/types"
)

const decodeBody = `{"ma2h_version":"0.3","in_reply_to":"msg_1","resolution_id":"res_1","agent":{"id":"a","run_id":"r"},"resolution":"answered",` +
	`"response":{"value":"hold","edited":false,"actor":"human:alice","resolved_at":"2026-06-04T15:48:30Z","comment":"Let's wait."},"state":{"sealed":"x"}}`

// The reader of canonical Responses and the decoder of all other texts take and
// refuse the same, and read the same.
//
// req: RES-01 RES-05 RES-06
func FuzzTheTwoReadersOfAResponseAgree(f *testing.F) {
	texts := []string{
		decodeBody, `{}`, `{"agent":{}}`, `{"agent":null}`, `{"agent":[]}`, `{"agent":{"id":1}}`, `{"agent":{"id":null}}`, `{"response":null}`, `{"response":{}}`, `{"response":[]}`, `{"response":"x"}`,
		`{"response":{"value":null}}`, `{"response":{"value":[1,{"a":"\u0000"}]}}`, `{"response":{"edited":null}}`, `{"response":{"edited":"true"}}`, `{"response":{"checklist":null}}`,
		`{"response":{"checklist":[]}}`, `{"response":{"checklist":[{"text":"a","done":true},{"text":"b"}]}}`, `{"response":{"checklist":[null]}}`, `{"response":{"checklist":{}}}`, `{"response":{"comment":"\n\"\\😀"}}`,
		`{"state":null}`, `{"state":{}}`, `{"state":"null"}`, `{"state":[null]}`, `{"defaulted":1}`, `{"defaulted":true}`, `{"ma2h_version":null}`, `{"ma2h_version":0.3}`, `{"resolution":"é"}`,
		`{"in_reply_to":[]}`, `{"Agent":null,"RESPONSE":1}`, `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"response":{"actor":"x"}}`,
		strings.Replace(decodeBody, `"comment":"Let's wait."`, `"checklist":[{"text":"x","done":false}]`, 1),
	}
	corpus := seeds.For(f)
	for _, s := range texts {
		corpus.Add([]byte(s))
	}
	corpus.Counted(34)
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := canon.Parse(text)
		if err != nil {
			return
		}
		var want types.Response
		wantErr := types.Decode(doc.Bytes(), &want)
		got, gotErr := decodeResponse(doc)
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%s: %v and %v", doc.Bytes(), gotErr, wantErr)
		}
		if wantErr != nil {
			if got != nil || strings.Contains(gotErr.Error(), "canary") {
				t.Errorf("%s leaves %#v beside %v", doc.Bytes(), got, gotErr)
			}
			return
		}
		if a, b := fields(*got), fields(want); !reflect.DeepEqual(a, b) {
			t.Errorf("%s reads as\n%q and\n%q", doc.Bytes(), a, b)
		}
	})
}

func fields(w types.Response) []any {
	out := []any{w.Version, w.InReplyTo, w.ResolutionID, w.Agent, w.Resolution, w.Defaulted, string(w.State), w.State == nil, w.Response == nil}
	if d := w.Response; d != nil {
		out = append(out, string(d.Value), d.Value == nil, d.Edited, d.Actor, d.ResolvedAt, d.Comment, d.Checklist)
	}
	return out
}
