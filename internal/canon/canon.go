// Package canon gives the RFC 8785 form of a signed body (§9.2): one strict
// parse, whose bytes are what is digested and what the caller is shown.
//
// Grammar, Unicode, the form of strings and the form of numbers are those of
// jsontext. The order of members is settled here, in one pass over the text
// that jsontext wrote, because that pass also finds the duplicates and the
// top-level members; jsontext alone walks the text once more and keeps a map of
// names for every large object.
package canon

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/strict"
)

// ReasonNotObject is the reason for a signed body that is not a JSON object.
const ReasonNotObject = "not a JSON object"

// ReasonLength is the reason for a text past limits.MaxCanonical.
var ReasonLength = "longer than " + strconv.Itoa(limits.MaxCanonical) + " bytes"

// Scratch space past these sizes is not kept for the next text.
const (
	maxPooledText    = 1 << 20
	maxPooledMembers = 1 << 14
)

// Doc is the canonical form of one JSON object. It does not alias the text it
// came from. The zero Doc has no members.
type Doc struct {
	text    []byte
	members []span
}

// span is one member of an object: its quoted name from start, its value from
// value to end.
type span struct{ start, value, end int32 }

func (m span) name(text []byte) []byte { return text[m.start+1 : m.value-2] }

// fewMembers is how many members are searched one by one, which is the faster
// way for every body that a Hub sends.
const fewMembers = 16

// Parse reads a JSON object strictly: valid UTF-8 and surrogates, no duplicate
// name at any depth, bounded length, depth and numbers (see strict.Scan),
// nothing after the object. The error is a *strict.Error.
func Parse(text []byte) (Doc, error) {
	s := pool.Get().(*sorter)
	defer s.release()
	if err := s.read(text); err != nil {
		return Doc{}, err
	}
	if s.text[0] != '{' {
		return Doc{}, &strict.Error{Reason: ReasonNotObject}
	}
	return s.doc(), nil
}

// Canonicalize returns the canonical form of any JSON value, under the same
// rules as Parse.
func Canonicalize(text []byte) ([]byte, error) {
	s := pool.Get().(*sorter)
	defer s.release()
	if err := s.read(text); err != nil {
		return nil, err
	}
	return s.appendRange(make([]byte, 0, len(s.text)), 0, int32(len(s.text)), 0), nil
}

// Bytes returns the canonical text. It must not be changed.
func (d Doc) Bytes() []byte { return d.text }

// Get returns the canonical bytes of a top-level member, a part of Bytes. The
// name is compared exactly.
func (d Doc) Get(name string) (value []byte, ok bool) {
	if len(d.members) > fewMembers {
		i, ok := slices.BinarySearchFunc(d.members, []byte(name), func(m span, name []byte) int {
			return compareNames(m.name(d.text), name)
		})
		if !ok {
			return nil, false
		}
		return d.value(d.members[i]), true
	}
	for _, m := range d.members {
		if string(m.name(d.text)) == name {
			return d.value(m), true
		}
	}
	return nil, false
}

// Each hands the members to f, as the function Each does for their text.
func (d Doc) Each(f func(name, value []byte)) {
	for _, m := range d.members {
		f(m.name(d.text), d.value(m))
	}
}

func (d Doc) value(m span) []byte { return d.text[m.value:m.end:m.end] }

// Member returns the canonical bytes of a member of a canonical object, a part
// of that object. It finds nothing in a value that is not an object.
func Member(object []byte, name string) (value []byte, ok bool) {
	if len(object) == 0 || object[0] != '{' {
		return nil, false
	}
	for i := 1; object[i] == '"'; i++ {
		nameEnd := skipString(object, i)
		end := skipValue(object, nameEnd+1)
		if string(object[i+1:nameEnd-1]) == name {
			return object[nameEnd+1 : end : end], true
		}
		if i = end; object[i] != ',' {
			break
		}
	}
	return nil, false
}

// Each hands the members of a canonical object to f, in order: the inside of
// the quoted name, and the value. Both are parts of the object. It hands out
// nothing of a value that is not an object.
func Each(object []byte, f func(name, value []byte)) {
	if len(object) == 0 || object[0] != '{' {
		return
	}
	for i := 1; object[i] == '"'; i++ {
		nameEnd := skipString(object, i)
		end := skipValue(object, nameEnd+1)
		f(object[i+1:nameEnd-1], object[nameEnd+1:end:end])
		if i = end; object[i] != ',' {
			break
		}
	}
}

// Text returns the string that a canonical JSON string stands for. It reports
// false for a value that is not a string.
func Text(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	var b strings.Builder
	WriteText(&b, value)
	return b.String(), true
}

// WriteText writes what a canonical JSON string stands for.
func WriteText(b *strings.Builder, value []byte) {
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') >= 0 {
		// It is canonical, and so can be read.
		inner, _ = jsontext.AppendUnquote(nil, value)
	}
	b.Write(inner)
}

// AppendString appends the canonical form of a string. The error is a
// *strict.Error when s is not valid UTF-8, and dst is returned as it was.
func AppendString(dst []byte, s string) ([]byte, error) {
	for _, c := range []byte(s) {
		if c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			out, err := jsontext.AppendQuote(dst, s)
			if err != nil {
				return dst, &strict.Error{Reason: strict.ReasonUnicode}
			}
			return out, nil
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"'), nil
}

var pool = sync.Pool{New: func() any { return new(sorter) }}

// format are the rules of RFC 8785 but for the order of members and for
// duplicate names, which the sorter settles.
var format = []jsontext.Options{
	jsontext.CanonicalizeRawInts(true),
	jsontext.CanonicalizeRawFloats(true),
	jsontext.AllowDuplicateNames(true),
}

// read fills s. A plain text, as most are, it reads where it is; any other,
// and every refusal but that of a duplicate name, is left to jsontext.
func (s *sorter) read(text []byte) error {
	if len(text) > limits.MaxCanonical {
		return &strict.Error{Reason: ReasonLength}
	}
	s.text, s.formatted = text, false
	if utf8.Valid(text) {
		if err := s.sort(); err != errNotPlain {
			return err
		}
	}
	if err := strict.Scan(text); err != nil {
		return err
	}
	var err error
	if s.buf, err = jsontext.AppendFormat(s.buf[:0], text, format...); err != nil {
		return strict.Reword(err)
	}
	s.text, s.formatted = s.buf, true
	return s.sort()
}

func (s *sorter) release() {
	s.text = nil // which may be the caller's
	if cap(s.buf) <= maxPooledText && cap(s.open)+cap(s.kept)+cap(s.nodes) <= maxPooledMembers {
		pool.Put(s)
	}
}
