package chaosproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Respell writes a JSON text in another spelling of the same document: members
// in another order, other white space, characters as escapes, and numbers as
// other literals of the same double, which RFC 8785 takes for equal. It also
// returns what it changed. A text that is no JSON comes back as it is.
func Respell(r *rand.Rand, text []byte) ([]byte, []Fault) {
	s := &speller{rand: r, dec: json.NewDecoder(bytes.NewReader(text)), did: map[Fault]bool{}}
	s.dec.UseNumber()
	out := s.value()
	if _, err := s.dec.Token(); s.failed || err != io.EOF {
		return text, nil
	}
	var did []Fault
	for f := range s.did {
		did = append(did, f)
	}
	slices.Sort(did)
	return out, did
}

type speller struct {
	rand   *rand.Rand
	dec    *json.Decoder
	did    map[Fault]bool
	failed bool
}

func (s *speller) one(in int) bool { return s.rand.IntN(in) == 0 }

func (s *speller) value() []byte {
	tok, err := s.dec.Token()
	if err != nil {
		s.failed = true
		return nil
	}
	switch v := tok.(type) {
	case json.Delim:
		return s.compound(v)
	case string:
		return s.text(v)
	case json.Number:
		return s.number(v.String())
	case bool:
		return strconv.AppendBool(nil, v)
	}
	return []byte("null")
}

// compound writes an object or an array, whose first delimiter is read.
func (s *speller) compound(open json.Delim) []byte {
	var items [][]byte
	for s.dec.More() && !s.failed {
		var item []byte
		if open == '{' {
			item = slices.Concat(s.value(), s.space(), []byte(":"), s.space())
		}
		items = append(items, append(item, s.value()...))
	}
	if _, err := s.dec.Token(); err != nil {
		s.failed = true
	}
	if open == '{' && len(items) > 1 {
		s.did[Reordered] = true
		first := items[0]
		s.rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		if len(items) == 2 && &items[0][0] == &first[0] {
			slices.Reverse(items)
		}
	}
	out := []byte{byte(open)}
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = slices.Concat(out, s.space(), item, s.space())
	}
	return append(out, byte(open)+2) // in ASCII "}" and "]" follow at that distance
}

func (s *speller) space() []byte {
	if !s.one(3) {
		return nil
	}
	s.did[Respaced] = true
	return []byte([]string{" ", "\t", "\n", "\r\n", "    "}[s.rand.IntN(5)])
}

func (s *speller) text(v string) []byte {
	out := []byte{'"'}
	unit := func(u uint16) {
		format := []string{`\u%04x`, `\u%04X`}[s.rand.IntN(2)]
		out = fmt.Appendf(out, format, u)
	}
	for _, c := range v {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', byte(c))
		case c < ' ':
			unit(uint16(c))
		case s.one(8):
			s.did[Escaped] = true
			for _, u := range utf16.Encode([]rune{c}) {
				unit(u)
			}
		case c == '/' && s.one(2):
			out = append(out, `\/`...)
		default:
			out = append(out, string(c)...)
		}
	}
	return append(out, '"')
}

// number picks among literals of the same double.
func (s *speller) number(lit string) []byte {
	f, err := strconv.ParseFloat(lit, 64)
	if err != nil {
		return []byte(lit)
	}
	plain, exponent := strconv.FormatFloat(f, 'f', -1, 64), strconv.FormatFloat(f, 'e', -1, 64)
	all := []string{lit, exponent, strings.ToUpper(exponent), lit + "e0"}
	if len(plain) < 100 {
		all = append(all, plain)
		if strings.Contains(plain, ".") {
			// Digits past those that a double carries.
			all = append(all, plain+"00", plain+strings.Repeat("0", 20)+"1")
		} else {
			all = append(all, plain+".0", plain+".000E+00")
		}
	}
	if f == 0 {
		all = append(all, "-0", "0.0", "-0e7")
	}
	other := all[s.rand.IntN(len(all))]
	if got, err := strconv.ParseFloat(other, 64); err != nil || got != f || !json.Valid([]byte(other)) || other == lit {
		return []byte(lit)
	}
	s.did[Renumbered] = true
	return []byte(other)
}
