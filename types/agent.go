package types

import (
	"fmt"
	"log/slog"
)

// Runtime is where an agent runs (§4.1).
type Runtime string

// The runtimes.
const (
	RuntimeGitHubActions Runtime = "github-actions"
	RuntimeCLI           Runtime = "cli"
	RuntimeCloud         Runtime = "cloud"
	RuntimeDesktop       Runtime = "desktop"
	RuntimeOpenClaw      Runtime = "openclaw"
	RuntimeOther         Runtime = "other"
)

// Known reports whether r is one of the listed runtimes.
func (r Runtime) Known() bool {
	switch r {
	case RuntimeGitHubActions, RuntimeCLI, RuntimeCloud, RuntimeDesktop, RuntimeOpenClaw, RuntimeOther:
		return true
	}
	return false
}

// Agent describes the origin of a message (§4.1). ID is the stable identity
// that the credential is scoped to; RunID is this invocation and authorizes
// nothing.
type Agent struct {
	ID      string            `json:"id"`               // stable identity, such as deploybot/dev-team: what the credential is scoped to
	RunID   string            `json:"run_id"`           // this invocation; authorizes nothing
	Runtime Runtime           `json:"runtime"`          // where it runs
	Project string            `json:"project,omitzero"` // groups agents for the human
	Labels  map[string]string `json:"labels,omitempty"` // free-form, such as the model
}

// Validate returns a *FieldError for the first rule of §4.1 that a breaks.
func (a *Agent) Validate() error {
	var c checker
	c.id("§4.1", "id", a.ID)
	c.id("§4.1", "run_id", a.RunID)
	if !a.Runtime.Known() {
		c.fail("§4.1", "runtime", "is %s, not a runtime of the protocol", Quote(string(a.Runtime)))
	}
	return c.err
}

func (a Agent) summary() summary {
	return summarize("Agent", "id", a.ID, "run_id", a.RunID, "runtime", string(a.Runtime))
}

// Format prints the ids and the runtime. Labels and project are free text.
func (a Agent) Format(f fmt.State, _ rune) { a.summary().write(f) }

// LogValue logs what Format prints.
func (a Agent) LogValue() slog.Value { return a.summary().LogValue() }
