package schema

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// A directory holds what changed with its minor; a file that it lacks is that
// of the nearest earlier one. References are relative, so an inherited file
// that refers to message.json means the message of the version it is read for.
//
//go:embed files
var files embed.FS

var versions = []string{"0.2", "0.3", "0.4"}

// Files that only others refer to.
var shared = []string{"common", "since"}

const scheme = "ma2h"

type key struct{ version, name string }

type body struct {
	uri      string
	resolved *jsonschema.Resolved
}

type bundle struct {
	bodies map[key]body
	docs   map[string]*jsonschema.Schema // by URI without fragment
}

var load = sync.OnceValues(func() (*bundle, error) {
	b := &bundle{bodies: map[key]body{}, docs: map[string]*jsonschema.Schema{}}
	for i, version := range versions {
		for _, name := range namesUpTo(i) {
			uri := scheme + ":///v" + version + "/" + name + ".json"
			u, err := url.Parse(uri)
			if err != nil {
				return nil, err
			}
			root, err := b.open(u)
			if err != nil {
				return nil, err
			}
			resolved, err := root.Resolve(&jsonschema.ResolveOptions{BaseURI: uri, Loader: b.open})
			if err != nil {
				return nil, fmt.Errorf("ma2h: schema %s of %s: %w", name, version, err)
			}
			b.bodies[key{version, name}] = body{uri, resolved}
		}
	}
	return b, nil
})

func namesUpTo(last int) []string {
	var out []string
	for _, version := range versions[:last+1] {
		entries, err := files.ReadDir("files/v" + version)
		if err != nil {
			continue
		}
		for _, e := range entries {
			name := strings.TrimSuffix(e.Name(), ".json")
			if !slices.Contains(out, name) && !slices.Contains(shared, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// open reads a schema out of the binary. It is the validator's only loader.
func (b *bundle) open(uri *url.URL) (*jsonschema.Schema, error) {
	version, ok := strings.CutPrefix(path.Dir(uri.Path), "/v")
	last := slices.Index(versions, version)
	if !ok || last < 0 || uri.Scheme != scheme {
		return nil, fmt.Errorf("ma2h: no schema is embedded at %s", uri)
	}
	for i := last; i >= 0; i-- {
		text, err := files.ReadFile("files/v" + versions[i] + "/" + path.Base(uri.Path))
		if err != nil {
			continue
		}
		// The validator's own type reads with encoding/json; the text is ours.
		s := new(jsonschema.Schema)
		if err := json.Unmarshal(text, s); err != nil {
			return nil, fmt.Errorf("ma2h: schema %s: %w", uri, err)
		}
		b.docs[uri.String()] = s
		return s, nil
	}
	return nil, fmt.Errorf("ma2h: no schema is embedded at %s", uri)
}
