package canon_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/seeds"
	"github.com/ma2h/ma2h-go/internal/strict"
)

// agree fails unless the second canonicaliser gives the same bytes or refuses
// too. Only our bounds are differences: it goes to 10,000 levels, and bounds
// neither a number nor a text. jsontext is the third voice where we accept.
func agree(t *testing.T, text []byte) {
	t.Helper()
	got, err := canon.Canonicalize(text)
	want, secondErr := jcs.Transform(text)
	switch {
	case err == nil && secondErr == nil:
		if !bytes.Equal(got, want) {
			t.Fatalf("%q\n  ours %q\nsecond %q", text, got, want)
		}
		third := jsontext.Value(bytes.Clone(text))
		if err := third.Canonicalize(); err != nil || !bytes.Equal(got, third) {
			t.Fatalf("%q\n ours %q\nthird %q, %v", text, got, third, err)
		}
	case err == nil:
		t.Fatalf("%q: only the second refuses: %v", text, secondErr)
	case secondErr == nil:
		e, _ := errors.AsType[*strict.Error](err)
		switch {
		case e.Reason == strict.ReasonDepth && depth(want) > limits.MaxDepth:
		case e.Reason == strict.ReasonNumber && longestNumber(text) > limits.MaxNumberLen:
		case e.Reason == canon.ReasonLength && len(text) > limits.MaxCanonical:
		case e.Reason == strict.ReasonTiny && faults(t, text)[strict.ReasonTiny]:
		default:
			t.Fatalf("%q: only we refuse: %v", text, err)
		}
	}
}

// depth counts on its own, over canonical text.
func depth(text []byte) int {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	deepest := 0
	for {
		if _, err := d.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, d.StackDepth())
	}
}

func longestNumber(text []byte) int {
	longest := 0
	for _, f := range strings.FieldsFunc(string(text), func(r rune) bool { return !strings.ContainsRune("0123456789+-.eE", r) }) {
		longest = max(longest, len(f))
	}
	return longest
}

func TestTheCanonicalFormOfGeneratedTextsIsThatOfTheSecondCanonicaliser(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 785))
	for range 4000 {
		var b strings.Builder
		generate(&b, r, 5)
		agree(t, []byte(b.String()))
		holds(t, []byte(b.String()))
	}
}

// req: JCS-02
// report: B049
func TestDecimalsAreWrittenAsTheSecondCanonicaliserWritesThem(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 785))
	for digits := 1; digits <= 19; digits++ {
		for point := 0; point <= digits; point++ {
			for zeros := range 9 { // after the point, or at the end
				b := make([]byte, digits)
				for i := range b {
					b[i] = '0' + byte(r.IntN(10))
				}
				whole, fraction := string(b[:point]), string(b[point:])
				for _, n := range []string{
					whole + "." + fraction,
					whole + "." + strings.Repeat("0", zeros) + fraction,
					whole + strings.Repeat("0", zeros) + "." + fraction,
					whole + "." + fraction + strings.Repeat("0", zeros),
					"0." + strings.Repeat("0", zeros) + fraction,
					"0" + whole + "." + fraction,
					whole + strings.Repeat("9", zeros),
				} {
					agree(t, []byte(n))
					agree(t, []byte("-"+n))
					agree(t, []byte(`{"b":[`+n+`,-`+n+`],"a":`+n+`}`))
				}
			}
		}
	}
}

