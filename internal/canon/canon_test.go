package canon_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/strict"
)

// canonical returns the canonical form, which the second canonicaliser must
// share.
func canonical(t *testing.T, text string) string {
	t.Helper()
	out, err := canon.Canonicalize([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	agree(t, []byte(text))
	return string(out)
}

// refused asserts the reason, on both doors.
func refused(t *testing.T, text []byte, reason string) {
	t.Helper()
	doc, err := canon.Parse(text)
	if e, ok := errors.AsType[*strict.Error](err); !ok || e.Reason != reason {
		t.Errorf("Parse: got %v, want %q", err, reason)
	}
	if doc.Bytes() != nil {
		t.Error("Parse left a document beside its error")
	}
	if reason == canon.ReasonNotObject {
		return
	}
	out, err := canon.Canonicalize(text)
	if e, ok := errors.AsType[*strict.Error](err); !ok || e.Reason != reason || out != nil {
		t.Errorf("Canonicalize: got %v, want %q", err, reason)
	}
}

// req: JCS-02 GO-04
// report: B049 B037
func TestNumbersAreWrittenAsECMAScriptWritesDoubles(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"-0", "0"},
		{"-0.0", "0"},
		{"-0e5", "0"},
		{"0.30000000000000004", "0.30000000000000004"},
		{"1e-6", "0.000001"},
		{"0.000001", "0.000001"},
		{"1e-7", "1e-7"},
		{"5e-324", "5e-324"},
		{"1e-400", "0"},
		{"333333333.33333329", "333333333.3333333"},
		{"2e-3", "0.002"},
		{"4.50", "4.5"},
		{"1e20", "100000000000000000000"},
		{"1e21", "1e+21"},
		{"1E30", "1e+30"},
		{"1e-27", "1e-27"},
		{"123456789012345680000", "123456789012345680000"},
		{"295147905179352825856", "295147905179352830000"},
		{"999999999999999900000", "999999999999999900000"},
		{"9007199254740991", "9007199254740991"},
		{"9007199254740992", "9007199254740992"},
		{"9007199254740993", "9007199254740992"},
		{"1.7976931348623157e308", "1.7976931348623157e+308"},
		{"9.999999999999999e22", "1e+23"},
		{"1e23", "1e+23"},
		{"1234.5", "1234.5"},
		{"-0.001", "-0.001"},
	} {
		if got := canonical(t, c.in); got != c.want {
			t.Errorf("%s: got %s, want %s", c.in, got, c.want)
		}
	}
}

// req: JCS-02 JCS-07
func TestNumbersOutsideTheFiniteDoublesAreRefused(t *testing.T) {
	canonical(t, `{"n":[1e308,-1e308]}`)
	for _, n := range []string{"1e309", "-1e309", "1e400", "1" + strings.Repeat("0", 309)} {
		refused(t, []byte(`{"n":[`+n+`]}`), strict.ReasonRange)
	}
	canonical(t, `{"n":0.`+strings.Repeat("1", limits.MaxNumberLen-2)+`}`)
	refused(t, []byte(`{"n":0.`+strings.Repeat("1", limits.MaxNumberLen-1)+`}`), strict.ReasonNumber)
}

