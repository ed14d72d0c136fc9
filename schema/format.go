package schema

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/ma2h/ma2h-go/types"
)

// formats checks the format keywords, which the validator takes as remarks,
// by the functions that the types use. It follows what holds for every
// instance ($ref, allOf, properties, items) and leaves conditions alone: no
// schema of ours has a format under one.
func (b *bundle) formats(uri string, v any) (path, rule string) {
	w := formatWalk{docs: b.docs}
	w.walk(uri, b.docs[uri], v)
	return joinPath(w.at), w.rule
}

type formatWalk struct {
	docs map[string]*jsonschema.Schema
	at   []string // where the first violation is, once rule is set
	rule string
}

func (w *formatWalk) walk(uri string, s *jsonschema.Schema, v any) {
	if s == nil || w.rule != "" {
		return
	}
	if text, ok := v.(string); ok && !validFormat(s.Format, text) {
		w.rule = "format " + s.Format
		return
	}
	if s.Ref != "" {
		to, target := w.follow(uri, s.Ref)
		w.walk(to, target, v)
	}
	for _, sub := range s.AllOf {
		w.walk(uri, sub, v)
	}
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(s.Properties))
		for name := range s.Properties {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if member, ok := v[name]; ok {
				w.step(name, uri, s.Properties[name], member)
			}
		}
	case []any:
		for i, item := range v {
			w.step("["+strconv.Itoa(i)+"]", uri, s.Items, item)
		}
	}
}

func (w *formatWalk) step(name, uri string, s *jsonschema.Schema, v any) {
	if w.rule != "" {
		return
	}
	depth := len(w.at)
	w.at = append(w.at, name)
	w.walk(uri, s, v)
	if w.rule == "" {
		w.at = w.at[:depth]
	}
}

func (w *formatWalk) follow(uri, ref string) (string, *jsonschema.Schema) {
	base, err := url.Parse(uri)
	if err != nil {
		return "", nil
	}
	to, err := base.Parse(ref)
	if err != nil {
		return "", nil
	}
	fragment := to.Fragment
	to.Fragment = ""
	s := w.docs[to.String()]
	if def, ok := strings.CutPrefix(fragment, "/$defs/"); ok && s != nil {
		s = s.Defs[def]
	}
	return to.String(), s
}

func validFormat(format, text string) bool {
	switch format {
	case "date-time":
		return types.ValidTimestamp(text)
	case "uri":
		return types.ValidURI(text)
	}
	return true
}
