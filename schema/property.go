package schema

import (
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/ma2h/ma2h-go/types"
)

const (
	maxPattern = 1 << 10
	maxLength  = 1 << 30
)

// property is one property of a flat schema. multipleOf is apart: the
// validator divides doubles, by which 19.99 is no multiple of 0.01.
type property struct {
	resolved   *jsonschema.Resolved
	multipleOf *big.Rat
	sensitive  bool
}

func compileProperty(raw types.Raw, path string) (*property, error) {
	keywords, err := members(raw, path)
	if err != nil {
		return nil, err
	}
	p := &property{}
	s := &jsonschema.Schema{}
	for _, keyword := range slices.Sorted(maps.Keys(keywords)) {
		if err := p.keyword(s, keyword, keywords[keyword], path+"."+plainName(keyword)); err != nil {
			return nil, err
		}
	}
	if s.Type == "" && s.Enum == nil && s.Const == nil {
		return nil, &Error{Name: inputSchema, Path: path, Rule: "needs a type, an enum or a const"}
	}
	if p.resolved, err = s.Resolve(nil); err != nil {
		return nil, &Error{Name: inputSchema, Path: path, Rule: "schema"}
	}
	return p, nil
}

func (p *property) keyword(s *jsonschema.Schema, keyword string, raw types.Raw, path string) error {
	var err error
	switch keyword {
	case "type":
		if err = read(raw, &s.Type, path); err != nil {
			return err
		}
		switch s.Type {
		case "string", "number", "integer", "boolean":
		default:
			return &Error{Name: inputSchema, Path: path, Rule: "neither string, number, integer nor boolean"}
		}
	case "enum":
		s.Enum, err = readEnum(raw, path)
	case "const":
		var v any
		v, err = readScalar(raw, path)
		s.Const = &v
	case "minLength":
		s.MinLength, err = readLength(raw, path)
	case "maxLength":
		s.MaxLength, err = readLength(raw, path)
	case "pattern":
		s.Pattern, err = readPattern(raw, path)
	case "minimum":
		err = read(raw, &s.Minimum, path)
	case "maximum":
		err = read(raw, &s.Maximum, path)
	case "exclusiveMinimum":
		err = read(raw, &s.ExclusiveMinimum, path)
	case "exclusiveMaximum":
		err = read(raw, &s.ExclusiveMaximum, path)
	case "multipleOf":
		var f float64
		if err = read(raw, &f, path); err == nil && f <= 0 {
			err = &Error{Name: inputSchema, Path: path, Rule: "exclusiveMinimum"}
		}
		p.multipleOf = decimal(f)
	case "x-ma2h-sensitive":
		err = read(raw, &p.sensitive, path)
	case "default":
		_, err = readScalar(raw, path)
	case "title", "description", "format", "$comment":
		var remark string
		err = read(raw, &remark, path)
	case "deprecated":
		var remark bool
		err = read(raw, &remark, path)
	case "examples":
		_, err = readEnum(raw, path)
	default:
		if !strings.HasPrefix(keyword, "x-") {
			err = &Error{Name: inputSchema, Path: path, Rule: RuleUnsupported}
		}
	}
	return err
}

// check returns the keyword that v breaks, or nothing.
func (p *property) check(v any) string {
	if err := p.resolved.Validate(v); err != nil {
		_, rule := place(err)
		return rule
	}
	if f, ok := v.(float64); ok && p.multipleOf != nil {
		if !new(big.Rat).Quo(decimal(f), p.multipleOf).IsInt() {
			return "multipleOf"
		}
	}
	return ""
}

// decimal returns the shortest decimal that reads as f, which is what was
// written. Going by the double bounds the exponent, hence the work.
func decimal(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return r
}

func readScalar(raw types.Raw, path string) (any, error) {
	if raw.IsObject() || len(raw) > 0 && raw[0] == '[' {
		return nil, &Error{Name: inputSchema, Path: path, Rule: "nests"}
	}
	var i instance
	if err := read(raw, &i, path); err != nil {
		return nil, err
	}
	return i.value, nil
}

func readEnum(raw types.Raw, path string) ([]any, error) {
	var values []types.Raw
	if err := read(raw, &values, path); err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, &Error{Name: inputSchema, Path: path, Rule: "minItems"}
	}
	out := make([]any, len(values))
	for i, v := range values {
		var err error
		if out[i], err = readScalar(v, path); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func readLength(raw types.Raw, path string) (*int, error) {
	var f float64
	if err := read(raw, &f, path); err != nil {
		return nil, err
	}
	if f < 0 || f > maxLength || f != float64(int(f)) {
		return nil, &Error{Name: inputSchema, Path: path, Rule: "not a length"}
	}
	return new(int(f)), nil
}

func readPattern(raw types.Raw, path string) (string, error) {
	var text string
	if err := read(raw, &text, path); err != nil {
		return "", err
	}
	if len(text) > maxPattern {
		return "", &Error{Name: inputSchema, Path: path, Rule: RuleSize}
	}
	// The reason would quote the pattern.
	if _, err := regexp.Compile(text); err != nil {
		return "", &Error{Name: inputSchema, Path: path, Rule: "not a regular expression"}
	}
	return text, nil
}