// req: JCS-01 GO-04
// report: B048
func TestMembersAreOrderedByUTF16CodeUnits(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{
			`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`,
			`{"\r":2,"1":4,"` + "\u0080" + `":6,"ö":7,"€":1,"😀":5,"` + "\ufb33" + `":3}`,
		},
		{
			`{"ab":1,"` + "\ufffd" + `":2,"a":3,"😀":4,"":5,"` + "\ufb33" + `":6}`,
			`{"":5,"a":3,"ab":1,"😀":4,"` + "\ufb33" + `":6,"` + "\ufffd" + `":2}`,
		},
		{`{"𐀁":1,"𐀀":2,"` + "\ue000" + `":3,"` + "\ud7ff" + `":4}`, `{"` + "\ud7ff" + `":4,"𐀀":2,"𐀁":1,"` + "\ue000" + `":3}`},
		{`{"a\\":1,"a\"":2,"a\u0001":3,"a\n":4,"a\u001f":5,"a ":6,"a[":7,"a]":8}`, `{"a\u0001":3,"a\n":4,"a\u001f":5,"a ":6,"a\"":2,"a[":7,"a\\":1,"a]":8}`},
		{`{"\b":1,"\f":2,"\t":3,"\r":4,"\u000b":5,"\u000e":6,"\u0007":7}`, `{"\u0007":7,"\b":1,"\t":3,"\u000b":5,"\f":2,"\r":4,"\u000e":6}`},
		{"{\"\u00e9\":1,\"e\u0301\":2}", "{\"e\u0301\":2,\"\u00e9\":1}"},
		{`[{"b":[{"d":1,"c":{"z":1,"y":2}},[],{}],"a":"x"},{"b":1,"a":2}]`, `[{"a":"x","b":[{"c":{"y":2,"z":1},"d":1},[],{}]},{"a":2,"b":1}]`},
		{` { "b" : [ ] , "a" : { } } `, `{"a":{},"b":[]}`},
	} {
		if got := canonical(t, c.in); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

// req: JCS-03 GO-04
// report: B043
func TestStringsAreEscapedAsLittleAsTheyCanBe(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`"\u0000\u0008\u0009\u000a\u000b\u000c\u000d\u001F"`, `"\u0000\b\t\n\u000b\f\r\u001f"`},
		{`"\u0022\u005c\u002f\/"`, `"\"\\//"`},
		{`"a<b>&c\u2028d\u2029\u007f"`, `"a<b>&c` + "\u2028d\u2029\u007f" + `"`},
		{`"\ud83d\ude00\u00e9"`, `"😀é"`},
		{`"` + "\ufffd" + `\ufffd"`, `"` + "\ufffd\ufffd" + `"`},
	} {
		if got := canonical(t, c.in); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.in, got, c.want)
		}
		s, ok := canon.Text([]byte(c.want))
		if back, err := canon.AppendString([]byte("x"), s); !ok || err != nil || string(back) != "x"+c.want {
			t.Errorf("%s does not survive Text and AppendString: %s, %v", c.want, back, err)
		}
	}
	if canonical(t, `"é"`) == canonical(t, `"e`+"\u0301"+`"`) {
		t.Error("composed and decomposed text got one form")
	}
}

// req: JCS-04 GO-03
// report: B045 B046 B067
func TestTextThatIsNotValidUnicodeIsRefusedAndNotRepaired(t *testing.T) {
	bad := []string{`\ud83d`, `\ude00`, `\ude00\ud83d`, `\ud83d\u0041`, "\xff", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "a\xe2\x82"}
	for _, s := range bad {
		refused(t, []byte(`{"comment":"`+s+`"}`), strict.ReasonUnicode)
		refused(t, []byte(`{"response":{"`+s+`":1}}`), strict.ReasonUnicode)
		refused(t, []byte(`{"`+s+`":1}`), strict.ReasonUnicode)
	}
	for _, s := range []string{"\xff", "a\xed\xa0\x80"} {
		dst, err := canon.AppendString([]byte("x"), s)
		if e, ok := errors.AsType[*strict.Error](err); !ok || e.Reason != strict.ReasonUnicode || string(dst) != "x" {
			t.Errorf("AppendString: got %q, %v", dst, err)
		}
	}
}

