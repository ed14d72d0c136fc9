package canon

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/strict"
)

// sorter brings the members of every object of a compact text into order. It
// first lists the objects that have to be written anew, then writes each byte
// once; moving members while the objects close would copy the innermost text
// once for every level around it.
type sorter struct {
	text      []byte
	formatted bool     // text was written by jsontext
	buf       []byte   // what jsontext writes to
	open      []member // members of the objects that have not closed yet
	kept      []member // members of nodes, in order
	nodes     []node   // in the order in which they open
}

// node is an object that is out of order or holds one that is.
type node struct {
	start, end  int32 // braces included
	first, past int32 // its part of kept
	next        int32 // the node that opens after this one has closed
}

// member is a span and the first node that can be within its value.
type member struct {
	span
	node int32
}

// errNotPlain is for a text that is not plain: either another spelling of the
// canonical one, or no JSON at all.
var errNotPlain = &strict.Error{Reason: strict.ReasonSyntax}

// sort fills nodes. The outermost object is always one, so that its members
// are at hand. It checks the grammar as it goes, and refuses with errNotPlain
// what it cannot vouch for, unless jsontext has.
func (s *sorter) sort() error {
	s.open, s.kept, s.nodes = s.open[:0], s.kept[:0], s.nodes[:0]
	end, err := s.value(0, 1)
	if err == nil && end != len(s.text) {
		return errNotPlain
	}
	return err
}

// at is the byte at i, or 0, which no JSON text holds, past the end.
func (s *sorter) at(i int) byte {
	if i < len(s.text) {
		return s.text[i]
	}
	return 0
}

// value walks the value at i and returns where it ends. The outermost value is
// at depth 1.
func (s *sorter) value(i, depth int) (end int, err error) {
	switch c := s.at(i); c {
	case '{':
		return s.object(i, depth)
	case '[':
		return s.array(i, depth)
	case '"':
		return s.string(i)
	default:
		if s.formatted {
			return skipValue(s.text, i), nil
		}
		if end = plainScalar(s.text, i); end == i {
			return 0, errNotPlain
		}
		return end, nil
	}
}

func (s *sorter) string(i int) (end int, err error) {
	if s.formatted {
		return skipString(s.text, i), nil
	}
	if end = strict.Special(s.text, i+1); s.at(end) != '"' {
		return 0, errNotPlain
	}
	return end + 1, nil
}

func (s *sorter) array(i, depth int) (end int, err error) {
	if depth > limits.MaxDepth {
		return 0, errNotPlain
	}
	if i++; s.at(i) == ']' {
		return i + 1, nil
	}
	for {
		if i, err = s.value(i, depth+1); err != nil {
			return 0, err
		}
		i++
		switch s.at(i - 1) {
		case ']':
			return i, nil
		case ',':
		default:
			return 0, errNotPlain
		}
	}
}

func (s *sorter) object(start, depth int) (end int, err error) {
	if depth > limits.MaxDepth {
		return 0, errNotPlain
	}
	base, slot := len(s.open), len(s.nodes)
	s.nodes = append(s.nodes, node{start: int32(start)})
	sorted := true
	i := start + 1
	for s.at(i) != '}' || i > start+1 {
		m := member{span: span{start: int32(i)}, node: int32(len(s.nodes))}
		if s.at(i) != '"' {
			return 0, errNotPlain
		}
		if i, err = s.string(i); err != nil {
			return 0, err
		}
		if s.at(i) != ':' {
			return 0, errNotPlain
		}
		m.value = int32(i + 1)
		if i, err = s.value(i+1, depth+1); err != nil {
			return 0, err
		}
		m.end = int32(i)
		at := len(s.open)
		s.open = append(s.open, m)
		// Few are put in their place as they come, many are sorted at the end.
		for ; at > base && !s.before(s.open[at-1], m); at-- {
			if sorted = false; at >= base+fewMembers {
				break
			}
			s.open[at], s.open[at-1] = s.open[at-1], m
		}
		if s.at(i) == '}' {
			break
		}
		if s.at(i) != ',' {
			return 0, errNotPlain
		}
		i++
	}
	end = i + 1
	members := s.open[base:]
	if !sorted { // as two equal names are not, either
		if len(members) > fewMembers {
			slices.SortFunc(members, func(a, b member) int {
				return compareNames(a.name(s.text), b.name(s.text))
			})
		}
		for j := 1; j < len(members); j++ {
			if bytes.Equal(members[j-1].name(s.text), members[j].name(s.text)) {
				return 0, s.duplicate(base, members[j])
			}
		}
	}
	if sorted && depth > 1 && len(s.nodes) == slot+1 {
		s.nodes = s.nodes[:slot]
	} else {
		first := len(s.kept)
		s.kept = append(s.kept, members...)
		s.nodes[slot] = node{
			start: int32(start), end: int32(end),
			first: int32(first), past: int32(len(s.kept)),
			next: int32(len(s.nodes)),
		}
	}
	s.open = s.open[:base]
	return end, nil
}

