package ghactions

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/internal/seeds"
)

func delivery(body string) ma2h.Delivery {
	h := http.Header{}
	h.Set("MA2H-Signature", "t=1749050910,jti=j,v1=AAAA")
	return ma2h.Delivery{MessageID: "msg_1", Header: h, Body: []byte(body)}
}

// event makes the event file that GitHub makes of a dispatch.
func event(t *testing.T, dispatch []byte) []byte {
	t.Helper()
	var d struct {
		EventType string          `json:"event_type"`
		Payload   json.RawMessage `json:"client_payload"`
	}
	if err := json.Unmarshal(dispatch, &d); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(map[string]any{
		"action": d.EventType, "branch": "main", "client_payload": d.Payload,
		"repository": map[string]any{"id": 1, "owner": map[string]any{"login": "o"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestADeliveryTravelsThroughAnEventByteForByte(t *testing.T) {
	body := "{\"in_reply_to\":\"msg_1\",\"x\":\"a\\u00e9\u2028<b>&\",\n \"y\" : 1.50}"
	dispatch, err := Dispatch("ma2h-response", delivery(body))
	if err != nil {
		t.Fatal(err)
	}
	var top map[string]any
	if err := json.Unmarshal(dispatch, &top); err != nil {
		t.Fatal(err)
	}
	if payload := top["client_payload"].(map[string]any); len(payload) != 1 {
		t.Errorf("client_payload has %d members, want the one string", len(payload))
	}
	got, err := parseEvent(event(t, dispatch))
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Body) != body || got.MessageID != "msg_1" || got.Header.Get("MA2H-Signature") != "t=1749050910,jti=j,v1=AAAA" {
		t.Errorf("the delivery changed on its way: %d bytes of body, want %d", len(got.Body), len(body))
	}
}

// report: B094
func TestADeliveryTooLargeForAnEventTravelsAsItsID(t *testing.T) {
	for name, body := range map[string]string{
		"one that fits":              strings.Repeat("x", 40<<10),
		"one of 70 KB":               strings.Repeat("x", 70<<10),
		"one that escaping enlarges": strings.Repeat("\"", 40<<10),
		"one that is not UTF-8":      "\xff",
	} {
		dispatch, err := Dispatch("ma2h-response", delivery(body))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(dispatch) > maxPayload {
			t.Errorf("%s: a dispatch of %d bytes", name, len(dispatch))
		}
		got, err := parseEvent(event(t, dispatch))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if whole := name == "one that fits"; (len(got.Body) > 0) != whole || got.MessageID != "msg_1" || (got.Header != nil) != whole {
			t.Errorf("%s: body of %d bytes arrived", name, len(got.Body))
		}
	}
	if _, err := Dispatch("", delivery("")); err == nil {
		t.Error("an empty event type was accepted")
	}
	if _, err := Dispatch("x", ma2h.Delivery{}); err == nil {
		t.Error("a delivery without an id was accepted")
	}
}

// started makes the event file that GitHub makes of a workflow_dispatch, which it
// refuses if a value is no string.
func started(t *testing.T, dispatch []byte) []byte {
	t.Helper()
	var d struct {
		Ref    string            `json:"ref"`
		Inputs map[string]string `json:"inputs"`
	}
	dec := json.NewDecoder(bytes.NewReader(dispatch))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		t.Fatalf("%v in %s", err, dispatch)
	}
	out, err := json.Marshal(map[string]any{
		"inputs": d.Inputs, "ref": "refs/heads/" + d.Ref, "workflow": ".github/workflows/ship.yml",
		"repository": map[string]any{"id": 1, "owner": map[string]any{"login": "o"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// report: B096, B094
func TestADeliveryTravelsAsOneOfTheInputsOfAWorkflow(t *testing.T) {
	body := "{\"in_reply_to\":\"msg_1\",\"x\":\"a\\u00e9\u2028<b>&\",\n \"y\" : 1.50}"
	inputs := map[string]string{"attempt": "3", "dry_run": "false"}
	dispatch, err := DispatchWorkflow("main", delivery(body), inputs)
	if err != nil {
		t.Fatal(err)
	}
	file := started(t, dispatch)
	got, err := parseEvent(file)
	if err != nil || string(got.Body) != body || got.MessageID != "msg_1" || got.Header.Get("MA2H-Signature") != "t=1749050910,jti=j,v1=AAAA" {
		t.Errorf("the delivery changed on its way: %v, %d bytes of body", err, len(got.Body))
	}
	var event struct {
		Ref    string
		Inputs map[string]string
	}
	if err := json.Unmarshal(file, &event); err != nil {
		t.Fatal(err)
	}
	if event.Ref != "refs/heads/main" || len(event.Inputs) != 3 || event.Inputs["attempt"] != "3" || event.Inputs["dry_run"] != "false" {
		t.Errorf("the job gets %v at %s", event.Inputs, event.Ref)
	}
	if len(inputs) != 2 {
		t.Errorf("the caller's inputs became %v", inputs)
	}

	dispatch, err = DispatchWorkflow("main", delivery(strings.Repeat("x", 40<<10)), map[string]string{"notes": strings.Repeat("y", 30<<10)})
	if err != nil || len(dispatch) > maxPayload {
		t.Fatalf("%d bytes, %v", len(dispatch), err)
	}
	if got, err := parseEvent(started(t, dispatch)); err != nil || got.MessageID != "msg_1" || got.Body != nil || got.Header != nil {
		t.Errorf("too large beside the other inputs: %v, %d bytes of body", err, len(got.Body))
	}

	big := map[string]string{"notes": strings.Repeat("y", 61<<10)}
	for name, c := range map[string]struct {
		ref    string
		d      ma2h.Delivery
		inputs map[string]string
	}{
		"no ref":                       {"", delivery("{}"), nil},
		"no id":                        {"main", ma2h.Delivery{}, nil},
		"an id that is not text":       {"main", ma2h.Delivery{MessageID: "\xff"}, nil},
		"a nameless input":             {"main", delivery("{}"), map[string]string{"": "x"}},
		"an input in its place":        {"main", delivery("{}"), map[string]string{Property: "x"}},
		"an input that is not text":    {"main", delivery("{}"), map[string]string{"x": "\xff"}},
		"inputs too large without it":  {"main", delivery("{}"), big},
		"an id that no event can hold": {"main", ma2h.Delivery{MessageID: strings.Repeat("m", 61<<10)}, nil},
	} {
		if body, err := DispatchWorkflow(c.ref, c.d, c.inputs); err == nil || body != nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// report: B100 B036
func TestAWrongEventIsOneClearError(t *testing.T) {
	good, err := Dispatch("e", delivery("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"good":                    {string(event(t, good)), nil},
		"good, with a BOM":        {"\ufeff" + string(event(t, good)), nil},
		"empty":                   {"", ErrBadEvent},
		"blank":                   {" \n", ErrBadEvent},
		"not JSON":                {"action: x", ErrBadEvent},
		"cut":                     {string(event(t, good))[:40], ErrBadEvent},
		"another event":           {`{"action":"opened","pull_request":{}}`, ErrOtherEvent},
		"payload null":            {`{"client_payload":null}`, ErrOtherEvent},
		"payload without the key": {`{"client_payload":{"other":"x"}}`, ErrOtherEvent},
		"payload is a list":       {`{"client_payload":[]}`, ErrOtherEvent},
		"the key is an object":    {`{"client_payload":{"ma2h":{"v":1,"id":"m"}}}`, ErrBadEvent},
		"the string is not JSON":  {`{"client_payload":{"ma2h":"x"}}`, ErrBadEvent},
		"no id":                   {`{"client_payload":{"ma2h":"{\"v\":1}"}}`, ErrBadEvent},
		"a later version":         {`{"client_payload":{"ma2h":"{\"v\":2,\"id\":\"m\"}"}}`, ErrBadEvent},
		"a job started by hand":   {`{"inputs":null,"ref":"refs/heads/main"}`, ErrOtherEvent},
		"an input left empty":     {`{"inputs":{"ma2h":""}}`, ErrOtherEvent},
		"an optional input":       {`{"inputs":{"ma2h":null}}`, ErrOtherEvent},
		"another input":           {`{"inputs":{"tag":"v1"}}`, ErrOtherEvent},
		"an input of a number":    {`{"inputs":{"ma2h":3}}`, ErrBadEvent},
		"an input of a hand":      {`{"inputs":{"ma2h":"msg_1"}}`, ErrBadEvent},
		"two kinds at once":       {`{"client_payload":{"ma2h":"{\"v\":1,\"id\":\"m\"}"},"inputs":{"ma2h":"{\"v\":1,\"id\":\"n\"}"}}`, ErrBadEvent},
		"good, of one kind":       {`{"client_payload":{},"inputs":{"ma2h":"{\"v\":1,\"id\":\"m\"}"}}`, nil},
		"the key twice":           {`{"client_payload":{"ma2h":"{\"v\":1,\"id\":\"m\"}","ma2h":"{\"v\":1,\"id\":\"n\"}"}}`, ErrBadEvent},
	} {
		d, err := parseEvent([]byte(c.text))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		if c.want != nil && (d.MessageID != "" || d.Body != nil) {
			t.Errorf("%s: a delivery came with the error", name)
		}
	}
	t.Setenv("GITHUB_EVENT_PATH", "")
	if _, err := ReadEvent(); !errors.Is(err, ErrNoEvent) {
		t.Errorf("no path: %v", err)
	}
	t.Setenv("GITHUB_EVENT_PATH", filepath.Join(t.TempDir(), "missing"))
	if _, err := ReadEvent(); !errors.Is(err, ErrNoEvent) {
		t.Errorf("no file: %v", err)
	}
	path := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(path, event(t, good), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GITHUB_EVENT_PATH", path)
	if d, err := ReadEvent(); err != nil || d.MessageID != "msg_1" {
		t.Errorf("a good file: %v", err)
	}
}

// theSecondReader finds the delivery with encoding/json, by exact names.
func theSecondReader(text []byte) (id, signature, body string, ok bool) {
	var event, inner map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &event) != nil {
		return "", "", "", false
	}
	var found []json.RawMessage
	for _, kind := range []string{"client_payload", "inputs"} {
		var members map[string]json.RawMessage
		if json.Unmarshal(event[kind], &members) == nil && members[Property] != nil && string(members[Property]) != `""` && string(members[Property]) != "null" {
			found = append(found, members[Property])
		}
	}
	var packed string
	var version float64
	if len(found) != 1 || json.Unmarshal(found[0], &packed) != nil || json.Unmarshal([]byte(packed), &inner) != nil ||
		json.Unmarshal(inner["v"], &version) != nil || version != parcelVersion {
		return "", "", "", false
	}
	for name, s := range map[string]*string{"id": &id, "signature": &signature, "body": &body} {
		if raw, there := inner[name]; there && json.Unmarshal(raw, s) != nil {
			return "", "", "", false
		}
	}
	if signature == "" || body == "" {
		signature, body = "", ""
	}
	return id, signature, body, id != ""
}

// An event file is a delivery that a second reader finds too, or one of the
// sentinels and nothing of its text.
//
// report: B100
func FuzzParseEvent(f *testing.F) {
	good, err := Dispatch("e", delivery(`{"in_reply_to":"msg_1"}`))
	if err != nil {
		f.Fatal(err)
	}
	corpus := seeds.For(f)
	for _, s := range []string{
		`{"action":"e","client_payload":` + strings.TrimSuffix(strings.SplitN(string(good), `"client_payload":`, 2)[1], "}") + `}`,
		`{"client_payload":{"ma2h":"{\"v\":1,\"id\":\"m\",\"signature\":\"s\",\"body\":\"b\"}"}}`,
		`{"client_payload":{"ma2h":"{\"v\":1,\"id\":\"m\",\"body\":\"CANARY\"}"}}`,
		`{"client_payload":{"ma2h":"{\"v\":1,\"id\":\"m\",\"id\":\"CANARY\"}"}}`,
		`{"client_payload":{"ma2h":"{\"v\":1.0,\"ID\":\"CANARY\",\"id\":\"m\"}"}}`,
		`{"client_payload":{"ma2h":"{\"v\":2,\"id\":\"CANARY\"}"}}`,
		`{"client_payload":{"ma2h":"CANARY"}}`, `{"client_payload":{"ma2h":{"CANARY":1}}}`, `{"client_payload":{"ma2h":"{\"v\":1,\"id\":7}"}}`,
		`{"client_payload":{"MA2H":"{}","ma2h":null}}`, `{"client_payload":{"CANARY":1,"CANARY":2}}`,
		`{"client_payload":null}`, `{"client_payload":{}}`, `{"action":"CANARY"}`, `[]`, `"CANARY"`, "", "CANARY", "\ufeff{}", "\ufeff\ufeff{}",
		`{"inputs":{"ma2h":"{\"v\":1,\"id\":\"m\"}"},"ref":"refs/heads/main"}`, `{"inputs":{"ma2h":"{\"v\":1,\"id\":\"m\"}"},"client_payload":{"ma2h":"CANARY"}}`,
		`{"inputs":["CANARY"],"client_payload":{"ma2h":"{\"v\":1,\"id\":\"m\"}"}}`, `{"inputs":{"ma2h":null},"client_payload":{"ma2h":"{\"v\":1,\"id\":\"m\"}"}}`,
	} {
		corpus.Add([]byte(s))
	}
	corpus.Counted(24)
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parseEvent(text)
		if err != nil {
			if d.MessageID != "" || d.Header != nil || d.Body != nil {
				t.Fatal("a delivery came with an error")
			}
			if errors.Is(err, ErrBadEvent) == errors.Is(err, ErrOtherEvent) || errors.Is(err, ErrNoEvent) {
				t.Fatalf("%v is not one of the sentinels", err)
			}
			if strings.Contains(err.Error(), "CANARY") || len(err.Error()) > 200 {
				t.Fatalf("the error quotes the event: %v", err)
			}
			return
		}
		id, signature, body, ok := theSecondReader(text)
		if !ok || d.MessageID != id || string(d.Body) != body || d.Header.Get("MA2H-Signature") != signature || len(d.Header) > 1 {
			t.Fatalf("the second reader finds %q, %q, %q (%t)", id, signature, body, ok)
		}
		// What was read packs into an event that reads the same.
		again, err := Dispatch("e", d)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) > maxPayload || len(d.Body)+len(signature) > 8<<10 {
			return
		}
		d2, err := parseEvent(event(t, again))
		if err != nil || d2.MessageID != d.MessageID || string(d2.Body) != string(d.Body) || d2.Header.Get("MA2H-Signature") != signature {
			t.Fatalf("read again: %v", err)
		}
	})
}
