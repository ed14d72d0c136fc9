package hubtest_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/ma2h/ma2h-go/internal/seeds"
	"github.com/ma2h/ma2h-go/ma2htest/hubtest"
)

// req: JCS-01 JCS-02 JCS-03
func TestTheSuiteHasTheCanonicalFormOfRFC8785(t *testing.T) {
	for text, want := range map[string]string{
		`{"\r":1,"1":2,"\u0080":3,"\u00f6":4,"\u20ac":5,"\ud83d\ude00":6,"\ufb33":7}`:                "{\"\\r\":1,\"1\":2,\"\u0080\":3,\"ö\":4,\"€\":5,\"😀\":6,\"\ufb33\":7}",
		`[-0, 0.30000000000000004, 1e-6, 1e-7, 5e-324, 333333333.33333329, 2e-3, 4.50]`:              `[0,0.30000000000000004,0.000001,1e-7,5e-324,333333333.3333333,0.002,4.5]`,
		`[1e20, 1e21, 123456789012345680000, 9007199254740993, 1.7976931348623157e308, 1e30, -1e30]`: `[100000000000000000000,1e+21,123456789012345680000,9007199254740992,1.7976931348623157e+308,1e+30,-1e+30]`,
		`[9.999999999999999e22, 1e-27, -0.001, 1E3]`:                                                 `[1e+23,1e-27,-0.001,1000]`,
		`"\"\\\/\b\f\n\r\t\u0001\u001f\u007f\u2028<>&é"`:                                             "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\u007f\u2028<>&é\"",
		` { "b" : [ ] , "a" : { } , "" : null , "t" : true } `:                                       `{"":null,"a":{},"b":[],"t":true}`,
	} {
		v, err := hubtest.Read([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := hubtest.Canonical(v); err != nil || string(got) != want {
			t.Errorf("%s:\n%s, %v, want\n%s", text, got, err, want)
		}
	}
	for _, text := range []string{`1e400`, `[-1e999]`} {
		v, err := hubtest.Read([]byte(text))
		if err != nil {
			continue
		}
		if got, err := hubtest.Canonical(v); err == nil {
			t.Errorf("%s has the canonical form %s", text, got)
		}
	}
}

// req: JCS-05
func TestTheSuiteReadsOneMeaningOrNone(t *testing.T) {
	for _, text := range []string{
		``, `{`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":1}}`, `{} {}`, `{}x`, `[1,]`, `{"a"}`, `{"a":}`, "{\"a\":\"\xff\"}", `nul`, `01`,
		strings.Repeat("[", 200) + strings.Repeat("]", 200),
	} {
		if v, err := hubtest.Read([]byte(text)); err == nil {
			t.Errorf("%q reads as %v", text, v)
		}
	}
	v, err := hubtest.Read([]byte(`{"a":1,"A":2,"\u0061b":3}`))
	if got, _ := hubtest.Canonical(v); err != nil || string(got) != `{"A":2,"a":1,"ab":3}` {
		t.Errorf("names are %s, %v", got, err)
	}
	if hubtest.Awkward() == nil {
		t.Error("the awkward state does not read")
	}
}

// Two implementations of RFC 8785 agree on whatever both take.
func FuzzTheCanonicalFormIsThatOfAnother(f *testing.F) {
	corpus := seeds.For(f)
	for _, seed := range []string{
		`{"b":[1,2.50,-0],"a":"\u00e9\u2028\ud83d\ude00"}`, `[1e21,1e-7,0.1,5e-324]`, `{"\ufb33":1,"😀":2}`, `null`, `{"a":{"a":{}}}`,
		`{"a":1,"a":2}`, `["\ud800","\\ud800"]`, `[1e400,1E30,00]`, `"\/\b<&>\u007f"`, ` [ ] `, "",
	} {
		corpus.Add([]byte(seed))
	}
	corpus.Counted(11)
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := hubtest.Read(text)
		if err != nil {
			return
		}
		ours, err := hubtest.Canonical(v)
		if err != nil || bytes.ContainsRune(ours, '\ufffd') { // a lone surrogate, perhaps
			return
		}
		if again, err := hubtest.Read(ours); err != nil || !hubtest.Same(again, v) {
			t.Fatalf("the canonical form %q reads as something else: %v", ours, err)
		}
		theirs, err := jcs.Transform(text)
		if err == nil && !bytes.Equal(ours, theirs) {
			t.Fatalf("%q\nours   %q\ntheirs %q", text, ours, theirs)
		}
	})
}
