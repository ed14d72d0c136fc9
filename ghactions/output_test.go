package ghactions

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// parseOutputs reads an output file as the runner does.
func parseOutputs(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if lines[i] == "" {
			continue
		}
		name, marker, heredoc := strings.Cut(lines[i], "<<")
		if !heredoc {
			name, value, ok := strings.Cut(lines[i], "=")
			if !ok {
				t.Fatalf("line %d is neither name=value nor name<<marker", i)
			}
			out[name] = value
			continue
		}
		var value []string
		for i++; i < len(lines) && strings.TrimSuffix(lines[i], "\r") != marker; i++ {
			value = append(value, lines[i])
		}
		if i == len(lines) {
			t.Fatal("an output without its end")
		}
		out[name] = strings.Join(value, "\n")
	}
	return out
}

// report: B097
func TestAValueCannotSetAnotherOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	t.Setenv("GITHUB_OUTPUT", path)
	values := map[string]string{
		"a": "ok\nEOF\nvalue=ship\n",
		"b": "ok\r\nEOF\r\nvalue=ship\r\n",
		"c": "no newline at the end",
		"d": "",
		"e": "x<<EOF\ny\nEOF",
		"f": "::set-output name=value::ship",
	}
	for name, v := range values {
		if err := WriteOutput(name, v); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := parseOutputs(t, string(text))
	if len(got) != len(values) {
		t.Errorf("%d outputs, want %d", len(got), len(values))
	}
	for name, v := range values {
		if got[name] != v {
			t.Errorf("output %s is %q, want %q", name, got[name], v)
		}
	}
}

func TestAValueWithItsOwnMarkerIsRefused(t *testing.T) {
	if _, err := outputEntry("a", "x\nMARKER\nvalue=ship", "MARKER"); err == nil {
		t.Error("a value with the marker was accepted")
	}
	if _, err := outputEntry("a", "x", "MARKER"); err != nil {
		t.Error(err)
	}
	first, _ := outputEntry("a", "x", "M1")
	if !strings.HasPrefix(first, "\na<<M1\n") {
		t.Errorf("entry %q", first)
	}
}

func TestAnOutputNameIsANameAndNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	t.Setenv("GITHUB_OUTPUT", path)
	for _, name := range []string{"", "1a", "a=b", "a<<X\nb", "a b", "a\n", strings.Repeat("a", 101)} {
		if err := WriteOutput(name, "v"); err == nil {
			t.Errorf("name %q was accepted", name)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("something was written")
	}
	t.Setenv("GITHUB_OUTPUT", "")
	if err := WriteOutput("a", "v"); err == nil {
		t.Error("wrote without a file")
	}
}

// report: B124
func TestASensitiveValueIsMaskedLineByLineBeforeItCanShow(t *testing.T) {
	var b strings.Builder
	value := "-----BEGIN KEY-----\r\nAAA%0ABBB\n\nCCC\n-----END KEY-----\n"
	if err := Mask(&b, value); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	masked := map[string]bool{}
	for _, l := range lines {
		rest, ok := strings.CutPrefix(l, "::add-mask::")
		if !ok {
			t.Errorf("a line outside a mask command: %q", l)
		}
		masked[rest] = true
	}
	for _, want := range []string{"-----BEGIN KEY-----", "AAA%250ABBB", "CCC", "-----END KEY-----", base64.StdEncoding.EncodeToString([]byte(value))} {
		if !masked[want] {
			t.Errorf("%q is not masked", want)
		}
	}
	b.Reset()
	if err := Mask(&b, " \n"); err != nil || b.Len() != 0 {
		t.Errorf("a blank value was masked: %q, %v", b.String(), err)
	}
}
