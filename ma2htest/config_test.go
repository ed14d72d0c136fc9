package ma2htest_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

const module = "github.com/ma2h/ma2h-go"

func shipQuestion(key string) ma2h.Ask {
	return ma2h.Ask{Title: "Ship?", IdempotencyKey: key, AllowedResolvers: []string{"human:alice"}, Request: ma2h.Confirm()}
}

func TestAConfigReachesTheHubInMemoryInsideABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := ma2htest.NewHub(t, ma2htest.Options{PathPrefix: "/hub"})
		c, err := ma2h.NewClient(hub.Config("bot/a"))
		if err != nil {
			t.Fatal(err)
		}
		ack, err := c.Ask(t.Context(), shipQuestion("k"))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, func() {
			if err := hub.Answer(ack.ID, "approve"); err != nil {
				t.Error(err)
			}
		})
		if r, err := c.Wait(t.Context(), ack.ID); err != nil || !r.Answered("approve") {
			t.Fatal(r, err)
		}
		if m, _ := hub.Message(ack.ID); m.AgentID != "bot/a" {
			t.Errorf("asked as %s", m.AgentID)
		}
	})
}

func TestAConfigReachesTheHubOverTLS(t *testing.T) {
	hub := ma2htest.NewHub(t, ma2htest.Options{PathPrefix: "/hub"})
	cfg := hub.ConfigTLS("bot/a")
	if !strings.HasPrefix(cfg.HubURL, "https://127.0.0.1:") {
		t.Errorf("URL %s", cfg.HubURL)
	}
	c, err := ma2h.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ask(t.Context(), shipQuestion("k")); err != nil {
		t.Fatal(err)
	}
	hub.RequireMessages(t, 1)
	// A client that does not trust the Hub's certificate gets nowhere.
	cfg.HTTPClient = nil
	c, err = ma2h.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ask(t.Context(), shipQuestion("k2")); err == nil {
		t.Error("an unknown certificate was taken")
	}
	hub.RequireMessages(t, 1)
}

func TestTwoAgentsHaveTwoConfigs(t *testing.T) {
	hub := ma2htest.NewHub(t)
	first, err := ma2h.NewClient(hub.Config("bot/a"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := hub.Config("bot/b")
	cfg.Credential = hub.Config("bot/a").Credential
	second, err := ma2h.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Ask(t.Context(), shipQuestion("k")); err != nil {
		t.Error(err)
	}
	if _, err := second.Ask(t.Context(), shipQuestion("k")); err == nil {
		t.Error("one agent asked with the credential of another")
	}
}

// imports lists what each non-test file of the module imports, by path from
// its root.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != ".." {
			return filepath.SkipDir // another module
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), "../")
		out[name] = []string{}
		for _, im := range f.Imports {
			p, err := strconv.Unquote(im.Path.Value)
			if err != nil {
				return err
			}
			out[name] = append(out[name], p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 60 {
		t.Fatalf("found only %d files", len(out))
	}
	return out
}

// arrow says that files under from may import of the module only to. The first
// that fits a file counts.
type arrow struct {
	from string
	to   []string
}

var arrows = []arrow{
	{"internal/", []string{"internal/", "types"}},
	{"types/", []string{"internal/strict", "internal/limits"}},
	{"schema/", []string{"types", "internal/"}},
	// The fake shares no code with the client that signs, canonicalises or
	// reads: two implementations meet in every test.
	{"ma2htest/config.go", []string{"", "types"}},
	// The suite for Hubs is on its own, so that it agrees with neither by birth.
	{"ma2htest/hubtest/", nil},
	{"ma2htest/", []string{"types", "schema", "internal/limits"}},
	{"store/storetest/", []string{"", "types", "internal/limits", "ma2htest"}},
	{"store/", []string{"", "store/", "types", "internal/limits"}},
	{"ghactions/", []string{"", "types", "internal/limits"}},
}

// broken returns the import that no arrow allows, or "".
func broken(file string, paths []string) string {
	for _, a := range arrows {
		if !strings.HasPrefix(file, a.from) {
			continue
		}
		for _, p := range paths {
			rest, ours := strings.CutPrefix(p, module)
			if !ours || rest != "" && rest[0] != '/' {
				continue
			}
			rest = strings.TrimPrefix(rest, "/")
			if !slices.ContainsFunc(a.to, func(to string) bool {
				return rest == to || strings.HasSuffix(to, "/") && strings.HasPrefix(rest, to)
			}) {
				return p
			}
		}
		break
	}
	return ""
}

func TestImportsPointDownOnly(t *testing.T) {
	for file, paths := range imports(t) {
		if p := broken(file, paths); p != "" {
			t.Errorf("%s imports %s", file, p)
		}
		if !strings.Contains(file, "/") && slices.ContainsFunc(paths, func(p string) bool {
			return strings.HasPrefix(p, module+"/ma2htest") || strings.HasPrefix(p, module+"/store") || strings.HasPrefix(p, module+"/examples")
		}) {
			t.Errorf("%s of the root imports from above", file)
		}
	}
	for file, path := range map[string]string{
		"types/x.go": module, "types/y.go": module + "/internal/canon", "internal/strict/x.go": module, "schema/x.go": module,
		"ma2htest/hub.go": module, "ma2htest/sign.go": module + "/internal/signed", "ma2htest/a.go": module + "/internal/canon",
		"ma2htest/b.go": module + "/internal/strict", "ma2htest/c.go": module + "/internal/header", "ma2htest/d.go": module + "/internal/transport",
		"ma2htest/config.go": module + "/internal/strict", "ma2htest/hubtest/a.go": module + "/types", "ma2htest/hubtest/b.go": module + "/ma2htest",
		"ma2htest/hubtest/c.go": module, "ma2htest/hubtest/d.go": module + "/internal/limits",
	} {
		if broken(file, []string{"fmt", path}) == "" {
			t.Errorf("the rule lets %s import %s", file, path)
		}
	}
}

func TestNoCodeButThatForTestsImportsTesting(t *testing.T) {
	for file, paths := range imports(t) {
		for _, p := range paths {
			forTests := strings.HasPrefix(file, "ma2htest/") || strings.HasPrefix(file, "store/storetest/")
			if (p == "testing" || strings.HasPrefix(p, "testing/")) && !forTests {
				t.Errorf("%s imports %s", file, p)
			}
		}
	}
}
