package ma2h_test

import (
	stdjson "encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"

	. "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/internal/seeds"
	"github.com/ma2h/ma2h-go/types"
)

// A Hub that signs anything. What verifies is seen as a second reader sees the
// second canonicaliser's form of it; nothing is refused for its signature.

type object = map[string]any

// canonicalObject is the body's canonical form by the second canonicaliser,
// read by encoding/json.
func canonicalObject(body []byte) object {
	text, err := jcs.Transform(body)
	var m object
	if err != nil || stdjson.Unmarshal(text, &m) != nil {
		return nil
	}
	return m
}

// pick copies the named members that are there, and not empty text.
func pick(v any, names ...string) object {
	m, _ := v.(object)
	out := object{}
	for _, n := range names {
		if v, ok := m[n]; ok && v != "" {
			out[n] = v
		}
	}
	return out
}

func str(m object, name string) string { s, _ := m[name].(string); return s }

// again is the canonical text of a value.
func again(v any) string {
	b, _ := stdjson.Marshal(v)
	text, _ := jcs.Transform(b)
	return string(text)
}

// signedResponse is what the accessors of a Response must return.
func signedResponse(m object) map[string]any {
	detail, _ := m["response"].(object)
	value, isText := detail["value"].(string)
	var input any
	if o, ok := detail["value"].(object); ok {
		input = o
	}
	resolution, bound := Resolution(str(m, "resolution")), str(m, "ma2h_version") != "0.2"
	actor := str(detail, "actor")
	resolvedAt, _ := time.Parse(time.RFC3339Nano, str(detail, "resolved_at"))
	edited, _ := detail["edited"].(bool)
	var checklist []types.ChecklistItem
	if items, ok := detail["checklist"].([]any); ok {
		checklist = []types.ChecklistItem{}
		for _, item := range items {
			done, _ := item.(object)["done"].(bool)
			checklist = append(checklist, types.ChecklistItem{Text: str(item.(object), "text"), Done: done})
		}
	}
	state := ""
	if m["state"] != nil {
		state = again(m["state"])
	}
	return map[string]any{
		"MessageID": str(m, "in_reply_to"), "ResolutionID": str(m, "resolution_id"), "Resolution": resolution, "Version": str(m, "ma2h_version"),
		"Pulled": false, "PayloadBound": bound, "Text": value, "IsText": isText, "Object": input,
		"hold": bound && resolution == Answered && isText && value == "hold", "ship": bound && resolution == Answered && isText && value == "ship",
		"alice": bound && actor == "human:alice", "mallory": bound && actor == "human:mallory",
		"Actor": actor, "Defaulted": bound && resolution == Expired && actor == types.ActorDefaultOnExpire && detail["value"] != nil,
		"Comment": str(detail, "comment"), "Edited": edited, "Checklist": checklist, "ResolvedAt": resolvedAt, "State": state,
	}
}

// signedDirective is what the accessors of a Directive must return.
func signedDirective(m object) map[string]any {
	var tags, parts []string
	if list, ok := m["tags"].([]any); ok {
		tags = []string{}
		for _, t := range list {
			s, _ := t.(string)
			tags = append(tags, s)
		}
	}
	list, _ := m["context"].([]any)
	for _, p := range list {
		part := pick(p, "data", "metadata")
		for _, name := range []string{"kind", "text"} {
			if v, ok := p.(object)[name]; ok {
				part[name] = v
			}
		}
		if f, ok := p.(object)["file"]; ok {
			part["file"] = pick(f, "uri", "name", "mime_type")
		}
		parts = append(parts, again(part))
	}
	priority := Priority(str(m, "priority"))
	if priority == "" {
		priority = Normal
	}
	return map[string]any{"ID": str(m, "id"), "From": str(m, "from"), "Title": str(m, "title"), "Body": str(m, "body"), "Priority": priority, "Tags": tags, "Context": parts}
}

// canonicalParts brings the parts of seenDirective into the form of
// signedDirective.
func canonicalParts(seen map[string]any) map[string]any {
	for i, p := range seen["Context"].([]string) {
		text, _ := jcs.Transform([]byte(p))
		seen["Context"].([]string)[i] = string(text)
	}
	return seen
}

