package types

import (
	"fmt"
	"log/slog"
	"strconv"
)

// Action is what a task wants done by hand (§5.3).
type Action struct {
	Instructions     string          `json:"instructions"`
	Checklist        []ChecklistItem `json:"checklist,omitempty"`
	Verification     string          `json:"verification,omitzero"`
	AllowedResolvers []string        `json:"allowed_resolvers,omitempty"`
	Callback         *Callback       `json:"callback,omitzero"`
}

// ChecklistItem is one step of a task.
type ChecklistItem struct {
	Text string `json:"text"` // the step
	Done bool   `json:"done"` // whether it is done
}

type wireChecklistItem struct {
	Text *string `json:"text"`
	Done bool    `json:"done"`
}

// UnmarshalJSON reads an item and refuses one without text.
func (i *ChecklistItem) UnmarshalJSON(b []byte) error {
	var w wireChecklistItem
	if err := Decode(b, &w); err != nil {
		return err
	}
	if w.Text == nil {
		return &FieldError{Field: "checklist[]", Problem: "lacks text", Section: "§5.3"}
	}
	*i = ChecklistItem{Text: *w.Text, Done: w.Done}
	return nil
}

type wireAction struct {
	Instructions     *string         `json:"instructions"`
	Checklist        []ChecklistItem `json:"checklist"`
	Verification     string          `json:"verification"`
	AllowedResolvers []string        `json:"allowed_resolvers"`
	Callback         *Callback       `json:"callback"`
}

// UnmarshalJSON reads an Action and refuses one without instructions.
func (a *Action) UnmarshalJSON(b []byte) error {
	var w wireAction
	if err := Decode(b, &w); err != nil {
		return err
	}
	if w.Instructions == nil {
		return &FieldError{Field: "action", Problem: "lacks instructions", Section: "§5.3"}
	}
	*a = Action{*w.Instructions, w.Checklist, w.Verification, w.AllowedResolvers, w.Callback}
	return nil
}

// Validate returns a *FieldError for the first rule of §5.3 that a breaks.
func (a *Action) Validate() error {
	var c checker
	c.resolvers(a.AllowedResolvers)
	if a.Callback != nil {
		c.under("callback", a.Callback.Validate())
	}
	return c.err
}

func (a Action) summary() summary {
	return summarize("Action", "checklist", strconv.Itoa(len(a.Checklist)))
}

// Format prints the length of the checklist.
func (a Action) Format(f fmt.State, _ rune) { a.summary().write(f) }

// LogValue logs what Format prints.
func (a Action) LogValue() slog.Value { return a.summary().LogValue() }

// Format prints the type alone.
func (i ChecklistItem) Format(f fmt.State, _ rune) { summarize("ChecklistItem").write(f) }

// LogValue logs the type alone.
func (i ChecklistItem) LogValue() slog.Value { return summarize("ChecklistItem").LogValue() }
