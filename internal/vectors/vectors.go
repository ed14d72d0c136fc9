// Package vectors loads signature vectors: deliveries as data, with the verdict
// that a verifier must come to. Only tests import it.
package vectors

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Pinned is how many vectors there are. It moves with the files, so that none
// gets lost unseen.
const Pinned = 137

// The kinds of delivery.
const (
	Response  = "response"
	Directive = "directive"
	Ack       = "ack"
)

// The verdicts. Where a delivery breaks several rules, the earliest check in
// this order is what it fails at: header, malformed (bad JSON), stale, then
// version, unbound, malformed (a member of the context), signature.
const (
	OK        = "ok"
	Header    = "header"    // the header breaks its grammar
	Malformed = "malformed" // the body is not strict JSON, or lacks a signed member
	Stale     = "stale"     // t is outside the window
	Version   = "version"   // the version has no such signature
	Unbound   = "unbound"   // a 0.2 Response that was not allowed by name
	Signature = "signature" // no key verifies
)

// What a vector that has no verdict pins.
const (
	PinsContext = "context" // the signature of Context; there is no body
	PinsDigest  = "digest"  // the digest of the body; there is no header
)

// Algorithms of a Key.
const (
	HMAC    = "hmac-sha256"
	Ed25519 = "ed25519"
)

// Vector is one delivery.
type Vector struct {
	Name string `json:"name"` // the file's, without .json
	Note string `json:"note"`
	Base string `json:"base"` // the accepted vector that this one varies
	Kind string `json:"kind"`
	Pins string `json:"pins"` // "" for a verdict

	// The body, as a JSON value, as text, or as bytes that are not text.
	Body       jsontext.Value `json:"body"`
	BodyText   *string        `json:"body_text"`
	BodyBase64 *string        `json:"body_base64"`

	Header      string `json:"header"`
	CallbackURL string `json:"callback_url"` // as the agent registered it; Responses only
	AgentID     string `json:"agent_id"`     // the receiver's own; directives only
	Keys        []Key  `json:"keys"`         // in order of preference
	Now         int64  `json:"now"`          // the receiver's clock, Unix seconds
	Expect      string `json:"expect"`

	AllowUnboundPayload bool `json:"allow_unbound_payload"`

	Context string `json:"context"` // the text that is signed
	Payload string `json:"payload"` // the text that is digested
	Digest  string `json:"digest"`  // its SHA-256 in lower-case hex
}

// Key is a key of the receiver.
type Key struct {
	Alg    string `json:"alg"`
	Secret string `json:"secret"` // hmac-sha256: used as raw bytes
	Public string `json:"public"` // ed25519: hex
}

// Bytes returns the body as it is delivered.
func (v *Vector) Bytes() []byte {
	switch {
	case v.BodyText != nil:
		return []byte(*v.BodyText)
	case v.BodyBase64 != nil:
		b, _ := base64.StdEncoding.DecodeString(*v.BodyBase64) // checked by Load
		return b
	}
	return v.Body
}

// Load reads the vectors of a folder, in the order of their names. It fails
// unless there are exactly pinned files, each complete and without unknown
// members.
func Load(dir string, pinned int) ([]Vector, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 || len(files) != pinned {
		return nil, fmt.Errorf("vectors: %d files in %s, %d pinned", len(files), dir, pinned)
	}
	out := make([]Vector, 0, len(files))
	byName := make(map[string]*Vector, len(files))
	for _, f := range files {
		v, err := read(f)
		if err != nil {
			return nil, fmt.Errorf("vectors: %s: %w", filepath.Base(f), err)
		}
		out = append(out, v)
		byName[v.Name] = &out[len(out)-1]
	}
	for i := range out {
		if base := out[i].Base; base != "" && (byName[base] == nil || byName[base].Expect != OK || byName[base].Kind == "") {
			return nil, fmt.Errorf("vectors: %s: base %q is no accepted vector", out[i].Name, base)
		}
	}
	return out, nil
}

func read(file string) (Vector, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Vector{}, err
	}
	var v Vector
	if err := json.Unmarshal(b, &v, json.RejectUnknownMembers(true)); err != nil {
		return Vector{}, err
	}
	if v.Name != strings.TrimSuffix(filepath.Base(file), ".json") {
		return Vector{}, fmt.Errorf("name is %q", v.Name)
	}
	return v, v.check()
}

func (v *Vector) check() error {
	switch v.Kind {
	case Response, Directive, Ack:
	default:
		return fmt.Errorf("kind is %q", v.Kind)
	}
	bodies := 0
	for _, has := range []bool{v.Body != nil, v.BodyText != nil, v.BodyBase64 != nil} {
		if has {
			bodies++
		}
	}
	if v.BodyBase64 != nil {
		if _, err := base64.StdEncoding.DecodeString(*v.BodyBase64); err != nil {
			return err
		}
	}
	for _, k := range v.Keys {
		if (k.Alg != HMAC || k.Secret == "" || k.Public != "") && (k.Alg != Ed25519 || k.Public == "" || k.Secret != "") {
			return fmt.Errorf("key of %q is not complete", k.Alg)
		}
	}
	switch v.Pins {
	case PinsContext:
		if bodies != 0 || v.Context == "" || v.Header == "" || len(v.Keys) == 0 || v.Expect != "" {
			return errors.New("pins a context and needs context, header and keys only")
		}
		return nil
	case PinsDigest:
		if bodies != 1 || v.Payload == "" || v.Digest == "" || v.Expect != "" {
			return errors.New("pins a digest and needs body, payload and digest only")
		}
		return nil
	case "":
	default:
		return fmt.Errorf("pins %q", v.Pins)
	}
	switch v.Expect {
	case OK:
		if v.Context == "" || (v.Payload == "") != (v.Digest == "") || v.Payload == "" && !v.AllowUnboundPayload {
			return errors.New("is accepted and needs context, payload and digest")
		}
	case Header, Malformed, Stale, Version, Unbound, Signature:
		if v.Base == "" {
			return errors.New("is refused and needs the base that it varies")
		}
		if v.Context != "" || v.Payload != "" || v.Digest != "" {
			return errors.New("is refused and has nothing that is signed")
		}
	default:
		return fmt.Errorf("expect is %q", v.Expect)
	}
	if bodies != 1 || len(v.Keys) == 0 || v.Now == 0 || (v.CallbackURL != "") != (v.Kind == Response) || (v.AgentID != "") != (v.Kind == Directive) {
		return errors.New("needs one body, keys, now, and what its kind takes")
	}
	return nil
}
