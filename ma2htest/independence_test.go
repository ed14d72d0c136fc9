package ma2htest

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Two implementations meet in every test of a signature only as long as this
// one shares no code with the library's.
func TestTheFakeSignsWithCodeOfItsOwn(t *testing.T) {
	const module = "github.com/ma2h/ma2h-go"
	allowed := []string{module + "/types", module + "/schema"}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		read++
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			config := file == "config.go" && path == module
			if strings.HasPrefix(path, module) && !config && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
	if read < 20 {
		t.Fatalf("%d files were read", read)
	}
}
