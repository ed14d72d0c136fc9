// Package strict is the one door for JSON text from outside: it bounds the
// text before anything parses it, and decodes by exact member name.
package strict

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/ma2h/ma2h-go/internal/limits"
)

// Error says why a text was refused. It never holds text of the document but
// for a wire member name.
type Error struct {
	Offset int64  // byte offset, where known
	Member string // top-level member, where it is a plain wire name
	Reason string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Reason)
	if e.Member != "" {
		fmt.Fprintf(&b, " in %q", e.Member)
	}
	if e.Offset > 0 {
		fmt.Fprintf(&b, " at byte %d", e.Offset)
	}
	return b.String()
}

// The reasons that are the same for every text.
const (
	ReasonSyntax    = "not valid JSON"
	ReasonUnicode   = "text that is not valid Unicode"
	ReasonDuplicate = "duplicate member name"
	ReasonRange     = "number outside the finite doubles"
)

// The reasons that name a bound.
var (
	ReasonDepth  = "nested deeper than " + strconv.Itoa(limits.MaxDepth) + " levels"
	ReasonTiny   = "more than " + strconv.Itoa(limits.MaxTinyNumbers) + " numbers next to zero"
	ReasonNumber = "number longer than " + strconv.Itoa(limits.MaxNumberLen) + " bytes"
)

// Scan refuses a text whose nesting or numbers are out of bounds, in one pass
// and without allocating. It does not check the grammar: a parser that runs
// after it does.
func Scan(text []byte) error {
	depth, tiny := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			i = StringEnd(text, i+1)
		case c == '{' || c == '[':
			if depth++; depth > limits.MaxDepth {
				return &Error{Offset: int64(i), Reason: ReasonDepth}
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || '0' <= c && c <= '9':
			start := i
			exponent := false
			for i+1 < len(text) && isNumberByte(text[i+1]) {
				i++
				exponent = exponent || text[i] == 'e' || text[i] == 'E'
			}
			if err := checkNumber(text[start:i+1], exponent, &tiny); err != nil {
				err.Offset = int64(start)
				return err
			}
		}
	}
	return nil
}

// StringEnd returns the index of the quote that closes a string whose inside
// begins at i, or at least len(text) if there is none.
func StringEnd(text []byte, i int) int {
	for {
		i = Special(text, i)
		if i >= len(text) || text[i] == '"' {
			return i
		}
		if text[i] == '\\' {
			i++
		}
		i++
	}
}

// Special returns the index of the first quote, backslash or control character
// from i on, or at least len(text) if there is none.
func Special(text []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		quote := w ^ ones*'"'
		slash := w ^ ones*'\\'
		// The lowest high bit that is set marks the first of them; above it a
		// borrow may mark others.
		if found := ((w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(text); i++ {
		if c := text[i]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return i
}

func isNumberByte(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// checkNumber refuses what is not a finite double. Canonicalisers differ
// there: one refuses 1e400, another clamps it, so a digest would not say which
// value was signed.
//
// tiny counts the numbers next to zero, whose reading takes hundreds of times
// as long as that of others: a text of nothing else would be a way to keep a
// processor busy before any signature is looked at.
func checkNumber(lit []byte, exponent bool, tiny *int) *Error {
	if len(lit) > limits.MaxNumberLen {
		return &Error{Reason: ReasonNumber}
	}
	if !exponent && len(lit) <= 308 {
		return nil
	}
	v, err := strconv.ParseFloat(string(lit), 64)
	if errors.Is(err, strconv.ErrRange) {
		return &Error{Reason: ReasonRange}
	}
	if math.Abs(v) < 0x1p-1021 && bytes.ContainsAny(mantissa(lit), "123456789") {
		if *tiny++; *tiny > limits.MaxTinyNumbers {
			return &Error{Reason: ReasonTiny}
		}
	}
	return nil
}

// mantissa is what stands before the exponent.
func mantissa(lit []byte) []byte {
	if i := bytes.IndexAny(lit, "eE"); i >= 0 {
		return lit[:i]
	}
	return lit
}

// nullable is implemented by types that take JSON null as a value, by their
// pointer where null stands for an absent object.
type nullable interface{ AcceptsNull() }

var nullableType = reflect.TypeFor[nullable]()

// noNull refuses null where the schema has no null: the JSON package would
// read it as the zero value.
var noNull = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v any) error {
	if dec.PeekKind() == 'n' {
		if _, ok := v.(nullable); !ok && !reflect.TypeOf(v).Elem().Implements(nullableType) {
			return errNull
		}
	}
	return errors.ErrUnsupported
}))

var null = []byte("null")

var errNull = errors.New("null where a value is required")

// Decode reads one JSON value into v: bounded, valid UTF-8, no duplicate
// names, exact-case names, no null for a typed member, nothing after the
// value. Unknown members are ignored (§10).
func Decode(text []byte, v any) error {
	if err := Scan(text); err != nil {
		return err
	}
	var err error
	if bytes.Contains(text, null) {
		err = json.Unmarshal(text, v, noNull)
	} else {
		// Most texts have none, and looking for it costs an allocation a value.
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return Reword(err)
	}
	return nil
}

// Reword returns the error of a JSON parser as an *Error, or as the error that
// a wire type brought with it. It keeps the place and drops the text that is
// quoted.
func Reword(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	out := &Error{Reason: ReasonSyntax}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		out.Offset = e.ByteOffset
		out.Member = wireName(e.JSONPointer)
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			out.Reason = ReasonDuplicate
		case strings.Contains(e.Err.Error(), "UTF-8"), strings.Contains(e.Err.Error(), "surrogate"):
			out.Reason = ReasonUnicode
		}
		return out
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		out.Offset = e.ByteOffset
		out.Member = wireName(e.JSONPointer)
		switch {
		case errors.Is(err, errNull):
			out.Reason = errNull.Error()
		case e.JSONKind != 0:
			out.Reason = "unexpected " + kindName(e.JSONKind)
		default:
			out.Reason = "unexpected value"
		}
		if w, ok := e.Err.(interface{ Wire() error }); ok {
			return w.Wire()
		}
	}
	return out
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '0':
		return "number"
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return "value"
}

func wireName(p jsontext.Pointer) string {
	for tok := range p.Tokens() {
		return WireName(tok)
	}
	return ""
}

// WireName returns name if it looks like a name of the protocol and "" if not,
// so that no text of a person gets into an error.
func WireName(name string) string {
	if len(name) > limits.MaxQuoted {
		return ""
	}
	for _, c := range []byte(name) {
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return ""
		}
	}
	return name
}
