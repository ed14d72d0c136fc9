package strict_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/seeds"
	"github.com/ma2h/ma2h-go/internal/strict"
)

type doc struct {
	Title string          `json:"title"`
	N     float64         `json:"n"`
	Any   jsontext.Value  `json:"any"`
	Deep  map[string]*doc `json:"deep"`
	Null  nullable        `json:"null"`
}

type nullable struct{}

func (*nullable) UnmarshalJSON([]byte) error { return nil }
func (nullable) AcceptsNull()                {}

func nest(open, shut string, n int) string {
	return strings.Repeat(open, n) + strings.Repeat(shut, n)
}

// req: JCS-04 JCS-05 VER-07 GO-02 GO-03
func TestATextIsTakenAsItStandsOrRefusedWithAReason(t *testing.T) {
	tests := []struct {
		name, text string
		reason     string // empty: taken
		member     string
	}{
		{"an object", `{"title":"x","n":1}`, "", ""},
		{"unknown members", `{"later":{"x":[1,null]},"title":"x"}`, "", ""},
		{"white space around", " \t\r\n{\"title\":\"x\"}\n", "", ""},
		{"null where it is a value", `{"null":null}`, "", ""},
		{"64 levels", `{"any":` + nest("[", "]", limits.MaxDepth-1) + `}`, "", ""},
		{"65 levels", `{"any":` + nest("[", "]", limits.MaxDepth) + `}`, strict.ReasonDepth, ""},
		{"65 levels of objects", `{"any":` + strings.Repeat(`{"a":`, limits.MaxDepth) + "1" + strings.Repeat("}", limits.MaxDepth) + `}`, strict.ReasonDepth, ""},
		{"brackets in a string are no depth", `{"title":"` + strings.Repeat("[", 100) + `"}`, "", ""},
		{"siblings are no depth", `{"any":[` + strings.Repeat("[],", 100) + `[]]}`, "", ""},
		{"the largest double", `{"n":1.7976931348623157e308}`, "", ""},
		{"past the largest double", `{"n":1e400}`, strict.ReasonRange, ""},
		{"its negative", `{"n":-1e400}`, strict.ReasonRange, ""},
		{"a range error in an unknown member", `{"later":1e309}`, strict.ReasonRange, ""},
		{"309 digits", `{"n":` + strings.Repeat("9", 309) + `}`, strict.ReasonRange, ""},
		{"308 digits", `{"n":` + strings.Repeat("9", 308) + `}`, "", ""},
		{"a number that is too small", `{"n":1e-400}`, "", ""},
		{"400 bytes of number", `{"n":0.` + strings.Repeat("1", limits.MaxNumberLen-2) + `}`, "", ""},
		{"401 bytes of number", `{"n":0.` + strings.Repeat("1", limits.MaxNumberLen-1) + `}`, strict.ReasonNumber, ""},
		{"400 bytes of negative number", `{"n":-0.` + strings.Repeat("1", limits.MaxNumberLen-3) + `}`, "", ""},
		{"401 bytes of negative number", `{"n":-0.` + strings.Repeat("1", limits.MaxNumberLen-2) + `}`, strict.ReasonNumber, ""},
		{"a capital exponent", `{"n":1E400}`, strict.ReasonRange, ""},
		{"a signed exponent", `{"n":1e+400}`, strict.ReasonRange, ""},
		{"401 bytes with an exponent", `{"n":0.` + strings.Repeat("1", 395) + `e-10}`, strict.ReasonNumber, ""},
		{"digits in a string are no number", `{"title":"` + strings.Repeat("9", 1000) + `"}`, "", ""},
		{"a quote escaped", `{"title":"a\"[[[[","n":2}`, "", ""},
		{"a backslash escaped", `{"title":"a\\","n":1e400}`, strict.ReasonRange, ""},
		{"a long run of backslashes", `{"title":"` + strings.Repeat(`\\`, 40) + `","n":1e400}`, strict.ReasonRange, ""},
		{"a long run and a quote", `{"title":"` + strings.Repeat(`\\`, 40) + `\",","n":1}`, "", ""},
		{"a duplicate name", `{"title":"a","title":"b"}`, strict.ReasonDuplicate, "title"},
		{"a duplicate by escape", `{"title":"a","t\u0069tle":"b"}`, strict.ReasonDuplicate, "title"},
		{"a duplicate in an unknown member", `{"later":{"a":1,"a":2}}`, strict.ReasonDuplicate, "later"},
		{"a lone surrogate", `{"title":"\ud800"}`, strict.ReasonUnicode, "title"},
		{"a pair of surrogates", `{"title":"\ud83d\ude80"}`, "", ""},
		{"a pair turned around", `{"title":"\ude80\ud83d"}`, strict.ReasonUnicode, "title"},
		{"bad UTF-8", "{\"title\":\"\xff\"}", strict.ReasonUnicode, "title"},
		{"overlong UTF-8", "{\"title\":\"\xc0\xaf\"}", strict.ReasonUnicode, "title"},
		{"null for a string", `{"title":null}`, "null where a value is required", "title"},
		{"null in a map", `{"deep":{"a":null}}`, "null where a value is required", "deep"},
		{"a number for a string", `{"title":1}`, "unexpected number", "title"},
		{"a string for a number", `{"n":"1"}`, "unexpected string", "n"},
		{"an array for an object", `[]`, "unexpected array", ""},
		{"a boolean for a string", `{"title":true}`, "unexpected boolean", "title"},
		{"an object for a string", `{"title":{}}`, "unexpected object", "title"},
		{"something after the value", `{"title":"x"} {}`, strict.ReasonSyntax, ""},
		{"nothing", ``, strict.ReasonSyntax, ""},
		{"cut short", `{"title":"x"`, strict.ReasonSyntax, ""},
		{"cut in a string", `{"title":"x`, strict.ReasonSyntax, "title"},
		{"cut after a backslash", `{"title":"x\`, strict.ReasonSyntax, "title"},
		{"a comment", `{/* */"title":"x"}`, strict.ReasonSyntax, ""},
		{"a leading zero", `{"n":01}`, strict.ReasonSyntax, ""},
		{"a plus", `{"n":+1}`, strict.ReasonSyntax, "n"},
		{"NaN", `{"n":NaN}`, strict.ReasonSyntax, "n"},
		{"a byte order mark", "\ufeff{}", strict.ReasonSyntax, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := strict.Decode([]byte(tt.text), new(doc))
			if tt.reason == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			e, ok := errors.AsType[*strict.Error](err)
			if !ok || e.Reason != tt.reason {
				t.Fatalf("%v, want %q", err, tt.reason)
			}
			if tt.member != "" && e.Member != tt.member {
				t.Errorf("names %q, want %q", e.Member, tt.member)
			}
		})
	}
}

// req: GO-01
func TestNamesAreTakenToTheLetter(t *testing.T) {
	for _, text := range []string{`{"Title":"evil"}`, `{"TITLE":"evil"}`, `{"tit\u006ce ":"evil"}`} {
		var d doc
		if err := strict.Decode([]byte(text), &d); err != nil || d.Title != "" {
			t.Errorf("%s gave %q, %v", text, d.Title, err)
		}
	}
	var d doc
	if err := strict.Decode([]byte(`{"title":"ok","Title":"evil"}`), &d); err != nil || d.Title != "ok" {
		t.Errorf("gave %q, %v", d.Title, err)
	}
}

// req: TEL-02
func TestAnErrorQuotesNothingButANameOfTheProtocol(t *testing.T) {
	const canary = "CANARY"
	for _, text := range []string{
		`{"title":CANARY}`, `{"CANARY":1e400}`, `{"CANARY":1,"CANARY":2}`, `{"title":"CANARY` + "\xff" + `"}`,
		`{"title":["CANARY"]}`, `{"deep":{"CANARY":{"title":1}}}`, `{"title":"CANARY\ud800"}`, `CANARY`,
		`{"later CANARY":{"a":1,"a":2}}`,
	} {
		err := strict.Decode([]byte(text), new(doc))
		if err == nil {
			t.Fatalf("%s was taken", text)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), canary) {
				t.Errorf("%s: %v", text, e)
			}
		}
	}
	if got := strict.WireName("in_reply_to2"); got != "in_reply_to2" {
		t.Errorf("a wire name became %q", got)
	}
	for _, name := range []string{"Title", "a b", "a.b", "é", strings.Repeat("a", limits.MaxQuoted+1)} {
		if got := strict.WireName(name); got != "" {
			t.Errorf("%q was passed on as %q", name, got)
		}
	}
	if n := strings.Repeat("a", limits.MaxQuoted); strict.WireName(n) != n {
		t.Error("a name at its bound was dropped")
	}
}

func TestAnErrorSaysWhereAsFarAsItIsKnown(t *testing.T) {
	for want, e := range map[string]*strict.Error{
		"r":                     {Reason: "r"},
		`r in "title"`:          {Reason: "r", Member: "title"},
		"r at byte 7":           {Reason: "r", Offset: 7},
		`r in "n" at byte 1234`: {Reason: "r", Member: "n", Offset: 1234},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestScanTakesNoMemory(t *testing.T) {
	text := []byte(`{"a":[1,2.5e10,"x\"y",{"b":null}],"c":"` + strings.Repeat("z", 1000) + `"}`)
	if n := testing.AllocsPerRun(100, func() {
		if strict.Scan(text) != nil {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzAnAcceptedTextIsAcceptedBySyntaxAndBounds(f *testing.F) {
	corpus := seeds.For(f)
	for _, s := range []string{
		`{}`, `{"title":"\\\""}`, `[1e308]`, `{"n":-0}`, `"\\`, `{"any":[[[]]]}`, "\"\xff\"", `"\`, `["a\\","\"",1e400]`, strings.Repeat("[", 65), `"` + strings.Repeat(`\\`, 40) + `"`, "",
	} {
		corpus.Add(s)
	}
	corpus.Counted(12)
	f.Fuzz(func(t *testing.T, text string) {
		var v jsontext.Value
		err := strict.Decode([]byte(text), &v)
		value := jsontext.Value(text)
		if err == nil && !value.IsValid() {
			t.Fatalf("took %q", text)
		}
		if strict.Scan([]byte(text)) != nil && err == nil {
			t.Fatalf("Decode took what Scan refuses: %q", text)
		}
		if end := strict.StringEnd([]byte(text), 0); end < len(text) && text[end] != '"' {
			t.Fatalf("a string ends at %q of %q", text[end], text)
		}
	})
}

func TestNumbersNextToZeroAreFew(t *testing.T) {
	text := func(n int, lit string) []byte {
		return []byte("[" + strings.TrimSuffix(strings.Repeat(lit+",", n), ",") + "]")
	}
	for _, row := range []struct {
		n       int
		literal string
		taken   bool
	}{
		{limits.MaxTinyNumbers, "1e-320", true}, {limits.MaxTinyNumbers + 1, "1e-320", false},
		{limits.MaxTinyNumbers + 1, "-1e-99999", false}, {limits.MaxTinyNumbers + 1, "0.001e-317", false},
		{limits.MaxTinyNumbers + 1, "0e0", true}, {limits.MaxTinyNumbers + 1, "-0.0e-320", true}, {limits.MaxTinyNumbers + 1, "1e-300", true},
	} {
		err := strict.Scan(text(row.n, row.literal))
		if e, ok := errors.AsType[*strict.Error](err); row.taken != (err == nil) || !row.taken && (!ok || e.Reason != strict.ReasonTiny) {
			t.Errorf("%d of %s: %v", row.n, row.literal, err)
		}
	}
}
