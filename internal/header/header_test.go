package header_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/ma2h/ma2h-go/internal/header"
	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/seeds"
)

const (
	v1    = "Ryfm6kkeIKl80WEanB__dxoyL6bg5yFF33bRpu_3cxc"
	other = "In3evtBNZywRzuNYkphbw-_764_Wu98zWM5rZ1iN4VI"
	good  = "t=1749050910,jti=jti_01HZX7Q9Z3DEMOFIX,v1=" + v1
)

func refused(t *testing.T, s header.Signature, err error, want header.Rule) {
	t.Helper()
	e, ok := errors.AsType[*header.Error](err)
	if !ok || e.Rule != want {
		t.Errorf("got %v, want %q", err, want)
	}
	if s.T != "" || s.Unix != 0 || s.JTI != "" || s.V1 != nil {
		t.Error("a refused header left fields behind")
	}
}

// req: SIG-01 SIG-02 SIG-03 AMB-10
// report: B058 B060
func TestAcceptedHeadersGiveTheirFields(t *testing.T) {
	for name, value := range map[string]string{
		"as the Hub writes it":             good,
		"in any order":                     "v1=" + v1 + ",jti=jti_01HZX7Q9Z3DEMOFIX,t=1749050910",
		"with the name before it":          "MA2H-Signature: " + good,
		"with the name in another case":    "ma2h-signature:" + good,
		"with a tab after the name":        " Ma2H-SIGNATURE:\t" + good,
		"with blanks around items":         "t=1749050910, jti=jti_01HZX7Q9Z3DEMOFIX ,\tv1=" + v1 + " \t",
		"with padding":                     good + "=",
		"with an item of a later version":  good + ",v2=abc=,ext-1_a=",
		"with names in another case":       good + ",T=1,JTI=x,V1=!",
		"with an unknown item many times":  "x=1,x=2," + good,
		"with an unknown item of no value": "x=," + good,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := header.Parse(value)
			if err != nil {
				t.Fatal(err)
			}
			if s.T != "1749050910" || s.Unix != 1749050910 || s.JTI != "jti_01HZX7Q9Z3DEMOFIX" || len(s.V1) != 1 || len(s.V1[0]) != 32 {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// report: B058
func TestSeveralSignaturesAreKeptInOrderUpToTheBound(t *testing.T) {
	s, err := header.Parse(good + ",v1=" + other)
	if err != nil || header.Format(s.Unix, s.JTI, s.V1...) != good+",v1="+other {
		t.Errorf("got %+v, %v", s, err)
	}
	s, err = header.Parse(good + strings.Repeat(",v1="+other, limits.MaxV1-1))
	if err != nil || len(s.V1) != limits.MaxV1 {
		t.Errorf("%d of %d v1, %v", len(s.V1), limits.MaxV1, err)
	}
	s, err = header.Parse(good + strings.Repeat(",v1="+other, limits.MaxV1))
	refused(t, s, err, header.RuleManyV1)
	s, err = header.Parse("t=1,jti=a,v1=!!,v1=" + v1)
	refused(t, s, err, header.RuleEncoding)
	s, err = header.Parse("t=1,jti=a,v1=" + v1 + ",v1=AAAA")
	refused(t, s, err, header.RuleShort)
}

// req: SIG-01 SIG-03 SIG-04
// report: B052 B057 B060
func TestRefusedHeadersNameTheRuleThatTheyBreak(t *testing.T) {
	mac := ",v1=" + v1
	for _, c := range []struct {
		value string
		rule  header.Rule
	}{
		{"", header.RuleAbsent},
		{" \t", header.RuleAbsent},
		{"MA2H-Signature:", header.RuleAbsent},
		{"MA2H-Signature: MA2H-Signature: " + good, header.RuleItem},
		{"MA2H-Signature " + good, header.RuleItem},
		{"MA2H-Signature : " + good, header.RuleItem},
		{"jti=a" + mac, header.RuleNoT},
		{"t=1" + mac, header.RuleNoJTI},
		{"t=1,jti=a", header.RuleNoV1},
		{"t=1,jti=a,v2=" + v1, header.RuleNoV1},

		{"t=1,jti=a,t=2" + mac, header.RuleTwoT},
		{"t=1,jti=a,t=1" + mac, header.RuleTwoT},
		{"t=1,jti=a,jti=b" + mac, header.RuleTwoJTI},
		{"t=1,jti=a,jti=a" + mac, header.RuleTwoJTI},

		{"t=,jti=a" + mac, header.RuleT},
		{"t=1e9,jti=a" + mac, header.RuleT},
		{"t=0x5f,jti=a" + mac, header.RuleT},
		{"t=-1,jti=a" + mac, header.RuleT},
		{"t=+1,jti=a" + mac, header.RuleT},
		{"t=1.0,jti=a" + mac, header.RuleT},
		{"t=01749050910,jti=a" + mac, header.RuleT},
		{"t=00,jti=a" + mac, header.RuleT},
		{"t==1,jti=a" + mac, header.RuleT},
		{"t=1_0,jti=a" + mac, header.RuleT},
		{"t=123456789012345678901234567890,jti=a" + mac, header.RuleT},
		{"t=" + strings.Repeat("9", limits.MaxTDigits+1) + ",jti=a" + mac, header.RuleT},

		{"t= 1,jti=a" + mac, header.RuleItem},
		{"t =1,jti=a" + mac, header.RuleItem},
		{"t=1 2,jti=a" + mac, header.RuleItem},
		{"t=1,jti=a b" + mac, header.RuleItem},
		{"t=1,jti=a\tb" + mac, header.RuleItem},
		{"t=1,jti=a,v1=" + v1[:9] + " " + v1[9:], header.RuleItem},
		{"t=1,jti=a,v1=" + v1[:9] + "\n" + v1[9:], header.RuleItem},
		{"t=1,jti=a\r\n" + mac, header.RuleItem},
		{"t=1,jti=é" + mac, header.RuleItem},
		{"t=1,jti=a\x7f" + mac, header.RuleItem},
		{"t=1,jti=a\x00" + mac, header.RuleItem},
		{"t=\u0661,jti=a" + mac, header.RuleItem},
		{"t=1,jti=a" + mac + ",", header.RuleItem},
		{"," + good, header.RuleItem},
		{"t=1,,jti=a" + mac, header.RuleItem},
		{good + ",x", header.RuleItem},
		{good + ",=x", header.RuleItem},
		{good + ",x y=1", header.RuleItem},
		{good + ",x=a b", header.RuleItem},
		{good + ",\u00e9=1", header.RuleItem},
		{"t=1;jti=a;v1=" + v1, header.RuleT},
		{"T=1,jti=a" + mac, header.RuleNoT},

		{"t=1,jti=" + mac, header.RuleJTI},
		{"t=1,jti=" + strings.Repeat("j", limits.MaxJTI+1) + mac, header.RuleJTI},
		{good + ",x=" + strings.Repeat("x", limits.MaxHeader-len(good)-2), header.RuleLength},
	} {
		s, err := header.Parse(c.value)
		t.Run(c.value[:min(len(c.value), 40)], func(t *testing.T) { refused(t, s, err, c.rule) })
	}
}

func TestValuesAtTheirBoundsAreAccepted(t *testing.T) {
	for _, value := range []string{
		"t=0,jti=a,v1=" + v1,
		"t=" + strings.Repeat("9", limits.MaxTDigits) + ",jti=a,v1=" + v1,
		"t=1,jti=" + strings.Repeat("j", limits.MaxJTI) + ",v1=" + v1,
		`t=1,jti=a="\b",v1=` + v1,
		good + ",x=" + strings.Repeat("x", limits.MaxHeader-len(good)-3),
	} {
		if _, err := header.Parse(value); err != nil {
			t.Errorf("%.40s: %v", value, err)
		}
	}
}

// req: SIG-01 SIG-03 GO-06
// report: B061
func TestExactlyOneHeaderLineIsRead(t *testing.T) {
	forged := "t=1749050910,jti=forged,v1=" + other
	h := http.Header{"Accept": {"*/*"}, "Ma2h-Signaturf": {forged}}
	h.Set(header.Name, good)
	if s, err := header.FromHTTP(h); err != nil || s.JTI != "jti_01HZX7Q9Z3DEMOFIX" {
		t.Errorf("canonical key: got %+v, %v", s, err)
	}
	for _, name := range []string{"MA2H-Signature", "ma2h-signature", "Ma2h-Signature"} {
		if s, err := header.FromHTTP(http.Header{name: {good}}); err != nil || s.T != "1749050910" {
			t.Errorf("%s: got %+v, %v", name, s, err)
		}
	}
	for name, h := range map[string]http.Header{
		"forged first":       {"Ma2h-Signature": {forged, good}},
		"forged last":        {"Ma2h-Signature": {good, forged}},
		"twice the same":     {"Ma2h-Signature": {good, good}},
		"two cases of name":  {"Ma2h-Signature": {good}, "ma2h-signature": {good}},
		"an empty one ahead": {"Ma2h-Signature": {"", good}},
	} {
		s, err := header.FromHTTP(h)
		t.Run(name, func(t *testing.T) { refused(t, s, err, header.RuleOneLine) })
	}
	for name, h := range map[string]http.Header{
		"nil": nil, "none": {"Accept": {good}}, "no line": {"Ma2h-Signature": {}}, "empty": {"Ma2h-Signature": {""}},
	} {
		s, err := header.FromHTTP(h)
		t.Run(name, func(t *testing.T) { refused(t, s, err, header.RuleAbsent) })
	}
	// An intermediary that folds two lines into one makes t stand twice.
	s, err := header.FromHTTP(http.Header{"Ma2h-Signature": {good + ", " + forged}})
	refused(t, s, err, header.RuleTwoT)
}

// req: SIG-08 GO-05 dp-025
func TestV1IsWellFormedByAlphabetPaddingAndLength(t *testing.T) {
	b, err := os.ReadFile("testdata/v1.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Value      string `json:"value"`
		WellFormed bool   `json:"well_formed"`
		Bytes      int    `json:"bytes"`
		Why        string `json:"why"`
	}
	if err := json.Unmarshal(b, &rows, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 23 {
		t.Fatalf("%d rows, 23 pinned", len(rows))
	}
	for _, r := range rows {
		t.Run(r.Why, func(t *testing.T) {
			s, err := header.Parse("t=1,jti=a,v1=" + r.Value)
			if r.WellFormed {
				if err != nil || len(s.V1) != 1 || len(s.V1[0]) != r.Bytes {
					t.Errorf("got %+v, %v", s, err)
				}
				return
			}
			e, ok := errors.AsType[*header.Error](err)
			if !ok || e.Rule != header.RuleEncoding && e.Rule != header.RuleShort && e.Rule != header.RuleItem {
				t.Errorf("got %v", err)
			}
		})
	}
	plain, _ := header.Parse(good)
	padded, _ := header.Parse(good + "=")
	if !bytes.Equal(plain.V1[0], padded.V1[0]) {
		t.Error("padding changes what is decoded")
	}
}

func TestErrorsHoldNothingOfTheHeader(t *testing.T) {
	_, err := header.Parse("t=1,jti=hunter2,v1=hunter2")
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "§9.2") {
		t.Errorf("got %v", err)
	}
}

var rules = []header.Rule{
	header.RuleAbsent, header.RuleOneLine, header.RuleLength, header.RuleItem, header.RuleNoT, header.RuleTwoT, header.RuleT, header.RuleNoJTI,
	header.RuleTwoJTI, header.RuleJTI, header.RuleNoV1, header.RuleManyV1, header.RuleEncoding, header.RuleShort,
}

var (
	named   = regexp.MustCompile(`(?i)^[ \t]*ma2h-signature:(.*)$`)
	anItem  = regexp.MustCompile(`^[ \t]*([A-Za-z0-9_-]+)=([!-~]*)[ \t]*$`)
	aTime   = regexp.MustCompile(`^(0|[1-9][0-9]{0,11})$`)
	anMAC   = regexp.MustCompile(`^([A-Za-z0-9_-]{43,})(=?=?)$`)
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// secondReading reads a header by regular expressions and with base64 done by
// hand.
func secondReading(value string) (header.Signature, bool) {
	none := header.Signature{}
	if len(value) > limits.MaxHeader || strings.ContainsAny(value, "\r\n") {
		return none, false
	}
	if m := named.FindStringSubmatch(value); m != nil {
		value = m[1]
	}
	fields := map[string][]string{}
	for _, item := range strings.Split(value, ",") {
		m := anItem.FindStringSubmatch(item)
		if m == nil {
			return none, false
		}
		fields[m[1]] = append(fields[m[1]], m[2])
	}
	t, jti, macs := fields["t"], fields["jti"], fields["v1"]
	if len(t) != 1 || !aTime.MatchString(t[0]) || len(jti) != 1 || jti[0] == "" || len(jti[0]) > limits.MaxJTI || len(macs) < 1 || len(macs) > limits.MaxV1 {
		return none, false
	}
	s := header.Signature{T: t[0], JTI: jti[0]}
	for _, c := range t[0] {
		s.Unix = 10*s.Unix + int64(c-'0')
	}
	for _, text := range macs {
		m := anMAC.FindStringSubmatch(text)
		if m == nil || len(m[1])%4 == 1 || m[2] != "" && len(m[2]) != (4-len(m[1])%4)%4 {
			return none, false
		}
		var mac []byte
		bits, n := 0, 0
		for _, c := range m[1] {
			bits, n = bits<<6|strings.IndexRune(letters, c), n+6
			if n >= 8 {
				mac, n = append(mac, byte(bits>>(n-8))), n-8
			}
			bits &= 1<<n - 1
		}
		s.V1 = append(s.V1, mac)
	}
	return s, true
}

// req: SIG-01, SIG-02, SIG-03, SIG-04, SIG-08
// report: B058, B060
func FuzzAnAcceptedHeaderRendersToTheSameFields(f *testing.F) {
	corpus := seeds.For(f)
	for _, s := range []string{
		good, header.Prefix + good, good + "=", "t=0 ,\tjti=a=b , v1=" + v1 + ",v1=" + other + ",x=", "t=1,jti=a,v1=" + v1[:42] + "d", good + ",v1=", good + ",", "," + good, good + ",=", good + ",t=1",
		good + ",jti=b", good + ",x=\x7f", good + ", x = y", "ma2h-SIGNATURE:" + good, header.Prefix + header.Prefix + good, "t=00,jti=a,v1=" + v1, "t=1234567890123,jti=a,v1=" + v1, "t=1,jti=a,v1=" + v1 + "==",
		"t=1,jti=a,v1=" + v1[:42], "t=1,jti=a,v1=" + strings.Replace(v1, "_", "/", 1), "t=1,jti=a" + strings.Repeat(",v1="+v1, limits.MaxV1+1), "t=1,jti=" + strings.Repeat("j", limits.MaxJTI+1) + ",v1=" + v1, "t=1,v1=" + v1, "",
	} {
		corpus.Add(s)
	}
	corpus.Counted(24)
	f.Fuzz(func(t *testing.T, value string) {
		s, err := header.Parse(value)
		if want, ok := secondReading(value); ok != (err == nil) || !reflect.DeepEqual(s, want) {
			t.Fatalf("%q: got %+v, %v, the second reader %+v, %t", value, s, err, want, ok)
		}
		if err != nil {
			if e, ok := errors.AsType[*header.Error](err); !ok || !slices.Contains(rules, e.Rule) {
				t.Fatalf("%q: untyped error %v", value, err)
			}
			return
		}
		if len(s.V1) == 0 || len(s.V1) > limits.MaxV1 || s.JTI == "" || strings.ContainsAny(s.JTI, " \t,\r\n\x00") {
			t.Fatalf("%q: got %+v", value, s)
		}
		again, err := header.Parse(header.Format(s.Unix, s.JTI, s.V1...))
		if err != nil || again.T != s.T || again.Unix != s.Unix || again.JTI != s.JTI || len(again.V1) != len(s.V1) {
			t.Fatalf("%q: got %+v, %v, had %+v", value, again, err, s)
		}
		for i := range s.V1 {
			if !bytes.Equal(again.V1[i], s.V1[i]) || len(s.V1[i]) < header.MinV1 {
				t.Fatalf("%q: v1 %d changed", value, i)
			}
		}
		if prefixed, err := header.Parse(header.Prefix + header.Format(s.Unix, s.JTI, s.V1...)); err != nil || prefixed.JTI != s.JTI {
			t.Fatalf("%q: the prefix changes the result: %v", value, err)
		}
	})
}

func BenchmarkFromHTTP(b *testing.B) {
	h := http.Header{"Accept": {"*/*"}, "Content-Type": {"application/json"}, "User-Agent": {"hub"}, "Content-Length": {"700"}, "X-Forwarded-For": {"::1"}}
	h.Set(header.Name, good)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := header.FromHTTP(h); err != nil {
			b.Fatal(err)
		}
	}
}
