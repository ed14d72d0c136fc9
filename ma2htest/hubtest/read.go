package hubtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// object is a JSON object, read or about to be sent.
type object map[string]any

// maxDepth is how deep an answer of a Hub may be nested.
const maxDepth = 100

// read parses one JSON text. Objects become object, arrays []any and numbers
// json.Number. Names are as they are written, and no object may have one twice:
// what is signed must mean one thing.
func read(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	v, err := readValue(dec, maxDepth)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON text")
	}
	return v, nil
}

func readObject(text []byte) (object, error) {
	v, err := read(text)
	if err != nil {
		return nil, err
	}
	o, ok := v.(object)
	if !ok {
		return nil, fmt.Errorf("a JSON %s, not an object", kind(v))
	}
	return o, nil
}

func readValue(dec *json.Decoder, depth int) (any, error) {
	if depth == 0 {
		return nil, errors.New("nested too deep")
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		o := object{}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			n := name.(string) // the decoder takes no other token for a name
			if _, twice := o[n]; twice {
				return nil, fmt.Errorf("the member %q is there twice", n)
			}
			if o[n], err = readValue(dec, depth-1); err != nil {
				return nil, err
			}
		}
		_, err = dec.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := readValue(dec, depth-1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	}
	return token, nil
}

// kind names the JSON type of what read returned.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// at follows names into nested objects; what is not there is nil.
func (o object) at(names ...string) any {
	var v any = o
	for _, n := range names {
		inner, ok := v.(object)
		if !ok {
			return nil
		}
		v = inner[n]
	}
	return v
}

// str is the string at names, or "".
func (o object) str(names ...string) string {
	s, _ := o.at(names...).(string)
	return s
}

// obj is the object at names, or nil.
func (o object) obj(names ...string) object {
	inner, _ := o.at(names...).(object)
	return inner
}

// flag is the boolean at names, or false.
func (o object) flag(names ...string) bool {
	b, _ := o.at(names...).(bool)
	return b
}

// whole is the integer at names; ok is false if there is none.
func (o object) whole(names ...string) (n int64, ok bool) {
	number, ok := o.at(names...).(json.Number)
	if !ok {
		return 0, false
	}
	n, err := number.Int64()
	return n, err == nil
}

// canonical is the form of RFC 8785 of what read returned, or of what is built
// from object, []any, string, bool, nil, json.Number and int.
func canonical(v any) ([]byte, error) { return appendCanonical(nil, v) }

func appendCanonical(b []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendString(b, v), nil
	case int:
		return appendNumber(b, strconv.Itoa(v))
	case json.Number:
		return appendNumber(b, v.String())
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendCanonical(b, e); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case object:
		names := make([]string, 0, len(v))
		for n := range v {
			names = append(names, n)
		}
		slices.SortFunc(names, func(a, c string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(c)))
		})
		b = append(b, '{')
		for i, n := range names {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, n), ':')
			if b, err = appendCanonical(b, v[n]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return nil, fmt.Errorf("a %T has no canonical form", v)
}

// appendString escapes what RFC 8785 §3.2.2.2 says and nothing else.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch short := "\b\t\n\f\r"; {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20:
			if i := slices.Index([]byte(short), byte(r)); i >= 0 {
				b = append(b, '\\', "btnfr"[i])
			} else {
				b = fmt.Appendf(b, `\u%04x`, r)
			}
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// appendNumber writes a number as ECMAScript does (RFC 8785 §3.2.2.3): the
// shortest digits of the double, in full from 1e-6 to below 1e21.
func appendNumber(b []byte, text string) ([]byte, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %s is no finite double", shorten(text, 40))
	}
	switch a := math.Abs(f); {
	case f == 0:
		return append(b, '0'), nil // no minus
	case a >= 1e-6 && a < 1e21:
		return strconv.AppendFloat(b, f, 'f', -1, 64), nil
	}
	// Go writes an exponent with two digits at least.
	digits := strconv.AppendFloat(nil, f, 'e', -1, 64)
	e := bytes.IndexByte(digits, 'e')
	b = append(b, digits[:e+2]...) // with the sign
	return append(b, bytes.TrimLeft(digits[e+2:], "0")...), nil
}

// same reports whether two values are the same JSON.
func same(a, b any) bool {
	x, errA := canonical(a)
	y, errB := canonical(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

// show is v for a failure text.
func show(v any) string {
	b, err := canonical(v)
	if err != nil {
		return err.Error()
	}
	return shorten(string(b), 400)
}

// shorten cuts a long text between two characters.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + fmt.Sprintf("... (%d bytes)", len(s))
}
