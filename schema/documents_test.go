package schema_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/schema"
	"github.com/ma2h/ma2h-go/types"
)

// document is a valid body that tests change.
type document struct {
	body string // name of its schema
	text string
}

// documents also seed the fuzz target, in this order.
var documentNames = []string{
	"notify", "ask", "input", "confirm", "push", "task", "parts",
	"answered", "answered object", "declined", "defaulted", "completed", "completed with checklist",
	"bare capability", "capability",
	"submit ack",
	"get open", "get delivered", "get answered", "get task", "get acknowledged",
	"directive", "ack", "presence", "unknown presence", "error",
}

const askResponse = `{"ma2h_version":"0.3","in_reply_to":"msg_1","resolution_id":"res_1",
	"agent":{"id":"bot/dev","run_id":"run_1"},"resolution":"answered",
	"response":{"value":"ship","edited":false,"actor":"human:alice","resolved_at":"2026-06-04T15:48:30Z","comment":"go"},
	"defaulted":false,"state":{"sealed":"x"}}`

var documents = map[string]document{
	"notify": {schema.Message, `{"ma2h_version":"0.3","type":"notify","created_at":"2026-06-04T15:48:30Z",
		"agent":{"id":"bot/dev","run_id":"run_1","runtime":"cli","project":"web","labels":{"model":"m"}},
		"title":"Digest","body":"text","priority":"low","tags":["a","b"],"client_ref":"c",
		"sensitive":false,"state":{"n":1}}`},
	"ask": {schema.Message, `{"ma2h_version":"0.3","type":"ask","created_at":"2026-06-04T15:48:30.5+02:00",
		"agent":{"id":"bot/dev","run_id":"run_1","runtime":"github-actions"},
		"title":"Ship?","idempotency_key":"k1","expires_at":"2026-06-05T15:48:30Z",
		"request":{"mode":"select","options":[{"value":"ship","label":"Ship","description":"now"},{"value":"hold","label":"Hold"}],
		"permissions":{"allow_accept":true,"allow_edit":false,"allow_respond":true,"allow_ignore":true},
		"default_on_expire":"hold","allowed_resolvers":["human:alice"]}}`},
	"input": {schema.Message, `{"ma2h_version":"0.4","type":"ask","created_at":"2026-06-04T15:48:30Z",
		"agent":{"id":"bot/dev","run_id":"run_1","runtime":"cloud"},"title":"Why?","idempotency_key":"k2",
		"request":{"mode":"input","schema":{"type":"object","properties":{"reason":{"type":"string"}}},
		"default_on_expire":{"reason":"none"}}}`},
	"confirm": {schema.Message, `{"ma2h_version":"0.2","type":"ask","created_at":"2026-06-04T15:48:30Z",
		"agent":{"id":"bot/dev","run_id":"run_1","runtime":"other"},"title":"Sure?","idempotency_key":"k3",
		"request":{"mode":"confirm","default_on_expire":null,"callback":{"mode":"pull"}}}`},
	"push": {schema.Message, `{"ma2h_version":"0.3","type":"ask","created_at":"2026-06-04T15:48:30Z",
		"agent":{"id":"bot/dev","run_id":"run_1","runtime":"openclaw"},"title":"Sure?","idempotency_key":"k4",
		"request":{"mode":"confirm","callback":{"mode":"push","url":"https://bot.example/resume",
		"auth":{"scheme":"hmac","secret_ref":"env:SECRET"}}}}`},
	"task": {schema.Message, `{"ma2h_version":"0.3","type":"task","created_at":"2026-06-04T15:48:30Z",
		"agent":{"id":"bot/dev","run_id":"run_1","runtime":"desktop"},"title":"Rotate","idempotency_key":"k5",
		"action":{"instructions":"Rotate the key.","checklist":[{"text":"one","done":false},{"text":"two"}],
		"verification":"it signs","allowed_resolvers":["human:alice","agent:bot"],
		"callback":{"mode":"push","url":"https://bot.example/done","auth":{"scheme":"bearer","token_ref":"vault://x"}}}}`},
	"parts": {schema.Message, `{"ma2h_version":"0.3","type":"notify","created_at":"2026-06-04T15:48:30Z",
		"agent":{"id":"bot/dev","run_id":"run_1","runtime":"cli"},"title":"Parts","context":[
		{"kind":"text","text":"a","metadata":{"k":1}},{"kind":"data","data":{"a":[1]}},
		{"kind":"file","file":{"uri":"https://x.example/d","name":"d","mime_type":"text/plain"}}]}`},
	"answered":        {schema.Response, askResponse},
	"answered object": {schema.Response, strings.Replace(askResponse, `"ship"`, `{"reason":"r"}`, 1)},
	"declined": {schema.Response, `{"ma2h_version":"0.2","in_reply_to":"msg_1","resolution_id":"res_1",
		"agent":{"id":"bot/dev","run_id":"run_1"},"resolution":"declined",
		"response":{"actor":"human:alice","resolved_at":"2026-06-04T15:48:30Z"},"state":null}`},
	"defaulted": {schema.Response, `{"ma2h_version":"0.3","in_reply_to":"msg_1","resolution_id":"res_1",
		"agent":{"id":"bot/dev","run_id":"run_1"},"resolution":"expired","defaulted":true,
		"response":{"value":"hold","actor":"system:default_on_expire","resolved_at":"2026-06-04T15:48:30Z"}}`},
	"completed": {schema.Response, `{"ma2h_version":"0.4","in_reply_to":"msg_1","resolution_id":"res_1",
		"agent":{"id":"bot/dev","run_id":"run_1"},"resolution":"completed","response":null}`},
	"completed with checklist": {schema.Response, `{"ma2h_version":"0.4","in_reply_to":"msg_1","resolution_id":"res_1",
		"agent":{"id":"bot/dev","run_id":"run_1"},"resolution":"dismissed",
		"response":{"actor":"agent:bot","resolved_at":"2026-06-04T15:48:30Z","comment":"c","checklist":[{"text":"one","done":true}]}}`},
	"bare capability": {schema.Capability, `{"ma2h_version":"0.3"}`},
	"capability": {schema.Capability, `{"ma2h_version":"0.4","max_body_bytes":65536,"max_part_bytes":262144,"max_context_parts":0,
		"auth_schemes":["bearer","later"],"callback_auth_schemes":["hmac"],"signature_algs":["hmac-sha256","later"],
		"rate_limit":{"requests_per_minute":60,"inbox_depth":0},"retention_days":30,"replay_window_seconds":120,
		"inbound":{"enabled":true,"poll_url":"https://hub.example/v1/inbox","ack_url":"https://hub.example/v1/inbox/ack",
		"max_batch":32,"visibility_timeout_seconds":60,"retention_days":30,"signature_algs":["ed25519"],"webhook_supported":true},
		"ack":{"enabled":true,"signature_algs":["later"]},"presence":{"enabled":true,"freshness_seconds":90}}`},
	"submit ack": {schema.SubmitAck, `{"id":"msg_1","status":"open","poll_url":"https://hub.example/v1/messages/msg_1",
		"review_url":"https://hub.example/inbox/msg_1"}`},
	"get open": {schema.GetMessage, `{"id":"msg_1","status":"open","ma2h_version":"0.3","type":"ask","created_at":"2026-06-04T15:48:30Z",
		"agent":{"id":"bot/dev","run_id":"run_1","runtime":"cli"},"title":"Sure?","idempotency_key":"k6","request":{"mode":"confirm"}}`},
	"get delivered": {schema.GetMessage, `{"id":"msg_1","status":"delivered","ma2h_version":"0.3","type":"notify",
		"created_at":"2026-06-04T15:48:30Z","agent":{"id":"bot/dev","run_id":"run_1","runtime":"cli"},"title":"Digest"}`},
	"get answered": {schema.GetMessage, `{"id":"msg_1","status":"answered","ma2h_version":"0.3","type":"ask",
		"created_at":"2026-06-04T15:48:30Z","agent":{"id":"bot/dev","run_id":"run_1","runtime":"cli"},"title":"Ship?",
		"idempotency_key":"k7","request":{"mode":"select","options":[{"value":"ship","label":"Ship"}]},
		"response":` + askResponse + `,"delivery":{"state":"delivered-to-agent","delivered_at":"2026-06-04T16:00:00Z"}}`},
	"get task": {schema.GetMessage, `{"id":"msg_1","status":"completed","ma2h_version":"0.3","type":"task",
		"created_at":"2026-06-04T15:48:30Z","agent":{"id":"bot/dev","run_id":"run_1","runtime":"cli"},"title":"Rotate",
		"idempotency_key":"k8","action":{"instructions":"Do."},
		"response":{"ma2h_version":"0.3","in_reply_to":"msg_1","resolution_id":"res_1",
		"agent":{"id":"bot/dev","run_id":"run_1"},"resolution":"completed"}}`},
	"get acknowledged": {schema.GetMessage, `{"id":"msg_1","status":"answered","ma2h_version":"0.4","type":"ask",
		"created_at":"2026-06-04T15:48:30Z","agent":{"id":"bot/dev","run_id":"run_1","runtime":"cli"},"title":"Sure?",
		"idempotency_key":"k9","request":{"mode":"confirm"},"response":` + askResponse + `,
		"delivery":{"state":"acknowledged","delivered_at":"2026-06-04T16:00:00Z","acknowledged_at":"2026-06-04T16:01:00Z",
		"ack":{"ma2h_version":"0.4","type":"ack","in_reply_to":"msg_1","by":"agent:bot/dev","acked_at":"2026-06-04T16:01:00Z"}}}`},
	"directive": {schema.Directive, `{"ma2h_version":"0.4","type":"directive","id":"dir_1","from":"human:alice","to":"agent:bot/dev",
		"created_at":"2026-06-04T15:48:30Z","title":"Pause","body":"b","priority":"urgent","tags":["t"],
		"context":[{"kind":"text","text":"x"}],"expires_at":"2026-06-05T15:48:30Z","sensitive":true}`},
	"ack": {schema.Ack, `{"ma2h_version":"0.4","type":"ack","in_reply_to":"msg_1","by":"agent:bot/dev",
		"acked_at":"2026-06-04T16:01:00Z","note":"ok","resolution_id":"res_1"}`},
	"presence":         {schema.Presence, `{"agent_id":"bot/dev","state":"online","last_seen":"2026-06-04T16:01:00Z","freshness_seconds":90}`},
	"unknown presence": {schema.Presence, `{"agent_id":"bot/dev","state":"unknown","freshness_seconds":90}`},
	"error":            {schema.ErrorBody, `{"error":{"code":"not_found","message":"no"}}`},
}

