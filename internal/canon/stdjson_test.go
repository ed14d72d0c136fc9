package canon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/seeds"
	"github.com/ma2h/ma2h-go/internal/strict"
)

// faults says what is wrong with a text that is JSON to encoding/json, found
// with nothing of ours: reasons of strict, in no order.
func faults(t *testing.T, text []byte) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	if !utf8.Valid(text) || loneSurrogate(text) {
		out[strict.ReasonUnicode] = true
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	type level struct {
		names   map[string]bool // nil in an array
		isValue bool            // a value comes next, not a name
	}
	var open []level
	tiny := 0
	for {
		tok, err := dec.Token()
		if err != nil {
			break
		}
		name := false
		if n := len(open); n > 0 && open[n-1].names != nil {
			name = !open[n-1].isValue
			open[n-1].isValue = name
		}
		switch v := tok.(type) {
		case json.Delim:
			if v == '}' || v == ']' {
				open = open[:len(open)-1]
				continue
			}
			open = append(open, level{})
			if v == '{' {
				open[len(open)-1].names = map[string]bool{}
			}
			if len(open) > limits.MaxDepth {
				out[strict.ReasonDepth] = true
			}
		case string:
			if name {
				names := open[len(open)-1].names
				if names[v] {
					out[strict.ReasonDuplicate] = true
				}
				names[v] = true
			}
		case json.Number:
			x, err := strconv.ParseFloat(v.String(), 64)
			digits, _, _ := strings.Cut(strings.ToLower(v.String()), "e")
			switch {
			case err != nil:
				out[strict.ReasonRange] = true
			case -0x1p-1021 < x && x < 0x1p-1021 && strings.ContainsAny(digits, "123456789"):
				tiny++
			}
			if len(v) > limits.MaxNumberLen {
				out[strict.ReasonNumber] = true
			}
		}
	}
	if tiny > limits.MaxTinyNumbers {
		out[strict.ReasonTiny] = true
	}
	if len(text) > limits.MaxCanonical {
		out[canon.ReasonLength] = true
	}
	return out
}

// loneSurrogate reports an escape of half a character in a text that is JSON.
func loneSurrogate(text []byte) bool {
	half := func(i int) (high, low bool) {
		if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
			return false, false
		}
		n, err := strconv.ParseUint(string(text[i+2:i+6]), 16, 32)
		return err == nil && n>>10 == 0xd800>>10, err == nil && n>>10 == 0xdc00>>10
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		high, low := half(i)
		_, paired := half(i + 6)
		switch {
		case low || high && !paired:
			return true
		case high:
			i += 11
		default:
			i++
		}
	}
	return false
}

// Our reading and that of encoding/json differ in what we refuse, and that is
// each time for the reason we give. What we take it takes too, and reads the
// same in what was signed as in what came.
//
// req: JCS-04, JCS-05, GO-02, GO-03
// report: B036
func FuzzWhatIsTakenReadsTheSameToEncodingJSON(f *testing.F) {
	corpus := seeds.For(f)
	for _, s := range shapes {
		corpus.Add(s.make(300))
	}
	added := []string{
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":{"b":[{"c":1,"c":1}]}}`, `{"value":"hold","VALUE":"ship"}`, `{"K":1,"` + "\u212a" + `":2}`,
		`{"s":"\ud800"}`, `{"s":"\udc00\ud800"}`, `{"s":"\ud83d\ude00"}`, `{"s":"\\ud800"}`, `{"s":"\\\ud800x"}`, "{\"s\":\"\xff\"}", "{\"s\":\"\xed\xa0\x80\"}", "{\"\xc0\xaf\":1}",
		`[1e308,1e309]`, `[-1e400]`, `[1e-400,5e-324,-0.0,0e999]`, `[` + strings.Repeat("1e-320,", limits.MaxTinyNumbers) + `1e-320]`, `[0.` + strings.Repeat("1", limits.MaxNumberLen) + `]`,
		strings.Repeat("[", limits.MaxDepth) + strings.Repeat("]", limits.MaxDepth), strings.Repeat("[", limits.MaxDepth+1) + strings.Repeat("]", limits.MaxDepth+1),
		`{"n":01}`, `{"n":1.}`, `{"n":.5}`, `{"n":+1}`, `[1,]`, `{"a":1,}`, `{} {}`, "\ufeff{}", "", "nul", `"\x"`, "\"\t\"", ` { "b" : [ 1.50 , true ] , "a" : null } `, `"\/\u002f"`, "[\"\u2028\x7f\"]",
	}
	for _, s := range added {
		corpus.Add([]byte(s))
	}
	corpus.Counted(len(shapes) + 35)
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := canon.Canonicalize(text)
		if !json.Valid(text) {
			if err == nil {
				t.Fatalf("%q is taken and is no JSON", text)
			}
			return
		}
		wrong := faults(t, text)
		if err != nil {
			if e, ok := errors.AsType[*strict.Error](err); !ok || !wrong[e.Reason] {
				t.Fatalf("%q is refused as %v, and what is wrong is %v", text, err, wrong)
			}
			return
		}
		if len(wrong) > 0 {
			t.Fatalf("%q is taken in spite of %v", text, wrong)
		}
		var came, signed any
		if err := errors.Join(json.Unmarshal(text, &came), json.Unmarshal(once, &signed)); err != nil || !reflect.DeepEqual(came, signed) {
			t.Fatalf("%q reads as %v and its canonical form as %v, %v", text, came, signed, err)
		}
	})
}