// req: SGR-01, SGR-04, SGD-01, SGA-01
// report: B034, B073
func FuzzWhatIsSignedIsWhatTheCallerSees(f *testing.F) {
	corpus := seeds.For(f)
	add := func(kind uint8, body string) { corpus.Add(kind, []byte(body)) }
	for _, g := range genuine(f) {
		for kind := range uint8(3) {
			add(kind, g.body)
		}
	}
	add(2, trustAck)
	for _, edit := range [][2]string{
		{`"0.3"`, `"0.2"`}, {`"0.3"`, `"0.9"`}, {`"0.3"`, `"1.0"`}, {`"0.3"`, `3`}, {`"answered"`, `"expired"`}, {`"answered"`, `"completed"`}, {`"answered"`, `"of a later minor"`},
		{`"hold"`, `{"n":9007199254740993,"k":[1e21,-0.5,null],"<":"\u2028"}`}, {`"hold"`, `["hold"]`}, {`"hold"`, `null`}, {`"hold"`, `"\u0068old"`}, {`"value":"hold"`, `"VALUE":"ship","value":"hold"`},
		{`"value":"hold"`, `"value":"ship","value":"hold"`}, {`"comment":"Let's wait."`, `"checklist":[{"text":"a","done":true,"x":1},{"text":"b"}]`}, {`"edited":false`, `"edited":"true"`},
		{`"response":{`, `"Response":{`}, {`human:alice`, `system:default_on_expire`}, {`human:alice`, `alice`}, {`"state":{`, `"state":{"n":[1.50,1E3,-0],`}, {`{"sealed":"MA2HSEALv1.sample"}`, `"sealed"`},
		{`"defaulted":false`, `"defaulted":true`}, {`"agent":{`, `"agent":{"id":"","x":{`}, {`2026-06-04T15:48:30Z`, `2026-06-04T15:48:30.5+02:00`}, {`2026-06-04T15:48:30Z`, `yesterday`},
	} {
		add(0, strings.Replace(trustBody, edit[0], edit[1], 1))
	}
	for _, edit := range [][2]string{
		{`"agent:deploybot/dev-team"`, `"agent:other"`}, {`"0.4"`, `"0.3"`}, {`"type":"directive",`, ``}, {`"human:alice"`, `"agent:alice"`}, {`"Pause deploys"`, `""`}, {`"urgent"`, `"later"`},
		{`"context":[`, `"context":[{"kind":"data","data":{"n":1.0},"x":1,"metadata":{"a":[]}},{"kind":"file","file":{"uri":"https://x.example/","name":"n","y":2}},`},
		{`"sensitive":false`, `"sensitive":true,"action":{}`}, {`"sensitive":false`, `"state":null`}, {`"tags":[`, `"tags":[null,`}, {`"title"`, `"Title":"evil","title"`},
	} {
		add(1, strings.Replace(trustDirective, edit[0], edit[1], 1))
	}
	corpus.Counted(51)
	v := trustVerifier(f, openReplay{}, func(c *VerifierConfig) { c.AllowUnboundPayload = true })
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		m := canonicalObject(body)
		if m == nil || len(body) > 1<<16 {
			return // nothing that a Hub could sign
		}
		name := []string{"response", "directive", "ack"}[kind%3]
		h := http.Header{"Ma2h-Signature": {hubSigner{}.value(t, name, string(body), trustUnix, "jti_fuzz")}}
		var err error
		var got, want map[string]any
		switch name {
		case "response":
			var r *Response
			if r, err = v.Response(t.Context(), h, body); err == nil {
				got, want = seen(r), signedResponse(m)
			}
		case "directive":
			var d *Directive
			if d, err = v.Directive(t.Context(), h, body); err == nil {
				got, want = canonicalParts(seenDirective(d)), signedDirective(m)
				if str(m, "to") != "agent:"+trustAgent {
					t.Fatalf("addressed to %q", str(m, "to"))
				}
			}
		case "ack":
			var a *types.Ack
			if a, err = v.Ack(t.Context(), h, body); err == nil {
				got = map[string]any{"in_reply_to": a.InReplyTo, "by": a.By, "acked_at": a.AckedAt, "note": a.Note, "resolution_id": a.ResolutionID}
				want = map[string]any{}
				for n := range got {
					want[n] = str(m, n)
				}
			}
		}
		if err != nil {
			refusedForItsShape(t, err)
			return
		}
		for n := range want {
			if !reflect.DeepEqual(got[n], want[n]) {
				t.Errorf("%s: %s is %#v, signed was %#v", body, n, got[n], want[n])
			}
		}
	})
}

// refusedForItsShape: the signature held, so whatever is wrong is something
// else, and only one thing.
func refusedForItsShape(t *testing.T, err error) {
	t.Helper()
	n := 0
	for _, s := range []error{ErrMalformed, ErrVersion, ErrAddressee} {
		if errors.Is(err, s) {
			n++
		}
	}
	if n != 1 || errors.Is(err, ErrSignature) {
		t.Fatalf("%v, for a signature that holds", err)
	}
}
