package schema

import (
	"maps"
	"slices"
	"strings"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/types"
)

// Names of an Error about a caller's schema and about an answer to it.
const (
	inputSchema = "input schema"
	answer      = "answer"
)

// Input is a compiled request.schema of an ask in mode input: a flat object of
// strings, numbers, integers, booleans and enums (§5.2). It is immutable and
// safe for concurrent use.
type Input struct {
	properties map[string]*property
	names      []string // of properties, sorted
	required   []string
	closed     bool
}

// CompileInput reads a flat JSON Schema. It returns an *Error for one that is
// not strict JSON or not of type object, that nests, refers to another schema
// ($ref, $defs, $id, a $schema other than 2020-12 or draft-07), has a keyword
// that would not be enforced, requires a property that it does not declare, or
// is over 64 KiB, 128 properties or 1 KiB of pattern. Patterns are Go regular
// expressions, matched in linear time. Nothing is ever loaded.
func CompileInput(raw []byte) (*Input, error) {
	if len(raw) > limits.MaxSchema {
		return nil, &Error{Name: inputSchema, Rule: RuleSize}
	}
	root, err := members(raw, "")
	if err != nil {
		return nil, err
	}
	in := &Input{properties: map[string]*property{}}
	var kind string
	for _, keyword := range slices.Sorted(maps.Keys(root)) {
		v := root[keyword]
		switch keyword {
		case "type":
			err = read(v, &kind, keyword)
		case "properties":
			err = in.compileProperties(v)
		case "required":
			err = read(v, &in.required, keyword)
		case "additionalProperties":
			var open bool
			err = read(v, &open, keyword)
			in.closed = !open
		case "$schema":
			err = checkDialect(v)
		case "title", "description", "$comment":
			var remark string
			err = read(v, &remark, keyword)
		default:
			if !strings.HasPrefix(keyword, "x-") {
				err = &Error{Name: inputSchema, Path: plainName(keyword), Rule: RuleUnsupported}
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if kind != "object" {
		return nil, &Error{Name: inputSchema, Path: "type", Rule: "const"}
	}
	for _, name := range in.required {
		if in.properties[name] == nil {
			return nil, &Error{Name: inputSchema, Path: joinPath([]string{"required", name}), Rule: "not among the properties"}
		}
	}
	return in, nil
}

func (in *Input) compileProperties(raw types.Raw) error {
	all, err := members(raw, "properties")
	if err != nil {
		return err
	}
	if len(all) > limits.MaxSchemaProperties {
		return &Error{Name: inputSchema, Path: "properties", Rule: RuleSize}
	}
	in.names = slices.Sorted(maps.Keys(all))
	for _, name := range in.names {
		p, err := compileProperty(all[name], joinPath([]string{"properties", name}))
		if err != nil {
			return err
		}
		in.properties[name] = p
	}
	return nil
}

// Validate checks an answer, and returns an *Error for the first property, by
// name, that the schema refuses, else for a property that is missing or, where
// additionalProperties is false, not declared.
func (in *Input) Validate(value []byte) error {
	v, err := parse(value)
	if err != nil {
		return &Error{Name: answer, Rule: RuleJSON, cause: err}
	}
	object, ok := v.(map[string]any)
	if !ok {
		return &Error{Name: answer, Rule: "type"}
	}
	for _, name := range in.names {
		if member, ok := object[name]; ok {
			if rule := in.properties[name].check(member); rule != "" {
				return refused(name, rule)
			}
		}
	}
	for _, name := range in.required {
		if _, ok := object[name]; !ok {
			return refused(name, "required")
		}
	}
	if in.closed {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if in.properties[name] == nil {
				return refused(name, "additionalProperties")
			}
		}
	}
	return nil
}

func refused(name, rule string) error {
	return &Error{Name: answer, Path: joinPath([]string{name}), Rule: rule}
}

// Sensitive returns the names of the properties marked x-ma2h-sensitive,
// sorted: their values belong in no log, export or telemetry (§9.6).
func (in *Input) Sensitive() []string {
	var out []string
	for _, name := range in.names {
		if in.properties[name].sensitive {
			out = append(out, name)
		}
	}
	return out
}

func checkDialect(raw types.Raw) error {
	var uri string
	if err := read(raw, &uri, "$schema"); err != nil {
		return err
	}
	uri = strings.TrimSuffix(uri, "#")
	for _, prefix := range []string{"https://", "http://"} {
		if rest, ok := strings.CutPrefix(uri, prefix); ok &&
			(rest == "json-schema.org/draft/2020-12/schema" || rest == "json-schema.org/draft-07/schema") {
			return nil
		}
	}
	return &Error{Name: inputSchema, Path: "$schema", Rule: "neither 2020-12 nor draft-07"}
}

func members(raw []byte, path string) (map[string]types.Raw, error) {
	var m map[string]types.Raw
	if err := read(raw, &m, path); err != nil {
		return nil, err
	}
	return m, nil
}

// read takes the value of a keyword into v, whose type is what it must have.
func read(raw []byte, v any, path string) error {
	if err := types.Decode(raw, v); err != nil {
		return &Error{Name: inputSchema, Path: path, Rule: "type", cause: err}
	}
	return nil
}
