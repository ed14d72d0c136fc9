// Package header reads and writes the MA2H-Signature header (§9.2):
//
//	t=<unix seconds>,jti=<nonce>,v1=<base64url>[,v1=<base64url>...]
//
// Items are split on commas and each on its first "=". Blanks (space, tab)
// around an item are dropped; within one they are refused. t and jti stand
// once, v1 once to limits.MaxV1 times, for the overlap of two keys: the header
// is good if any of them verifies, and refused if any is ill-formed. Names are
// exact. Items of other names are ignored, but must have a name of letters,
// digits, "_" or "-" and a value of visible ASCII, possibly empty: whatever cuts
// or mangles a header is then not taken for an extension.
package header

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/ma2h/ma2h-go/internal/limits"
)

// Name is the header's name. net/http keeps it under "Ma2h-Signature".
const Name = "MA2H-Signature"

// Prefix is what an inbox entry writes before the value (§8.7).
const Prefix = Name + ": "

// MinV1 is the shortest signature, in bytes: an HMAC-SHA-256.
const MinV1 = 32

// Signature is a well-formed header, of which nothing is verified yet.
type Signature struct {
	T    string   // as received: it enters the signed context byte for byte
	Unix int64    // T as seconds
	JTI  string   // 1 to limits.MaxJTI visible ASCII characters
	V1   [][]byte // decoded, each at least MinV1 bytes, in the order of the header
}

// Rule is a rule of the grammar that a header broke.
type Rule string

// The rules, as an Error words them.
const (
	RuleAbsent   Rule = "is absent"
	RuleOneLine  Rule = "is there more than once"
	RuleLength   Rule = "is longer than the bound"
	RuleItem     Rule = "has an item that is not name=value in visible ASCII without blanks"
	RuleNoT      Rule = "has no t"
	RuleTwoT     Rule = "has more than one t"
	RuleT        Rule = "has a t that is not 1 to 12 digits without a leading zero"
	RuleNoJTI    Rule = "has no jti"
	RuleTwoJTI   Rule = "has more than one jti"
	RuleJTI      Rule = "has a jti that is empty or longer than the bound"
	RuleNoV1     Rule = "has no v1"
	RuleManyV1   Rule = "has more v1 than the bound"
	RuleEncoding Rule = "has a v1 that is not base64url"
	RuleShort    Rule = "has a v1 shorter than 32 bytes"
)

// Error says which rule a header broke and nothing of what it holds.
type Error struct{ Rule Rule }

func (e *Error) Error() string { return Name + " " + string(e.Rule) + " (§9.2)" }

func broken(r Rule) (Signature, error) { return Signature{}, &Error{r} }

// FromHTTP reads the one MA2H-Signature line of h, under any case of its name.
func FromHTTP(h http.Header) (Signature, error) {
	value, lines := "", 0
	for name, values := range h {
		if len(name) == len(Name) && strings.EqualFold(name, Name) && len(values) > 0 {
			value = values[0]
			lines += len(values)
		}
	}
	switch lines {
	case 0:
		return broken(RuleAbsent)
	case 1:
		return Parse(value)
	}
	return broken(RuleOneLine)
}

// Parse reads a header value, with or without the header's name and a colon
// before it, in any case (§8.7). The error is an *Error.
func Parse(value string) (Signature, error) {
	if len(value) > limits.MaxHeader {
		return broken(RuleLength)
	}
	rest := trim(value)
	if len(rest) > len(Name) && rest[len(Name)] == ':' && strings.EqualFold(rest[:len(Name)], Name) {
		rest = trim(rest[len(Name)+1:])
	}
	if rest == "" {
		return broken(RuleAbsent)
	}

	var s Signature
	var hasT, hasJTI bool
	for more := true; more; {
		var item string
		item, rest, more = strings.Cut(rest, ",")
		name, v, ok := strings.Cut(trim(item), "=")
		if !ok || name == "" || !isToken(name) || !isVisible(v) {
			return broken(RuleItem)
		}
		switch name {
		case "t":
			if hasT {
				return broken(RuleTwoT)
			}
			if hasT = true; !isTime(v) {
				return broken(RuleT)
			}
			s.T = v
			s.Unix, _ = strconv.ParseInt(v, 10, 64)
		case "jti":
			if hasJTI {
				return broken(RuleTwoJTI)
			}
			if hasJTI = true; v == "" || len(v) > limits.MaxJTI {
				return broken(RuleJTI)
			}
			s.JTI = v
		case "v1":
			if len(s.V1) == limits.MaxV1 {
				return broken(RuleManyV1)
			}
			mac, rule := decode(v)
			if rule != "" {
				return broken(rule)
			}
			s.V1 = append(s.V1, mac)
		}
	}
	switch {
	case !hasT:
		return broken(RuleNoT)
	case !hasJTI:
		return broken(RuleNoJTI)
	case len(s.V1) == 0:
		return broken(RuleNoV1)
	}
	return s, nil
}

// Format writes a header value, v1 unpadded. What Parse accepts comes back from
// it the same.
func Format(t int64, jti string, v1 ...[]byte) string {
	b := append([]byte("t="), strconv.FormatInt(t, 10)...)
	b = append(b, ",jti="...)
	b = append(b, jti...)
	for _, mac := range v1 {
		b = append(b, ",v1="...)
		b = base64.RawURLEncoding.AppendEncode(b, mac)
	}
	return string(b)
}

// decode reads a v1 of visible ASCII; the line ends that the standard decoder
// skips are gone by then. Padding is optional; where it stands it must be what
// the length takes. Trailing bits that encode nothing are not looked at: §9.2
// of 0.5 forbids to demand a round trip.
func decode(v string) ([]byte, Rule) {
	body := strings.TrimRight(v, "=")
	if padding := len(v) - len(body); padding != 0 && padding != (4-len(body)%4)%4 {
		return nil, RuleEncoding
	}
	mac, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return nil, RuleEncoding
	}
	if len(mac) < MinV1 {
		return nil, RuleShort
	}
	return mac, ""
}

func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// token holds the characters of a name.
var token = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		set[c] = true
	}
	return set
}()

func isToken(s string) bool {
	for i := range len(s) {
		if !token[s[i]] {
			return false
		}
	}
	return true
}

func isVisible(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// isTime allows a lone zero: it is a number, and the window refuses it.
func isTime(s string) bool {
	if s == "" || len(s) > limits.MaxTDigits || len(s) > 1 && s[0] == '0' {
		return false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