// req: JCS-05 GO-02
// report: B036
func TestDuplicateNamesAreRefusedAtAnyDepth(t *testing.T) {
	for _, text := range []string{
		`{"response":{"value":"hold"},"response":{"value":"ship"}}`,
		`{"response":{"value":"hold"},"\u0072esponse":{"value":"ship"}}`,
		`{"response":{"value":"hold","value":"hold"}}`,
		`{"response":1,"agent":2,"response":3}`,
		`{"state":[[{"a":1,"b":2,"a":3}]]}`,
		`{"state":{"z":{},"a":{"\n":1,"\u000a":2}}}`,
		`{"":1,"":2}`,
	} {
		refused(t, []byte(text), strict.ReasonDuplicate)
	}
	canonical(t, `{"response":{"value":"hold"},"value":{"value":1}}`)

	_, err := canon.Parse([]byte(`{"value":1,"value":2}`))
	if e, ok := errors.AsType[*strict.Error](err); !ok || e.Member != "value" {
		t.Errorf("the duplicate is not named: %v", err)
	}
	_, err = canon.Parse([]byte(`{"Dear Alice":1,"Dear Alice":2}`))
	if strings.Contains(err.Error(), "Alice") {
		t.Errorf("the error holds text of the document: %v", err)
	}
}

// req: JCS-07
// report: B040
func TestNestingIsBoundedBeforeAnythingRecurses(t *testing.T) {
	nested := func(n int) []byte {
		return []byte(`{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`)
	}
	canonical(t, string(nested(limits.MaxDepth)))
	refused(t, nested(limits.MaxDepth+1), strict.ReasonDepth)
	refused(t, bytes.Repeat([]byte("["), 5_000_000), strict.ReasonDepth)
	refused(t, bytes.Repeat([]byte(`{"a":`), 1_000_000), strict.ReasonDepth)
}

// req: JCS-07
func TestTextLengthIsBounded(t *testing.T) {
	text := bytes.Repeat([]byte(" "), limits.MaxCanonical+1)
	copy(text, `{}`)
	if _, err := canon.Parse(text[:limits.MaxCanonical]); err != nil {
		t.Error(err)
	}
	refused(t, text, canon.ReasonLength)
}

func TestWhatIsNotOneJSONValueIsRefused(t *testing.T) {
	for _, text := range []string{
		``, ` `, `{`, `{}{}`, `{} x`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `{'a':1}`, `{"a":01}`, `{"a":+1}`, `{"a":1.}`,
		`{"a":.5}`, `{"a":0x1}`, `{"a":1_0}`, `{"a":NaN}`, `{"a":Infinity}`, `{"a":tru}`, `{"a":TRUE}`, `{"a":"` + "\n" + `"}`,
		`{"a":"\x41"}`, `{"a":"\u00g0"}`, `{"a":"`, "\ufeff{}", `{"a":1 2}`, `[1,]`, `[,]`, `{"a":1}}`, `]`, `"`, `"\`,
		`{/**/}`, "\x00", `{"a":1e}`, "{\"a\":1}\x00", "{\"a\":\u00a01}",
	} {
		if out, err := canon.Canonicalize([]byte(text)); err == nil {
			t.Errorf("%q became %q", text, out)
			continue
		}
		refused(t, []byte(text), strict.ReasonSyntax)
		agree(t, []byte(text))
	}
}

// report: B051
func TestAnyJSONValueHasACanonicalFormAndOnlyAnObjectIsABody(t *testing.T) {
	for _, text := range []string{`null`, `true`, `false`, `"x"`, `1`, `[]`, `[null]`} {
		if got := canonical(t, " "+text+"\n"); got != text {
			t.Errorf("%s: got %s", text, got)
		}
		refused(t, []byte(text), canon.ReasonNotObject)
	}
	if _, err := canon.Parse([]byte(`{}`)); err != nil {
		t.Error(err)
	}
}

// req: JCS-06
// report: B034
func TestMembersAreFoundByExactNameAsPartsOfTheWhole(t *testing.T) {
	text := []byte(` {"state":{"b":[1.0],"a":null}, "VALUE":"ship","response":{"resolved_at":"T","actor":"a\"}{"},
		"value":"hold","va":1,"va\u0000":2,"valu\u00e9":3,"` + "\u212a" + `":4,"k":5,"":6} `)
	before := bytes.Clone(text)
	doc, err := canon.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, before) {
		t.Error("the input was changed")
	}
	clear(text)
	for name, want := range map[string]string{
		"state": `{"a":null,"b":[1]}`, "VALUE": `"ship"`, "value": `"hold"`, "va": `1`, "va\\u0000": `2`, "valué": `3`,
		"\u212a": `4`, "k": `5`, "": `6`, "response": `{"actor":"a\"}{","resolved_at":"T"}`,
	} {
		got, ok := doc.Get(name)
		if !ok || string(got) != want {
			t.Errorf("%q: got %s, %v", name, got, ok)
		}
		if i := bytes.Index(doc.Bytes(), got); i < 0 || cap(got) != len(got) {
			t.Errorf("%q is not a closed part of the whole", name)
		}
	}
	for _, name := range []string{"Value", "valu", "values", "K", "v", "zz", "actor"} {
		if got, ok := doc.Get(name); ok {
			t.Errorf("%q was found: %s", name, got)
		}
	}
	if _, ok := (canon.Doc{}).Get("value"); ok {
		t.Error("the zero Doc has a member")
	}

	response, _ := doc.Get("response")
	for name, want := range map[string]string{"resolved_at": `"T"`, "actor": `"a\"}{"`} {
		if got, ok := canon.Member(response, name); !ok || string(got) != want || cap(got) != len(got) {
			t.Errorf("response.%s: got %s, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "a", "Actor", "resolved_a", "value"} {
		if got, ok := canon.Member(response, name); ok {
			t.Errorf("response.%s was found: %s", name, got)
		}
	}
	for _, v := range []string{"", "null", "{}", "[]", `["a"]`, `"actor"`, "1"} {
		if got, ok := canon.Member([]byte(v), "actor"); ok {
			t.Errorf("%s has a member: %s", v, got)
		}
	}
	for _, v := range []string{"", "null", "{}", "1", `"`} {
		if s, ok := canon.Text([]byte(v)); ok {
			t.Errorf("%s is a string: %s", v, s)
		}
	}
}

