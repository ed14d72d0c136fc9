package store_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
)

// overtaken is a replay store that lets another copy of a delivery come to its
// end just before the claim of the first.
type overtaken struct {
	ma2h.ReplayStore
	before func()
}

func (o *overtaken) ClaimJTI(ctx context.Context, key string, lease, keep time.Duration) (ma2h.ReplayState, error) {
	if f := o.before; f != nil {
		o.before = nil
		f()
	}
	return o.ReplayStore.ClaimJTI(ctx, key, lease, keep)
}

// A Hub that sends the same bytes twice must hear 200 for both, or it takes
// the answer for undelivered (§8.3).
//
// req: RPL-05
func TestACopyThatIsOvertakenByAnotherIsAnsweredAsDone(t *testing.T) {
	for name, act := range map[string]struct {
		err          error
		first, other int
		acts         int
	}{
		"the other acted":      {first: http.StatusOK, other: http.StatusOK, acts: 1},
		"the other failed too": {err: context.Canceled, first: http.StatusServiceUnavailable, other: http.StatusServiceUnavailable, acts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
			if err != nil {
				t.Fatal(err)
			}
			replay := &overtaken{ReplayStore: s}
			v, err := ma2h.NewVerifier(ma2h.VerifierConfig{Keys: ma2h.Keys(ma2h.HMACKey(secret)), CallbackURL: callbackURL, AgentID: agentID, Replay: replay})
			if err != nil {
				t.Fatal(err)
			}
			acts := 0
			h, err := ma2h.NewCallbackHandler(ma2h.CallbackConfig{Verifier: v, Ledger: s, SingleReplica: true, Handle: func(context.Context, *ma2h.Response) error {
				acts++
				return act.err
			}})
			if err != nil {
				t.Fatal(err)
			}
			d := newDecision(1)
			signature, err := d.sign()
			if err != nil {
				t.Fatal(err)
			}
			head := http.Header{"Ma2h-Signature": {signature}}
			var other ma2h.Outcome
			replay.before = func() { other = h.Process(t.Context(), head, d.body) }
			first := h.Process(t.Context(), head, d.body)
			if first.Status != act.first || other.Status != act.other || acts != act.acts {
				t.Errorf("answers %d and %d after %d acts: %v, %v", first.Status, other.Status, acts, first.Err, other.Err)
			}
		})
	}
}
