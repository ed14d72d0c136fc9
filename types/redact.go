package types

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
)

// summary is what a type prints of itself: never text of a person, a
// credential or state.
type summary string

func (s summary) write(f fmt.State) { _, _ = io.WriteString(f, string(s)) }

func summarize(name string, kv ...string) summary {
	s := name + "{"
	for i := 0; i+1 < len(kv); i += 2 {
		if kv[i+1] == "" {
			continue
		}
		if len(s) > len(name)+1 {
			s += " "
		}
		s += kv[i] + "=" + Quote(kv[i+1])
	}
	return summary(s + "}")
}

// Quote returns s cut to 32 bytes and quoted where it is not plain, for
// errors and logs that name an unexpected code, kind or id.
func Quote(s string) string {
	cut := false
	if len(s) > maxQuoted {
		s, cut = s[:maxQuoted], true
	}
	plain := s != ""
	for _, c := range []byte(s) {
		if c <= ' ' || c == '"' || c >= 0x7f {
			plain = false
		}
	}
	if !plain {
		s = strconv.QuoteToASCII(s)
	}
	if cut {
		s += "…"
	}
	return s
}

func (s summary) LogValue() slog.Value { return slog.StringValue(string(s)) }

// Raw is one JSON value kept as the bytes that were received. It prints as its
// size only.
type Raw []byte

// MarshalJSON returns the bytes themselves.
func (r Raw) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON copies the bytes.
func (r *Raw) UnmarshalJSON(b []byte) error {
	*r = append(Raw(nil), b...)
	return nil
}

// AcceptsNull tells the strict decoder that null is a value here.
func (Raw) AcceptsNull() {}

// IsNull reports whether r is absent or JSON null, which mean the same for
// response and state (§9.2).
func (r Raw) IsNull() bool { return len(r) == 0 || string(r) == "null" }

// IsObject reports whether r begins a JSON object.
func (r Raw) IsObject() bool { return len(r) > 0 && r[0] == '{' }

// IsString reports whether r begins a JSON string.
func (r Raw) IsString() bool { return len(r) > 0 && r[0] == '"' }

func (r Raw) summary() summary { return summary("Raw{" + strconv.Itoa(len(r)) + " bytes}") }

// Format prints the size and nothing of the content.
func (r Raw) Format(f fmt.State, _ rune) { r.summary().write(f) }

// LogValue logs the size and nothing of the content.
func (r Raw) LogValue() slog.Value { return r.summary().LogValue() }
