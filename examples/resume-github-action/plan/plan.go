// Package plan is what the two halves of the job share.
package plan

import (
	"os"

	ma2h "github.com/ma2h/ma2h-go"
)

// Approvers may decide about a deployment.
var Approvers = []string{"human:alice"}

// Plan is what the second half goes on with. It travels sealed.
type Plan struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
}

// Key identifies the question about p: asked once, however often a job runs.
func (p Plan) Key() string { return ma2h.KeyOf("ship", p.Version, p.Commit) }

// Sealer has the key that the repository's secrets hold for this agent. It is
// not the callback secret, and never leaves the runner.
func Sealer(agentID string) (*ma2h.Sealer, error) {
	return ma2h.NewSealer(ma2h.SealerConfig{
		Keys:    []ma2h.SealKey{ma2h.SealKeyHex("2026-11", os.Getenv("MA2H_SEAL_KEY"))},
		AgentID: agentID,
	})
}
