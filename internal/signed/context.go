// Package signed builds the texts that are signed (§9.2, §9.7, §14.4). The
// contexts are one table, one row a context: what goes in, in which order and
// from where.
package signed

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/types"
)

// Kind is the kind of object that a context covers.
type Kind uint8

// The kinds.
const (
	Response Kind = iota + 1
	Directive
	Ack
)

// Context says what is signed for one kind of object, from one minor of the
// protocol on.
type Context struct {
	kind     Kind
	from, to int // minors, inclusive; to is 0 where none is the last
	members  []member
	digest   *digest // nil where the payload is not signed
}

// member is one member of a context.
type member struct {
	name string
	source
	of string // the body's member, where source is one
	// under is the object of the body that holds of, or "". Where that object
	// is absent or null, the member is null (§9.8 of 0.5, and of pushes alike).
	under string
}

type source uint8

const (
	body     source = iota // a string of the body
	callback               // the callback URL that is configured
	headerT                // t, as received
	headerJTI
	payload // the digest of the payload
)

// digest says what a payload digest covers: the canonical text of an object
// that is built from members of the body.
type digest struct {
	wrapper string   // the one member that holds the object, or ""
	members []string // in order
	absent  absence
}

// absence is what stands for a member that the body does not have.
type absence uint8

const (
	isNull absence = iota
	isLeftOut
)

// Inputs are what a context takes from outside the body.
type Inputs struct {
	// CallbackURL is the URL under which the agent registered its callback,
	// byte for byte. Only Responses take it.
	CallbackURL string
	// T and JTI are the header's, as received.
	T, JTI string
}

// Error says which member keeps a context from being built.
type Error struct {
	Member  string
	Problem string
}

func (e *Error) Error() string { return e.Member + " " + e.Problem }

// The problems of an Error.
const (
	ProblemAbsent    = "is absent"
	ProblemNotString = "is not a JSON string"
	ProblemNotObject = "is not a JSON object"
	ProblemEmpty     = "is empty"
	ProblemUnicode   = "is not valid UTF-8"
)

// For returns the context of a kind at the version that the body itself
// carries (§10). It reports false where that version has none.
func For(k Kind, v types.Version) (*Context, bool) {
	if v.Major != 0 {
		return nil, false
	}
	for i := range table {
		if c := &table[i]; c.kind == k && c.from <= v.Minor && (c.to == 0 || v.Minor <= c.to) {
			return c, true
		}
	}
	return nil, false
}

// ForResponse is For(Response, v).
func ForResponse(v types.Version) (*Context, bool) { return For(Response, v) }

// Version returns the body's own ma2h_version, the only one that selects a
// context.
func Version(doc canon.Doc) (types.Version, error) {
	value, ok := doc.Get("ma2h_version")
	if !ok {
		return types.Version{}, &Error{"ma2h_version", ProblemAbsent}
	}
	s, ok := canon.Text(value)
	if !ok {
		return types.Version{}, &Error{"ma2h_version", ProblemNotString}
	}
	return types.ParseVersion(s)
}

// BindsPayload reports whether the context covers the payload.
func (c *Context) BindsPayload() bool { return c.digest != nil }

// Append appends the exact text that is signed for doc. The error is an
// *Error, and dst is then returned as it was.
func (c *Context) Append(dst []byte, doc canon.Doc, in Inputs) ([]byte, error) {
	out := dst
	var err error
	for i := range c.members {
		m := &c.members[i]
		if i == 0 {
			out = append(out, '{', '"')
		} else {
			out = append(out, ',', '"')
		}
		out = append(out, m.name...)
		out = append(out, '"', ':')
		switch m.source {
		case callback:
			out, err = appendInput(out, m.name, in.CallbackURL)
		case headerT:
			out, err = appendInput(out, m.name, in.T)
		case headerJTI:
			out, err = appendInput(out, m.name, in.JTI)
		case payload:
			// The text that is digested stands where the digest goes.
			start := len(out)
			out = c.digest.append(out, doc)
			sum := sha256.Sum256(out[start:])
			out = append(out[:start], '"')
			out = hex.AppendEncode(out, sum[:])
			out = append(out, '"')
		default:
			out, err = appendBody(out, doc, m)
		}
		if err != nil {
			return dst, err
		}
	}
	return append(out, '}'), nil
}

func appendInput(dst []byte, name, s string) ([]byte, error) {
	if s == "" {
		return nil, &Error{name, ProblemEmpty}
	}
	out, err := canon.AppendString(dst, s)
	if err != nil {
		return nil, &Error{name, ProblemUnicode}
	}
	return out, nil
}

// appendBody appends a string of the body as it stands in the canonical text.
func appendBody(dst []byte, doc canon.Doc, m *member) ([]byte, error) {
	var value []byte
	var ok bool
	if m.under == "" {
		value, ok = doc.Get(m.of)
	} else {
		object, found := doc.Get(m.under)
		if !found || string(object) == "null" {
			return append(dst, "null"...), nil
		}
		if object[0] != '{' {
			return nil, &Error{m.under, ProblemNotObject}
		}
		value, ok = canon.Member(object, m.of)
	}
	switch {
	case !ok:
		return nil, &Error{m.path(), ProblemAbsent}
	case value[0] != '"':
		return nil, &Error{m.path(), ProblemNotString}
	}
	return append(dst, value...), nil
}

// path names the member of the body.
func (m *member) path() string {
	if m.under == "" {
		return m.of
	}
	return m.under + "." + m.of
}

// Digest returns the SHA-256 of the payload, recomputed from doc (§9.2). It is
// zero where the context covers no payload.
func (c *Context) Digest(doc canon.Doc) (sum [sha256.Size]byte) {
	if c.digest == nil {
		return sum
	}
	return sha256.Sum256(c.digest.append(nil, doc))
}

// append appends the canonical text that is digested.
func (d *digest) append(dst []byte, doc canon.Doc) []byte {
	dst = append(dst, '{')
	if d.wrapper != "" {
		dst = append(append(append(dst, '"'), d.wrapper...), `":{`...)
	}
	first := true
	for _, name := range d.members {
		value, ok := doc.Get(name)
		if !ok {
			if d.absent == isLeftOut {
				continue
			}
			value = null
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(append(dst, '"'), name...), `":`...)
		dst = append(dst, value...)
	}
	if d.wrapper != "" {
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

var null = []byte("null")