func (s *sorter) before(a, b member) bool {
	return compareNames(a.name(s.text), b.name(s.text)) < 0
}

func (s *sorter) duplicate(base int, m member) error {
	err := &strict.Error{Reason: strict.ReasonDuplicate}
	if base == 0 {
		err.Member = strict.WireName(string(m.name(s.text)))
	}
	return err
}

// doc writes the outermost object and notes where its members are.
func (s *sorter) doc() Doc {
	root := s.nodes[0]
	d := Doc{
		text:    make([]byte, 0, len(s.text)),
		members: make([]span, 0, root.past-root.first),
	}
	d.text = append(d.text, '{')
	for i, m := range s.kept[root.first:root.past] {
		if i > 0 {
			d.text = append(d.text, ',')
		}
		at := int32(len(d.text))
		d.text = s.appendRange(d.text, m.start, m.end, m.node)
		d.members = append(d.members, span{at, at + m.value - m.start, int32(len(d.text))})
	}
	d.text = append(d.text, '}')
	return d
}

// appendRange appends text[from:to] in order. The first node that can be in it
// is k.
func (s *sorter) appendRange(dst []byte, from, to, k int32) []byte {
	for int(k) < len(s.nodes) && s.nodes[k].start < to {
		n := s.nodes[k]
		dst = append(dst, s.text[from:n.start]...)
		dst = append(dst, '{')
		for i, m := range s.kept[n.first:n.past] {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = s.appendRange(dst, m.start, m.end, m.node)
		}
		dst = append(dst, '}')
		from, k = n.end, n.next
	}
	return append(dst, s.text[from:to]...)
}

// skipString returns the index after the JSON string that begins at i.
func skipString(text []byte, i int) int { return strict.StringEnd(text, i+1) + 1 }

// skipValue returns the index after the JSON value that begins at i.
func skipValue(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			i = skipString(text, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
			if depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// compareNames orders the insides of two canonical strings by the UTF-16 code
// units they stand for (RFC 8785, 3.2.3).
func compareNames(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y && x != '\\' && x < utf8.RuneSelf {
			continue
		}
		if x == '\\' || y == '\\' || x >= utf8.RuneSelf || y >= utf8.RuneSelf {
			return compareUnits(a[i:], b[i:])
		}
		return int(x) - int(y)
	}
	return len(a) - len(b)
}

func compareUnits(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		x, n := nextRune(a)
		y, m := nextRune(b)
		if x != y {
			return leadUnit(x, y) - leadUnit(y, x)
		}
		a, b = a[n:], b[m:]
	}
	return len(a) - len(b)
}

// leadUnit returns the first code unit of r, or r itself where the other has
// the same one, so that the pair orders as its second units do.
func leadUnit(r, other rune) int {
	lead := func(r rune) rune {
		if r > 0xffff {
			return 0xd800 + (r-0x10000)>>10
		}
		return r
	}
	if lead(r) == lead(other) {
		return int(r)
	}
	return int(lead(r))
}

// nextRune reads one character, escaped or not, and its length.
func nextRune(s []byte) (rune, int) {
	if s[0] != '\\' {
		return utf8.DecodeRune(s)
	}
	switch s[1] {
	case 'b':
		return '\b', 2
	case 't':
		return '\t', 2
	case 'n':
		return '\n', 2
	case 'f':
		return '\f', 2
	case 'r':
		return '\r', 2
	case 'u':
		return hex(s[4])<<4 | hex(s[5]), 6
	}
	return rune(s[1]), 2
}

// hex reads a digit of the only \u escapes in canonical text, \u0000 to
// \u001f in lower case.
func hex(c byte) rune {
	if c >= 'a' {
		return rune(c-'a') + 10
	}
	return rune(c - '0')
}
