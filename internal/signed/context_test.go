package signed_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/header"
	"github.com/ma2h/ma2h-go/internal/signed"
	"github.com/ma2h/ma2h-go/types"
)

// req: CTX-R2 CTX-R3 CTX-D CTX-A
func TestEveryRowOfTheTableStandsInCanonicalOrder(t *testing.T) {
	lists := signed.Orders()
	if len(lists) != 7 {
		t.Errorf("%d lists, 7 pinned", len(lists))
	}
	for _, l := range lists {
		if len(l) == 0 || !slices.IsSorted(l) || len(slices.Compact(slices.Clone(l))) != len(l) {
			t.Errorf("%v is not in order", l)
		}
		for _, name := range l {
			if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_0123456789") != "" {
				t.Errorf("%q would need escaping", name)
			}
		}
	}
}

// req: SGR-04 VER-02 VER-03 VER-04
func TestTheMinorOfTheBodyAloneChoosesTheContext(t *testing.T) {
	for _, c := range []struct {
		kind         signed.Kind
		major, minor int
		ok, bound    bool
	}{
		{signed.Response, 0, 0, false, false},
		{signed.Response, 0, 1, false, false},
		{signed.Response, 0, 2, true, false},
		{signed.Response, 0, 3, true, true},
		{signed.Response, 0, 4, true, true},
		{signed.Response, 0, 99, true, true},
		{signed.Response, 1, 3, false, false},
		{signed.Directive, 0, 3, false, false},
		{signed.Directive, 0, 4, true, true},
		{signed.Directive, 0, 99, true, true},
		{signed.Directive, 1, 4, false, false},
		{signed.Ack, 0, 3, false, false},
		{signed.Ack, 0, 4, true, true},
		{0, 0, 4, false, false},
	} {
		ctx, ok := signed.For(c.kind, types.Version{Major: c.major, Minor: c.minor})
		if ok != c.ok || ok && ctx.BindsPayload() != c.bound || !ok && ctx != nil {
			t.Errorf("kind %d at %d.%d: got %v, %v", c.kind, c.major, c.minor, ctx, ok)
		}
	}
}

func TestAMemberThatCannotBeSignedIsNamed(t *testing.T) {
	const (
		response = `{"ma2h_version":"0.3","in_reply_to":"m","resolution":"answered","resolution_id":"r","response":{"resolved_at":"T"}}`
		in       = "in"
	)
	inputs := signed.Inputs{CallbackURL: "https://a.example/", T: "1", JTI: "j"}
	for _, c := range []struct {
		name     string
		old, new string
		change   func(*signed.Inputs)
		member   string
		problem  string
	}{
		{name: "no in_reply_to", old: `"in_reply_to":"m",`, member: "in_reply_to", problem: signed.ProblemAbsent},
		{name: "in_reply_to null", old: `"m"`, new: `null`, member: "in_reply_to", problem: signed.ProblemNotString},
		{name: "resolution a number", old: `"answered"`, new: `1`, member: "resolution", problem: signed.ProblemNotString},
		{name: "resolution_id an object", old: `"r"`, new: `{"resolution_id":"r"}`, member: "resolution_id", problem: signed.ProblemNotString},
		{name: "no version", old: `"ma2h_version":"0.3",`, member: "ma2h_version", problem: signed.ProblemAbsent},
		{name: "name in another case", old: `"resolution"`, new: `"Resolution"`, member: "resolution", problem: signed.ProblemAbsent},
		{name: "response a list", old: `{"resolved_at":"T"}`, new: `["resolved_at"]`, member: "response", problem: signed.ProblemNotObject},
		{name: "response empty", old: `{"resolved_at":"T"}`, new: `{}`, member: "response.resolved_at", problem: signed.ProblemAbsent},
		{name: "resolved_at null", old: `"T"`, new: `null`, member: "response.resolved_at", problem: signed.ProblemNotString},
		{name: "resolved_at a number", old: `"T"`, new: `1`, member: "response.resolved_at", problem: signed.ProblemNotString},
		{name: "no callback URL", change: func(in *signed.Inputs) { in.CallbackURL = "" }, member: "callback_url", problem: signed.ProblemEmpty},
		{name: "callback URL not UTF-8", change: func(in *signed.Inputs) { in.CallbackURL = "\xff" }, member: "callback_url", problem: signed.ProblemUnicode},
		{name: "no t", change: func(in *signed.Inputs) { in.T = "" }, member: "t", problem: signed.ProblemEmpty},
		{name: "no jti", change: func(in *signed.Inputs) { in.JTI = "" }, member: "jti", problem: signed.ProblemEmpty},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, in := response, inputs
			if c.change != nil {
				c.change(&in)
			} else if text = strings.Replace(response, c.old, c.new, 1); text == response {
				t.Fatal("nothing changed")
			}
			doc, err := canon.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			ctx, _ := signed.ForResponse(types.Version{Minor: 3})
			dst, err := ctx.Append([]byte("before"), doc, in)
			e, ok := errors.AsType[*signed.Error](err)
			if !ok || e.Member != c.member || e.Problem != c.problem {
				t.Errorf("got %v, want %s %s", err, c.member, c.problem)
			}
			if string(dst) != "before" {
				t.Errorf("dst became %q", dst)
			}
		})
	}
	doc, _ := canon.Parse([]byte(response))
	ctx, _ := signed.ForResponse(types.Version{Minor: 3})
	if _, err := ctx.Append(nil, doc, inputs); err != nil {
		t.Errorf("the text that the cases vary: %v", err)
	}
}

