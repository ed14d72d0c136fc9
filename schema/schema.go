// Package schema holds JSON Schemas (2020-12) for the bodies of MA2H 0.2, 0.3
// and 0.4, and checks the schema that the sender of an input ask supplies.
//
// What Validate refuses, types.Decode and the type's Validate refuse too, and
// the other way round, but for the rules that a schema cannot state; those
// stand in the tests, each with its reason. Nothing here opens a file or a
// socket: every schema is embedded, and a caller's may not refer to another.
package schema

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/types"
)

// Names of the bodies that Validate knows. Ack, Directive and Presence exist
// from 0.4 on.
const (
	Message    = "message"     // what an agent submits (§4, §5)
	Response   = "response"    // what a Hub emits when an ask or task ends (§6)
	Capability = "capability"  // the discovery document (§8.0)
	SubmitAck  = "submit-ack"  // the body of a 202 (§8.1)
	GetMessage = "get-message" // the body of GET /v1/messages/{id} (§8.2)
	ErrorBody  = "error"       // the error envelope (§8.5)
	Directive  = "directive"   // what a human sends an agent (§13.1)
	Ack        = "ack"         // a receipt (§14.1)
	Presence   = "presence"    // the presence of an agent (§15.3)
)

// Versions returns the versions that have schemas, oldest first.
func Versions() []string { return slices.Clone(versions) }

// Names returns the bodies that version has a schema for, sorted, or nil for
// an unknown version.
func Names(version string) []string {
	b, err := load()
	if err != nil {
		return nil
	}
	var out []string
	for k := range b.bodies {
		if k.version == version {
			out = append(out, k.name)
		}
	}
	slices.Sort(out)
	return out
}

// Validate checks data against the schema that version has for name. It
// returns an *Error for a body that the schema refuses or that is not strict
// JSON (see types.Decode), and for a version or a name without a schema.
//
// The schema of a version takes bodies of any minor, as §10 asks: version says
// whose rules apply, not what ma2h_version must be. Members that it does not
// know are ignored.
func Validate(version, name string, data []byte) error {
	fail := func(path, rule string, cause error) error {
		return &Error{Version: version, Name: name, Path: path, Rule: rule, cause: cause}
	}
	b, err := load()
	if err != nil {
		return err
	}
	if !slices.Contains(versions, version) {
		return fail("", RuleUnknownVersion, nil)
	}
	body, ok := b.bodies[key{version, name}]
	if !ok {
		return fail("", RuleUnknownName, nil)
	}
	v, err := parse(data)
	if err != nil {
		return fail("", RuleJSON, err)
	}
	if err := body.resolved.Validate(v); err != nil {
		path, rule := place(err)
		return fail(path, rule, nil)
	}
	if path, rule := b.formats(body.uri, v); rule != "" {
		return fail(path, rule, nil)
	}
	return nil
}

// instance takes any JSON value, null included, in the form that the
// validator reads.
type instance struct{ value any }

func (*instance) AcceptsNull() {}

// UnmarshalJSON reads a text that the strict decoder has already passed.
func (i *instance) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &i.value) }

// parse lets nothing through that the validator is not made for: depth, size
// of numbers, duplicate names and text that is not Unicode are settled here.
func parse(data []byte) (any, error) {
	if len(data) > limits.MaxResponseBody {
		return nil, fmt.Errorf("%d bytes, over %d", len(data), limits.MaxResponseBody)
	}
	var i instance
	if err := types.Decode(data, &i); err != nil {
		return nil, err
	}
	return i.value, nil
}
