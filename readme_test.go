package ma2h_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

var codeBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// Code in a document is code that is compiled and run here.
func TestTheCodeInTheDocumentsIsTakenFromCodeThatRuns(t *testing.T) {
	var sources []string
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "example_test.go") && !strings.HasPrefix(path, "examples/") {
			return err
		}
		text, err := os.ReadFile(path)
		sources = append(sources, flat(string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	docs := []string{"README.md"}
	more, err := fs.Glob(os.DirFS("."), "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, doc := range append(docs, more...) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range codeBlock.FindAllStringSubmatch(string(text), -1) {
			blocks++
			found := false
			for _, s := range sources {
				found = found || strings.Contains(s, flat(m[1]))
			}
			if !found {
				t.Errorf("%s has code that is in no example:\n%s", doc, m[1])
			}
		}
	}
	if blocks == 0 {
		t.Error("no code block was found")
	}
}

// flat is text without its indentation.
func flat(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t "))
	}
	return b.String()
}
