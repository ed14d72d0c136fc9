package ma2h_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What an agent takes on with this package is named here: no more modules come
// in unseen, and nothing that only the fake Hub or the stores need.
func TestTheImportCostsWhatItIsKnownToCost(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if .Standard}}std{{else}}{{.Module.Path}}{{end}} {{.ImportPath}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	var modules, packages []string
	for line := range strings.Lines(string(out)) {
		module, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		packages = append(packages, path)
		modules = append(modules, module)
	}
	slices.Sort(modules)
	want := []string{
		"github.com/go-json-experiment/json", "github.com/google/jsonschema-go", "github.com/hashicorp/go-cleanhttp",
		"github.com/hashicorp/go-retryablehttp", "github.com/ma2h/ma2h-go", "golang.org/x/crypto", "golang.org/x/sys", "std",
	}
	if got := slices.Compact(modules); !slices.Equal(got, want) {
		t.Errorf("modules %q", got)
	}
	if n := len(packages); n > 225 {
		t.Errorf("%d packages, 225 are allowed", n)
	}
	for _, path := range packages {
		switch {
		case path == "testing", path == "net/http/httptest", path == "database/sql", path == "flag", path == "os/exec", path == "go/ast":
			t.Errorf("it takes in %s", path)
		}
	}
}
