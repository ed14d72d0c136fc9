package hubtest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// Result is what became of a row.
type Result struct {
	Failed, Skipped bool
	Text            string
}

// Observe runs those rows of the suite without a test to fail, and returns what
// became of each by its id.
func Observe(t testing.TB, target Target, which func(id string) bool) map[string]Result {
	t.Helper()
	s, err := newSuite(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]Result)
	for _, row := range allRows() {
		if !which(row.id) {
			continue
		}
		rec := &record{ctx: t.Context()}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.run(rec, row)
		}()
		<-done
		out[row.id] = rec.Result
	}
	return out
}

// record is a reporter that notes.
type record struct {
	Result
	ctx context.Context
}

func (r *record) Helper()                  {}
func (r *record) Context() context.Context { return r.ctx }

func (r *record) Errorf(format string, args ...any) {
	r.Failed = true
	r.Text += fmt.Sprintf(format, args...) + "\n"
}

func (r *record) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *record) Skipf(format string, args ...any) {
	r.Skipped = true
	r.Text += fmt.Sprintf(format, args...) + "\n"
	runtime.Goexit()
}

// RowIDs are the rows in order; RowNames the names of their subtests.
func RowIDs() (ids []string) {
	for _, r := range allRows() {
		ids = append(ids, r.id)
	}
	return ids
}

func RowNames() (names []string) {
	for _, r := range allRows() {
		names = append(names, r.name())
	}
	return names
}

// Needs is what a row names as what it cannot do without.
func Needs(id string) (needs []string) {
	for _, r := range allRows() {
		for _, n := range r.needs {
			if r.id == id {
				needs = append(needs, n.what)
			}
		}
	}
	return needs
}

// What the suite reads and verifies with.
var (
	Read      = read
	Canonical = canonical
	Digest    = digestOf
	Same      = same
	Awkward   = awkward
)

// VerifyPush is what the suite makes of a body and a header, for a Response if
// url is set, for an acknowledgment if ack is, and else for a directive.
func VerifyPush(text []byte, header, url string, ack bool, keys []Key, now time.Time) error {
	body, err := readObject(text)
	if err != nil {
		return err
	}
	s, err := readSignature(header)
	if err != nil {
		return err
	}
	context := directiveContext(body)
	if url != "" {
		context = responseContext(body, url)
	} else if ack {
		context = ackContext(body)
	}
	return context.verify(s, keys, now)
}

// Refuses is the error for a Target that makes no sense.
func Refuses(t testing.TB, target Target) error {
	_, err := newSuite(t.Context(), target)
	return err
}

// Wrong is a header whose signature is over a mistaken context. Without What it
// is over the right one.
type Wrong struct{ What, Header string }

// SignWrongly signs a Response in all the ways that the suite has a name for.
func SignWrongly(t testing.TB, text []byte, url string, secret []byte, now time.Time) []Wrong {
	t.Helper()
	body, err := readObject(text)
	if err != nil {
		t.Fatal(err)
	}
	c := responseContext(body, url)
	digest, err := c.digest()
	if err != nil {
		t.Fatal(err)
	}
	s := signature{t: fmt.Sprint(now.Unix()), jti: "jti_1"}
	sign := func(what string, change func(object)) Wrong {
		context := c.build(digest, s)
		change(context)
		b, err := canonical(context)
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write(b)
		return Wrong{what, "t=" + s.t + ",jti=" + s.jti + ",v1=" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))}
	}
	list := []Wrong{sign("", func(object) {})}
	for _, m := range mistakes {
		wrong := c.build(digest, s)
		if m.make(wrong); !same(wrong, c.build(digest, s)) {
			list = append(list, sign(m.what, m.make))
		}
	}
	if len(list) < len(mistakes) { // one of the two about a slash changes nothing
		t.Fatalf("%d of %d mistakes are none", len(mistakes)-len(list), len(mistakes))
	}
	return list
}
