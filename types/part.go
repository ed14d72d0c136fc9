package types

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/go-json-experiment/json"
)

// PartKind discriminates a Part (§4.2).
type PartKind string

// The kinds of a Part.
const (
	PartText PartKind = "text"
	PartData PartKind = "data"
	PartFile PartKind = "file"
)

// Part is one attachment: exactly one of Text, Data and File, as Kind says
// (§4.2).
type Part struct {
	Kind     PartKind // which of the three it is
	Text     string   // Kind text
	Data     Raw      // Kind data: a JSON object
	File     *File    // Kind file
	Metadata Raw      // optional JSON object
}

// File points at an attachment. Nothing in this library fetches URI.
type File struct {
	URI      string `json:"uri"`                // where it is
	Name     string `json:"name,omitzero"`      // what to call it
	MIMEType string `json:"mime_type,omitzero"` // such as text/x-diff
}

type wirePart struct {
	Kind     PartKind `json:"kind"`
	Text     *string  `json:"text,omitzero"`
	Data     Raw      `json:"data,omitzero"`
	File     *File    `json:"file,omitzero"`
	Metadata Raw      `json:"metadata,omitzero"`
}

// MarshalJSON writes the member that Kind names.
func (p Part) MarshalJSON() ([]byte, error) {
	w := wirePart{Kind: p.Kind, Data: p.Data, File: p.File, Metadata: p.Metadata}
	if p.Kind == PartText || p.Text != "" {
		w.Text = &p.Text
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads a Part and refuses one that has not exactly the member
// of its kind.
func (p *Part) UnmarshalJSON(b []byte) error {
	var w wirePart
	if err := Decode(b, &w); err != nil {
		return err
	}
	var seen []string
	if w.Text != nil {
		seen = append(seen, "text")
	}
	if w.Data != nil {
		seen = append(seen, "data")
	}
	if w.File != nil {
		seen = append(seen, "file")
	}
	if len(seen) != 1 || seen[0] != string(w.Kind) {
		got := "none of text, data, file"
		if len(seen) > 0 {
			got = strings.Join(seen, ", ")
		}
		return &FieldError{Field: "context[]", Problem: "is of kind " + Quote(string(w.Kind)) + " and has " + got, Section: "§4.2"}
	}
	*p = Part{Kind: w.Kind, Data: w.Data, File: w.File, Metadata: w.Metadata}
	if w.Text != nil {
		p.Text = *w.Text
	}
	return nil
}

// Validate returns a *FieldError for the first rule of §4.2 that p breaks.
func (p *Part) Validate() error {
	var c checker
	var want PartKind
	n := 0
	if p.Text != "" || p.Kind == PartText {
		want, n = PartText, n+1
	}
	if p.Data != nil {
		want, n = PartData, n+1
	}
	if p.File != nil {
		want, n = PartFile, n+1
	}
	if n != 1 || want != p.Kind {
		c.fail("§4.2", "kind", "is %s with %d of text, data, file set; it takes exactly the one it names", Quote(string(p.Kind)), n)
	}
	if p.Data != nil {
		c.object("§4.2", "data", p.Data)
	}
	if p.File != nil {
		c.uri("§4.2", "file.uri", p.File.URI)
	}
	if p.Metadata != nil {
		c.object("§4.2", "metadata", p.Metadata)
	}
	return c.err
}

func (p Part) summary() summary { return summarize("Part", "kind", string(p.Kind)) }

// Format prints the kind.
func (p Part) Format(f fmt.State, _ rune) { p.summary().write(f) }

// LogValue logs what Format prints.
func (p Part) LogValue() slog.Value { return p.summary().LogValue() }

// Format prints the type alone.
func (x File) Format(f fmt.State, _ rune) { summarize("File").write(f) }

// LogValue logs the type alone.
func (x File) LogValue() slog.Value { return summarize("File").LogValue() }