// typed decodes and validates text as the type of the body.
func typed(name, text string) error {
	var v interface{ Validate() error }
	switch name {
	case schema.Message:
		v = new(types.Message)
	case schema.Response:
		v = new(types.Response)
	case schema.Capability:
		v = new(types.Capability)
	case schema.SubmitAck:
		v = new(types.SubmitAck)
	case schema.GetMessage:
		v = new(types.MessageView)
	case schema.ErrorBody:
		v = new(types.ErrorBody)
	case schema.Directive:
		v = new(types.Directive)
	case schema.Ack:
		v = new(types.Ack)
	case schema.Presence:
		v = new(types.Presence)
	}
	if err := types.Decode([]byte(text), v); err != nil {
		return err
	}
	return v.Validate()
}

// edit changes a document: "path=json" sets a member or an item, "-path" drops
// one. A path is dotted, with numbers for items.
func edit(t testing.TB, text string, changes ...string) string {
	t.Helper()
	var root any
	if err := json.Unmarshal([]byte(text), &root); err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		path, value, set := strings.Cut(change, "=")
		var v any
		if set {
			if err := json.Unmarshal([]byte(value), &v); err != nil {
				t.Fatalf("%s: %v", change, err)
			}
		}
		steps := strings.Split(strings.TrimPrefix(path, "-"), ".")
		at := root
		for _, step := range steps[:len(steps)-1] {
			at = child(t, at, step)
		}
		last := steps[len(steps)-1]
		switch at := at.(type) {
		case map[string]any:
			if set {
				at[last] = v
			} else {
				delete(at, last)
			}
		case []any:
			i, err := strconv.Atoi(last)
			if err != nil || !set {
				t.Fatalf("%s: not an item to set", change)
			}
			at[i] = v
		default:
			t.Fatalf("%s: no such place", change)
		}
	}
	out, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func child(t testing.TB, at any, step string) any {
	t.Helper()
	switch at := at.(type) {
	case map[string]any:
		if v, ok := at[step]; ok {
			return v
		}
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i < len(at) {
			return at[i]
		}
	}
	t.Fatalf("no %q in the document", step)
	return nil
}
