package ma2h_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	. "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/seeds"
)

// goldenHandles is how many files there are. A file is never changed or taken
// away: the handles of every release are read by all later ones.
const goldenHandles = 4

// req: SUB-16
func TestTheHandlesOfEveryReleaseAreRead(t *testing.T) {
	files, err := filepath.Glob("testdata/handles/*.json")
	if err != nil || len(files) != goldenHandles {
		t.Fatalf("%d files, %d pinned, %v", len(files), goldenHandles, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var golden struct {
			Note   string `json:"note"`
			Text   string `json:"text"`
			Handle Handle `json:"handle"`
			Writes bool   `json:"writes"` // this release writes the same text
		}
		if err := json.Unmarshal(b, &golden, json.RejectUnknownMembers(true)); err != nil || golden.Note == "" || golden.Text == "" || golden.Handle.MessageID == "" {
			t.Fatalf("%s: %v", file, err)
		}
		got, err := ParseHandle(golden.Text)
		if err != nil || got != golden.Handle {
			t.Errorf("%s reads as %+v, %v", file, got, err)
		}
		if golden.Writes && golden.Handle.String() != golden.Text {
			t.Errorf("%s is written as %s", file, golden.Handle)
		}
	}
}

// req: SUB-16
func TestAHandleSurvivesAsAString(t *testing.T) {
	long := strings.Repeat("ö", limits.MaxIDLen/2)
	for _, h := range []Handle{
		{MessageID: "m", AgentID: "a"},
		{MessageID: "msg_1", AgentID: trustAgent, IdempotencyKey: "ship-1.4"},
		{MessageID: long, AgentID: long, IdempotencyKey: long},
		{MessageID: "\"\\\n<>&", AgentID: "a/b c", IdempotencyKey: "\x00"},
	} {
		s := h.String()
		for _, c := range s {
			if c <= ' ' || c > '~' || strings.ContainsRune(`"'$\`+"`"+`=,;`, c) {
				t.Fatalf("%q holds %q, which does not survive everywhere", s, c)
			}
		}
		for _, text := range []string{s, " " + s + "\n", s + "\r\n"} {
			if got, err := ParseHandle(text); err != nil || got != h {
				t.Errorf("%+v became %+v, %v", h, got, err)
			}
		}
	}
	ack := AckOf(trustAgent, "msg_1", "ship-1.4")
	if h := ack.Handle(); h != (Handle{"msg_1", trustAgent, "ship-1.4"}) {
		t.Errorf("the handle of an Ack is %+v", h)
	}
}

func TestATextThatIsNoHandleIsRefused(t *testing.T) {
	encode := func(s string) string { return HandlePrefix + base64.RawURLEncoding.EncodeToString([]byte(s)) }
	good := encode(`{"id":"m","agent":"a"}`)
	if _, err := ParseHandle(good); err != nil {
		t.Fatal(err)
	}
	if h, err := ParseHandle(encode(`{"id":"m","agent":"a","later":{"x":1}}`)); err != nil || h.MessageID != "m" {
		t.Errorf("a handle of a later release: %v", err)
	}
	// 23 bytes leave two bits of the last character unused.
	stray := encode(`{"id":"m","agent":"ab"}`)
	if _, err := ParseHandle(stray); err != nil {
		t.Fatal(err)
	}
	stray = stray[:len(stray)-1] + string(stray[len(stray)-1]+1)
	for name, text := range map[string]string{
		"nothing":                "",
		"the prefix":             HandlePrefix,
		"another prefix":         "ma2h-handle2." + strings.TrimPrefix(good, HandlePrefix),
		"the prefix in capitals": strings.ToUpper(HandlePrefix) + strings.TrimPrefix(good, HandlePrefix),
		"no prefix":              strings.TrimPrefix(good, HandlePrefix),
		"padding":                good + "==",
		"a line end inside":      good[:20] + "\n" + good[20:],
		"standard base64":        HandlePrefix + "++//",
		"stray bits":             stray,
		"no JSON":                encode("handle"),
		"two handles":            encode(`{"id":"m","agent":"a"}{"id":"n","agent":"a"}`),
		"an array":               encode(`["m","a"]`),
		"no id":                  encode(`{"agent":"a"}`),
		"an empty id":            encode(`{"id":"","agent":"a"}`),
		"no agent":               encode(`{"id":"m"}`),
		"an id twice":            encode(`{"id":"m","id":"n","agent":"a"}`),
		"an id of another case":  encode(`{"ID":"m","agent":"a"}`),
		"a number as id":         encode(`{"id":1,"agent":"a"}`),
		"a number as key":        encode(`{"id":"m","agent":"a","key":1}`),
		"a null id":              encode(`{"id":null,"agent":"a"}`),
		"bad UTF-8":              encode("{\"id\":\"\xff\",\"agent\":\"a\"}"),
		"a long id":              encode(`{"id":"` + strings.Repeat("m", limits.MaxIDLen+1) + `","agent":"a"}`),
		"a long agent":           encode(`{"id":"m","agent":"` + strings.Repeat("m", limits.MaxIDLen+1) + `"}`),
		"a long text":            encode(`{"id":"m","agent":"a","x":"` + strings.Repeat("m", 1<<20) + `"}`),
		"a deep text":            encode(strings.Repeat("[", 2000)),
	} {
		h, err := ParseHandle(text)
		if !errors.Is(err, ErrMalformed) || h != (Handle{}) {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}

// The longest text of a handle that is looked at has 4096 characters.
func TestATextOfAHandleIsBounded(t *testing.T) {
	pad := func(n int) string {
		text := `{"id":"m","agent":"a"}`
		return HandlePrefix + base64.RawURLEncoding.EncodeToString([]byte(text+strings.Repeat(" ", n-len(text))))
	}
	if h, err := ParseHandle(pad(3072)); err != nil || h.MessageID != "m" {
		t.Errorf("3072 bytes: %v", err)
	}
	for _, text := range []string{pad(3073), HandlePrefix + strings.Repeat("A", 4097)} {
		if h, err := ParseHandle(text); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "handle of 409") || h != (Handle{}) {
			t.Errorf("%d characters: %v", len(text), err)
		}
	}
}

func TestAHandleThatCannotBeWrittenIsNone(t *testing.T) {
	if s := (Handle{MessageID: "\xff", AgentID: "a"}).String(); s != "" {
		t.Errorf("bad UTF-8 is written as %q", s)
	}
}

func FuzzAHandleThatIsReadIsWrittenAsItWas(f *testing.F) {
	corpus := seeds.For(f)
	whole := Handle{"msg_1", trustAgent, "ship"}.String()
	for _, s := range []string{
		Handle{MessageID: "m", AgentID: "a"}.String(), whole, " " + whole + "\n", whole + "==", whole[:20] + "\n" + whole[20:], strings.ToUpper(whole), HandlePrefix + whole,
		HandlePrefix + "e30", HandlePrefix, "x", "",
	} {
		corpus.Add(s)
	}
	corpus.Counted(11)
	f.Fuzz(func(t *testing.T, s string) {
		h, err := ParseHandle(s)
		if err != nil {
			if h != (Handle{}) || !errors.Is(err, ErrMalformed) {
				t.Errorf("%q: %+v, %v", s, h, err)
			}
			return
		}
		if back, err := ParseHandle(h.String()); err != nil || back != h {
			t.Errorf("%q: %+v became %+v, %v", s, h, back, err)
		}
	})
}
