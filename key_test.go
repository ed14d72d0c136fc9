package ma2h_test

import (
	"regexp"
	"testing"

	"github.com/ma2h/ma2h-go"
)

const goldenKey = "key_emgeyq3obnclwsqo2iziqrqhqb2h5i5p"

var keyForm = regexp.MustCompile(`^key_[a-z2-7]{26,32}$`)

// req: SUB-15
func TestAMadeUpKeyIsNeverMadeTwice(t *testing.T) {
	seen := map[string]bool{}
	for range 10_000 {
		k := ma2h.NewKey()
		if seen[k] || !keyForm.MatchString(k) {
			t.Fatalf("%q", k)
		}
		seen[k] = true
	}
}

// req: SUB-15
func TestTheSameFactsGiveTheSameKeyAndNoOthersDo(t *testing.T) {
	// What was made once must be made by every later release: it is what a
	// restarted agent finds its question by.
	if got := ma2h.KeyOf("repo", "1f2e", "prod"); got != goldenKey || !keyForm.MatchString(got) {
		t.Errorf("%s, want %s", got, goldenKey)
	}
	seen := map[string][]string{}
	for _, parts := range [][]string{
		nil, {""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"ab"}, {"a", "b"}, {"ab", ""}, {"a", "b", ""}, {"b", "a"}, {"A"}, {"a\x00b"}, {"a", "\x00b"}, {"\x00"},
	} {
		k := ma2h.KeyOf(parts...)
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q give one key", parts, other)
		}
		seen[k] = parts
		if again := ma2h.KeyOf(parts...); again != k {
			t.Errorf("%q gives %s and %s", parts, k, again)
		}
	}
}
