package types_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/types"
)

const canary = "kqzwcanary"

// with puts member text into a response that is valid but for it.
func with(member string) string {
	return `{"ma2h_version":"0.3","in_reply_to":"msg_1","resolution_id":"res_1","agent":{"id":"a","run_id":"r"},
		"resolution":"answered","response":{"value":"hold","actor":"human:alice","resolved_at":"2026-06-04T15:48:30Z"}` + member + `}`
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func number(n int) string { return "1" + strings.Repeat("0", n-1-len("e-399")) + "e-399" }

// report: B036 B046
func TestTextThatReadersTakeDifferentlyIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":                        ``,
		"blank":                        "  \n",
		"null":                         `null`,
		"array":                        `[]`,
		"string":                       `"x"`,
		"cut":                          strings.TrimSuffix(with(""), "}"),
		"trailing object":              with("") + `{}`,
		"trailing comma":               with(`,`),
		"trailing letter":              with("") + `x`,
		"byte order mark":              "\ufeff" + with(""),
		"UTF-16":                       "\xff\xfe{\x00}\x00",
		"comment":                      with(`/* x */`),
		"duplicate":                    with(`,"resolution":"answered"`),
		"escaped duplicate":            with(`,"r\u0065solution":"answered"`),
		"duplicate in the response":    strings.Replace(with(""), `"value":"hold"`, `"value":"hold","value":"ship"`, 1),
		"escaped in the response":      strings.Replace(with(""), `"value":"hold"`, `"value":"hold","\u0076alue":"ship"`, 1),
		"duplicate in state":           with(`,"state":{"a":{"b":1,"b":1}}`),
		"duplicate in a list":          with(`,"state":{"a":[[{"b":1,"\u0062":2}]]}`),
		"duplicate in unknown":         with(`,"x":{"b":1,"b":1}`),
		"lone high surrogate":          with(`,"x":"\ud800"`),
		"lone low surrogate":           with(`,"x":"\udc00"`),
		"surrogates turned round":      with(`,"state":{"x":"\udc00\ud800"}`),
		"lone surrogate in a name":     with(`,"\ud800":1`),
		"invalid UTF-8":                with(",\"x\":\"\xff\""),
		"overlong UTF-8":               with(",\"x\":\"\xc0\xaf\""),
		"surrogate as UTF-8":           with(",\"x\":\"\xed\xa0\x80\""),
		"invalid UTF-8 in state":       with(",\"state\":{\"x\":\"\xff\"}"),
		"control character":            with(",\"x\":\"\x00\""),
		"1e400":                        with(`,"x":1e400`),
		"-1e400 in state":              with(`,"state":{"x":[-1e400]}`),
		"309 digits":                   with(`,"x":` + strings.Repeat("9", 310)),
		"401 bytes of number":          with(`,"x":` + number(401)),
		"leading zero":                 with(`,"x":01`),
		"leading plus":                 with(`,"x":+1`),
		"not a number":                 with(`,"x":NaN`),
		"65 levels":                    with(`,"x":` + nested(limits.MaxDepth)),
		"65 levels of objects":         with(`,"state":` + strings.Repeat(`{"a":`, limits.MaxDepth) + `1` + strings.Repeat(`}`, limits.MaxDepth)),
		"null for a string":            strings.Replace(with(""), `"res_1"`, `null`, 1),
		"null for an object":           strings.Replace(with(""), `{"id":"a","run_id":"r"}`, `null`, 1),
		"null for a boolean":           with(`,"defaulted":null`),
		"null for a string far inside": strings.Replace(with(""), `"human:alice"`, `null`, 1),
	} {
		var r types.Response
		err := types.Decode([]byte(text), &r)
		if _, ok := errors.AsType[*types.DecodeError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTextAtTheBoundsIsTaken(t *testing.T) {
	for name, text := range map[string]string{
		"plain":                   with(""),
		"white space":             " \t\r\n" + with("") + "\n",
		"64 levels":               with(`,"x":` + nested(limits.MaxDepth-1)),
		"400 bytes of number":     with(`,"x":` + number(400)),
		"the largest double":      with(`,"x":1.7976931348623157e308`),
		"an underflow":            with(`,"x":1e-400`),
		"a surrogate pair":        with(`,"x":"\ud83d\ude00"`),
		"equal names apart":       with(`,"x":{"a":1},"y":{"a":1}`),
		"null state and unknowns": with(`,"state":null,"x":null`),
	} {
		var r types.Response
		if err := types.Decode([]byte(text), &r); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := r.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// req: INB-07
func TestNamesOfAnotherCaseNeverBind(t *testing.T) {
	var r types.Response
	text := strings.Replace(with(`,"RESOLUTION":"declined","Resolution":"expired","\u017ftate":{"a":1}`),
		`"value":"hold"`, `"value":"hold","VALUE":"ship","Value":"ship","\u212a":1`, 1)
	if err := types.Decode([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if string(r.Response.Value) != `"hold"` || r.Resolution != types.Answered || r.State != nil {
		t.Errorf("value %q, resolution %s, state %q", string(r.Response.Value), r.Resolution, string(r.State))
	}
	var d types.Directive
	if err := types.Decode([]byte(`{"title":"ok","Title":"evil","STATE":{},"Request":1}`), &d); err != nil || d.Title != "ok" {
		t.Errorf("title %q, %v", d.Title, err)
	}
	var m types.MessageView
	if err := types.Decode([]byte(`{"id":"msg_1","ID":"msg_2","title":"ok","Title":"evil","Status":"open"}`), &m); err != nil ||
		m.ID != "msg_1" || m.Title != "ok" || m.Status != "" {
		t.Errorf("%v, title %q, %v", m, m.Title, err)
	}
}

// req: RES-05
func TestARawKeepsTheBytesThatWereReceived(t *testing.T) {
	for _, raw := range []string{
		`{ "b" : 1.50,  "a":[ 1e2 ,"\u0061\/" ] }`, `"sh\u0069p"`, `{"n":9007199254740993}`, "{\n}", `{"z":0,"a":-0}`,
	} {
		var d types.ResponseDetail
		if err := types.Decode([]byte(`{"value": `+raw+` ,"actor":"human:a"}`), &d); err != nil {
			t.Fatal(err)
		}
		if string(d.Value) != raw {
			t.Errorf("%s became %s", raw, string(d.Value))
		}
	}
	text := []byte(`{"value":"hold"}`)
	var d types.ResponseDetail
	if err := types.Decode(text, &d); err != nil {
		t.Fatal(err)
	}
	text[10] = 'X'
	if string(d.Value) != `"hold"` {
		t.Error("a Raw shares memory with the text it was read from")
	}
}

func TestNoErrorOfTheTypesHoldsContent(t *testing.T) {
	refused := 0
	check := func(err error) {
		if err == nil {
			return
		}
		refused++
		if text := fmt.Sprintf("%v %+v %#v %s %q", err, err, err, err, err); strings.Contains(text, canary) {
			t.Errorf("%s", text)
		}
	}
	for _, bad := range []string{
		`"` + canary + `"`, `["` + canary + `"]`, `{"` + canary + `":"` + canary + `"}`, canary,
		`"` + canary + `\ud800"`, `"` + canary, `{"` + canary + `":1,"` + canary + `":2}`, `{"a":{"` + canary + `":1e400}}`,
	} {
		for _, member := range []string{
			"state", "tags", "context", "agent", "request", "action", "title", "created_at", "expires_at", "sensitive",
		} {
			var m types.Message
			err := types.Decode([]byte(`{"ma2h_version":"0.3","type":"ask",`+fmt.Sprintf("%q:%s}", member, bad)), &m)
			check(err)
			if err == nil {
				check(m.Validate())
			}
		}
		for _, member := range []string{"value", "actor", "resolved_at", "edited", "checklist", "comment"} {
			var r types.Response
			err := types.Decode([]byte(`{"response":{`+fmt.Sprintf("%q:%s}}", member, bad)), &r)
			check(err)
		}
		for _, text := range []string{
			`{"kind":"text","text":` + bad + `}`, `{"kind":"file","file":` + bad + `}`, `{"kind":"data","data":` + bad + `}`,
		} {
			var p types.Part
			err := types.Decode([]byte(text), &p)
			check(err)
			if err == nil {
				check(p.Validate())
			}
		}
		var e types.InboxEntry
		check(types.Decode([]byte(`{"directive":`+bad+`,"signature":`+bad+`}`), &e))
	}
	check((&types.Response{Version: "0.3", InReplyTo: "m", ResolutionID: "r", Agent: types.ResponseAgent{ID: "a", RunID: "r"},
		Resolution: types.Answered, Response: &types.ResponseDetail{Value: types.Raw(`"` + canary + `"`), Actor: canary}}).Validate())
	check((&types.Request{Mode: types.ModeSelect, Options: []types.Option{{Value: canary}, {Value: canary}}}).Validate())
	check((&types.Callback{Mode: types.CallbackPush, URL: canary}).Validate())
	if refused < 100 {
		t.Fatalf("only %d errors were looked at", refused)
	}
}

func TestAnErrorOfANestedValueIsAFieldError(t *testing.T) {
	for text, field := range map[string]string{
		`{"context":[{"kind":"text"}]}`:                    "context[]",
		`{"request":{"options":[{"value":"a"}]}}`:          "options[]",
		`{"request":{"callback":{"mode":"x","url":""}}}`:   "callback.url",
		`{"request":{"callback":{"auth":{"scheme":"x"}}}}`: "callback.auth",
		`{"action":{"checklist":[{"done":true}]}}`:         "checklist[]",
		`{"action":{}}`:     "action",
		`{"priority":""}`:   "priority",
		`{"expires_at":""}`: "expires_at",
	} {
		var m types.Message
		err := types.Decode([]byte(text), &m)
		if fe, ok := errors.AsType[*types.FieldError](err); !ok || fe.Field != field {
			t.Errorf("%s: %v", text, err)
		}
	}
}