func TestMembersAreFoundHoweverManyThereAre(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 17, 18, 300} {
		text := []byte(`{}`)
		if n > 0 {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, `,"k%03d":%d,"\u00%02x%d":{}`, i*7%n, i*7%n, i%32, i)
			}
			text = []byte("{" + b.String()[1:] + "}")
		}
		doc, err := canon.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if got, ok := doc.Get(fmt.Sprintf("k%03d", i)); !ok || string(got) != fmt.Sprint(i) {
				t.Errorf("member %d of %d: got %s, %v", i, n, got, ok)
			}
		}
		for _, name := range []string{"k999", "", "k", "a", "~"} {
			if got, ok := doc.Get(name); ok {
				t.Errorf("%q of %d was found: %s", name, n, got)
			}
		}
	}
}

func TestScratchSpaceIsNeverSharedBetweenTexts(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				want := fmt.Sprintf(`{"a":{"x":%d,"y":[{"p":%d,"q":1}]},"b":"%s"}`, g, i, strings.Repeat("z", i))
				text := fmt.Sprintf(`{"b":"%s","a":{"y":[{"q":1,"p":%d}],"x":%d}}`, strings.Repeat("z", i), i, g)
				doc, err := canon.Parse([]byte(text))
				_, _ = canon.Parse([]byte(`{"b":1,"a":{"b":1,"a":`))
				if err != nil || string(doc.Bytes()) != want {
					t.Errorf("got %s, %v", doc.Bytes(), err)
				}
			}
		})
	}
	wg.Wait()
}

func TestEscapesBeforeAQuoteEndNoStringEarlyOrLate(t *testing.T) {
	for lead := range 20 {
		for pairs := range 20 {
			inside := strings.Repeat("x", lead) + strings.Repeat(`\\`, pairs)
			text := `{"b":"` + inside + `\"]}","` + inside + `\"":{"` + inside + `":[1]},"a":"` + inside + `"}`
			doc, err := canon.Parse([]byte(text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			agree(t, []byte(text))
			if got, ok := doc.Get("a"); !ok || string(got) != `"`+inside+`"` {
				t.Fatalf("%s: got %s", text, got)
			}
		}
	}
}