// req: SIG-04
func TestInputsAndStringsEnterTheContextInCanonicalForm(t *testing.T) {
	doc, err := canon.Parse([]byte(`{"ma2h_version":"0.2","in_reply_to":"\u006d\u00f6\/\u001F","resolution":"answered","resolution_id":"r"}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := signed.ForResponse(types.Version{Minor: 2})
	got, err := ctx.Append(nil, doc, signed.Inputs{CallbackURL: "https://a.example/ö?<&>", T: "000", JTI: `j"\`})
	want := `{"callback_url":"https://a.example/ö?<&>","id":"mö/\u001f","in_reply_to":"mö/\u001f","jti":"j\"\\","ma2h_version":"0.2","resolution":"answered","resolution_id":"r","resolved_at":null,"t":"000"}`
	if err != nil || string(got) != want {
		t.Errorf("got\n%s, %v, want\n%s", got, err, want)
	}
	if ctx.Digest(doc) != [sha256.Size]byte{} {
		t.Error("a context without payload has a digest")
	}
}

// req: AMB-42
// report: B051
func TestAbsentAndNullPayloadsShareADigestAndEmptyOnesDoNot(t *testing.T) {
	ctx, _ := signed.ForResponse(types.Version{Minor: 3})
	digest := func(text string) [sha256.Size]byte {
		doc, err := canon.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return ctx.Digest(doc)
	}
	absent := digest(`{}`)
	if absent != sha256.Sum256([]byte(`{"response":null,"state":null}`)) {
		t.Error("absent members are not digested as null")
	}
	for _, text := range []string{`{"response":null}`, `{"state":null}`, `{"state":null,"response":null}`} {
		if digest(text) != absent {
			t.Errorf("%s has a digest of its own", text)
		}
	}
	for _, text := range []string{`{"response":{}}`, `{"response":""}`, `{"state":{}}`, `{"state":""}`, `{"state":[]}`, `{"state":"null"}`} {
		if digest(text) == absent {
			t.Errorf("%s has the digest of nothing", text)
		}
	}
}

// req: AMB-04
func TestTheVersionIsReadFromTheBodyOnly(t *testing.T) {
	for text, want := range map[string]types.Version{
		`{"ma2h_version":"0.3"}`:      {Minor: 3},
		`{"ma2h_version":"\u0030.4"}`: {Minor: 4},
	} {
		doc, _ := canon.Parse([]byte(text))
		if v, err := signed.Version(doc); err != nil || v != want {
			t.Errorf("%s: got %v, %v", text, v, err)
		}
	}
	for text, problem := range map[string]string{
		`{}`:                               signed.ProblemAbsent,
		`{"Ma2h_version":"0.3"}`:           signed.ProblemAbsent,
		`{"agent":{"ma2h_version":"0.3"}}`: signed.ProblemAbsent,
		`{"ma2h_version":0.3}`:             signed.ProblemNotString,
		`{"ma2h_version":null}`:            signed.ProblemNotString,
	} {
		doc, _ := canon.Parse([]byte(text))
		_, err := signed.Version(doc)
		if e, ok := errors.AsType[*signed.Error](err); !ok || e.Member != "ma2h_version" || e.Problem != problem {
			t.Errorf("%s: got %v", text, err)
		}
	}
	doc, _ := canon.Parse([]byte(`{"ma2h_version":"1.0"}`))
	if _, err := signed.Version(doc); !errors.Is(err, types.ErrVersion) {
		t.Errorf("another major: got %v", err)
	}
}

// pushed is a Response of about 700 bytes as a Hub pushes it.
var pushed = []byte(`{"ma2h_version":"0.3","in_reply_to":"msg_01HZXASK0001","resolution_id":"res_01HZXR3SOLVE",` +
	`"agent":{"id":"deploybot/dev-team","run_id":"run_01HZXRUN0001"},"resolution":"answered","response":{"value":"hold",` +
	`"edited":false,"actor":"human:alice","resolved_at":"2026-06-04T15:48:30Z","comment":"Let's get a human eye on it first."},` +
	`"defaulted":false,"state":{"sealed":"` + strings.Repeat("MA2HSEALv1", 34) + `"}}`)

const pushedHeader = "t=1749050910,jti=jti_01HZX7Q9Z3DEMOFIX,v1=Ryfm6kkeIKl80WEanB__dxoyL6bg5yFF33bRpu_3cxc"

func BenchmarkParseAndAppend(b *testing.B) {
	b.SetBytes(int64(len(pushed)))
	b.ReportAllocs()
	buf := make([]byte, 0, 1024)
	for b.Loop() {
		if _, err := contextOf(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func contextOf(buf []byte) ([]byte, error) {
	sig, err := header.Parse(pushedHeader)
	if err != nil {
		return nil, err
	}
	doc, err := canon.Parse(pushed)
	if err != nil {
		return nil, err
	}
	v, err := signed.Version(doc)
	if err != nil {
		return nil, err
	}
	ctx, _ := signed.ForResponse(v)
	return ctx.Append(buf, doc, signed.Inputs{CallbackURL: "https://deploybot.example/ma2h/resume", T: sig.T, JTI: sig.JTI})
}

// BenchmarkHashes is the yardstick of BenchmarkParseAndAppend, which holds the
// SHA-256 but not the HMAC: what the two cost alone.
func BenchmarkHashes(b *testing.B) {
	text, err := contextOf(nil)
	if err != nil {
		b.Fatal(err)
	}
	key := []byte("ma2h-test-secret-key-0123456789ab")
	b.SetBytes(int64(len(pushed)))
	b.ReportAllocs()
	for b.Loop() {
		sha256.Sum256(pushed)
		m := hmac.New(sha256.New, key)
		m.Write(text)
		m.Sum(nil)
	}
}

// The least of many runs counts: the race detector empties pools at random.
func TestAContextCostsAHandfulOfAllocations(t *testing.T) {
	buf := make([]byte, 0, 1024)
	least := 1e9
	for range 100 {
		least = min(least, testing.AllocsPerRun(1, func() { _, _ = contextOf(buf) }))
	}
	if least > 6 {
		t.Errorf("%v allocations from header and body to context, want at most 6", least)
	}
}