// req: JCS-03
func TestEscapesAreWrittenAsTheSecondCanonicaliserWritesThem(t *testing.T) {
	for c := range 256 {
		for _, s := range []string{`\` + string([]byte{byte(c)}), `x\` + string([]byte{byte(c)}) + `y`, `\\\` + string([]byte{byte(c)}), `\n` + string([]byte{byte(c)})} {
			agree(t, []byte(`{"b":"`+s+`","a":0}`))
			agree(t, []byte(`{"b":1,"`+s+`":"","a":0}`))
			agree(t, []byte(`{"`+s+``))
		}
	}
}

// generate writes a JSON text whose names collide, share beginnings and mix
// escapes with planes of Unicode.
func generate(b *strings.Builder, r *rand.Rand, levels int) {
	pick := func(of ...string) { b.WriteString(of[r.IntN(len(of))]) }
	name := func() {
		b.WriteByte('"')
		for range r.IntN(4) {
			pick("a", "b", "\\", "é", "\u20ac", "\ufb33", "😀", "𐀀", "\\ud83d\\ude00", `\n`, `\u000b`, `\"`, `\u0041`, "\ue000", " ")
			if s := b.String(); strings.HasSuffix(s, `\`) && !strings.HasSuffix(s, `\\`) {
				b.WriteByte('\\')
			}
		}
		b.WriteByte('"')
	}
	kind := r.IntN(5)
	if levels == 0 {
		kind = 3 + r.IntN(2)
	}
	switch kind {
	case 0, 1:
		b.WriteByte('{')
		for i := range r.IntN(6) {
			if i > 0 {
				pick(",", " ,\n")
			}
			name()
			pick(":", " : ")
			generate(b, r, levels-1)
		}
		b.WriteByte('}')
	case 2:
		b.WriteByte('[')
		for i := range r.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			generate(b, r, levels-1)
		}
		b.WriteByte(']')
	case 3:
		name()
	default:
		pick("null", "true", "0", "-0", "1.50", "1e21", "1e400", "12345678901234567890", "-1e-7", "0.5", "-12.75", "0.000001", "0.0000001")
	}
}

// holds checks what is true of every accepted text by itself.
func holds(t *testing.T, text []byte) {
	t.Helper()
	once, err := canon.Canonicalize(text)
	if err != nil {
		return
	}
	if twice, err := canon.Canonicalize(once); err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%q is not its own canonical form: %q, %v", once, twice, err)
	}
	doc, err := canon.Parse(text)
	if once[0] != '{' {
		if e, ok := errors.AsType[*strict.Error](err); !ok || e.Reason != canon.ReasonNotObject {
			t.Fatalf("%q is taken for an object: %v", text, err)
		}
		return
	}
	if err != nil || !bytes.Equal(doc.Bytes(), once) {
		t.Fatalf("Parse has %q, %v\nCanonicalize has %q", doc.Bytes(), err, once)
	}
	d := jsontext.NewDecoder(bytes.NewReader(once))
	_, _ = d.ReadToken()
	for d.PeekKind() == '"' {
		quoted, _ := d.ReadValue()
		name := string(quoted[1 : len(quoted)-1])
		value, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := doc.Get(name); !ok || !bytes.Equal(got, value) {
			t.Fatalf("member %q of %q: got %q, %v", name, once, got, ok)
		}
		if got, ok := canon.Member(once, name); !ok || !bytes.Equal(got, value) {
			t.Fatalf("Member %q of %q: got %q, %v", name, once, got, ok)
		}
		if part, err := canon.Canonicalize(value); err != nil || !bytes.Equal(part, value) {
			t.Fatalf("the part %q is not canonical: %q, %v", value, part, err)
		}
		if s, ok := canon.Text(value); ok {
			if back, err := canon.AppendString(nil, s); err != nil || !bytes.Equal(back, value) {
				t.Fatalf("the string %q comes back as %q, %v", value, back, err)
			}
		}
	}
}

// report: B034 B036 B040 B043 B045 B048 B049
func FuzzCanonicalFormIsSharedAndStable(f *testing.F) {
	corpus := seeds.For(f)
	for _, s := range shapes {
		corpus.Add(s.make(300))
	}
	for _, s := range []string{
		`{"a":"\ud83d\ude00","a\u0000":[1e400,-0,1E30]}`, `{"😀":1,"` + "\ufb33" + `":2}`, `{"a":1,"\u0061":2}`,
		strings.Repeat("[", 65) + strings.Repeat("]", 65), `{"b":{"d":1,"c":2},"a":[{"z":"\\\"","y":null}]}`, ` 1 `, `"\/"`,
	} {
		corpus.Add([]byte(s))
	}
	corpus.Counted(len(shapes) + 7)
	f.Fuzz(func(t *testing.T, text []byte) {
		agree(t, text)
		holds(t, text)
	})
}
