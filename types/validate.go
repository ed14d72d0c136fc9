package types

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ma2h/ma2h-go/internal/limits"
)

const maxQuoted = limits.MaxQuoted

// FieldError names a field that breaks a rule, the rule and its section. It
// holds no content of the message.
type FieldError struct {
	Field   string // JSON path, such as "request.options[2].value"
	Problem string // such as "is 201 characters, over 200"
	Section string // such as "§4"
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("ma2h: %s %s (%s)", e.Field, e.Problem, e.Section)
}

// Wire lets the strict decoder pass a FieldError on unchanged.
func (e *FieldError) Wire() error { return e }

// ErrVersion is under a FieldError on ma2h_version whose major is not 0 (§10).
var ErrVersion = errors.New("ma2h: unsupported protocol version")

type versionError struct{ FieldError }

func (e *versionError) Unwrap() []error { return []error{&e.FieldError, ErrVersion} }

// checker collects the first violation under a path.
type checker struct{ err error }

func (c *checker) fail(section, field, format string, args ...any) {
	if c.err == nil {
		c.err = &FieldError{Field: field, Problem: fmt.Sprintf(format, args...), Section: section}
	}
}

func (c *checker) require(section, field, v string) {
	if v == "" {
		c.fail(section, field, "is required")
	}
}

func (c *checker) id(section, field, v string) {
	c.require(section, field, v)
	if len(v) > limits.MaxIDLen {
		c.fail(section, field, "is %d bytes, over %d", len(v), limits.MaxIDLen)
	}
}

func (c *checker) timestamp(section, field, v string) {
	c.require(section, field, v)
	if !ValidTimestamp(v) {
		c.fail(section, field, "is not an RFC 3339 date-time")
	}
}

func (c *checker) uri(section, field, v string) {
	c.require(section, field, v)
	if !ValidURI(v) {
		c.fail(section, field, "is not an absolute URI")
	}
}

func (c *checker) principal(section, field, v string) {
	if !ValidPrincipal(v) {
		c.fail(section, field, "is not human:, agent: or system: and an id")
	}
}

// given is the value of an optional member for which the zero value stands for
// an absent one; written out, the zero value breaks the member's rule.
func given[T comparable](c *checker, section, field string, p *T) (v T) {
	if p == nil {
		return v
	}
	if *p == v {
		c.fail(section, field, "is there with an empty value")
	}
	return *p
}

// maxInteger is the largest integer that every JSON reader takes exactly.
const maxInteger = 1<<53 - 1

func (c *checker) count(section, field string, n int64) {
	if n < 0 || n > maxInteger {
		c.fail(section, field, "is %d, not in 0 to 2^53-1", n)
	}
}

func (c *checker) object(section, field string, r Raw) {
	if !r.IsObject() {
		c.fail(section, field, "is not a JSON object")
	}
}

func (c *checker) title(section, v string) {
	c.require(section, "title", v)
	if n := utf8.RuneCountInString(v); n > limits.MaxTitleRunes {
		c.fail(section, "title", "is %d characters, over %d", n, limits.MaxTitleRunes)
	}
}

func (c *checker) priority(section string, p Priority) {
	if p != "" && !p.Known() {
		c.fail(section, "priority", "is %s, not low, normal, high or urgent", Quote(string(p)))
	}
}

func (c *checker) version(v string, least int) {
	if c.err != nil {
		return
	}
	ver, err := ParseVersion(v)
	if err != nil {
		c.err = err
		return
	}
	if ver.Minor < least {
		c.fail("§10", "ma2h_version", "is %s, below 0.%d, the first minor with this type", Quote(v), least)
	}
}

// under adds a nested value's violation, its path under prefix.
func (c *checker) under(prefix string, err error) {
	if c.err != nil || err == nil {
		return
	}
	if fe, ok := errors.AsType[*FieldError](err); ok && !errors.Is(err, ErrVersion) {
		nested := *fe
		nested.Field = prefix + "." + fe.Field
		c.err = &nested
		return
	}
	c.err = err
}

func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// ValidTimestamp reports whether s is an RFC 3339 date-time as this library
// takes it: upper-case T and Z, up to nine fraction digits, a day that the
// month has, no leap second.
func ValidTimestamp(s string) bool {
	// By hand, because every verified Response has one.
	if len(s) < len("2006-01-02T15:04:05Z") || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return false
	}
	year, month, day := number(s[0:4]), number(s[5:7]), number(s[8:10])
	if year < 0 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || !clockTime(s[11:13], s[14:16]) || !within(s[17:19], 59) {
		return false
	}
	rest := s[19:]
	if rest[0] == '.' {
		n := 1
		for n < len(rest) && '0' <= rest[n] && rest[n] <= '9' {
			n++
		}
		if n < 2 || n > 10 {
			return false
		}
		rest = rest[n:]
	}
	if rest == "Z" {
		return true
	}
	return len(rest) == len("+00:00") && (rest[0] == '+' || rest[0] == '-') && rest[3] == ':' && clockTime(rest[1:3], rest[4:6])
}

func clockTime(hour, minute string) bool { return within(hour, 23) && within(minute, 59) }

func within(digits string, most int) bool {
	n := number(digits)
	return n >= 0 && n <= most
}

// number reads ASCII digits, -1 where there is something else.
func number(digits string) int {
	n := 0
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return -1
		}
		n = 10*n + int(c-'0')
	}
	return n
}

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// ValidURI reports whether s is an absolute URI of printable ASCII.
func ValidURI(s string) bool {
	if s == "" || len(s) > 8192 {
		return false
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	u, err := url.Parse(s)
	return err == nil && u.IsAbs()
}

// ValidPrincipal reports whether s is <type>:<id> with the types human, agent
// and system (§9.1).
func ValidPrincipal(s string) bool {
	kind, id, ok := strings.Cut(s, ":")
	return ok && id != "" && !strings.ContainsAny(id, "\n\r\u2028\u2029") &&
		(kind == "human" || kind == "agent" || kind == "system")
}
