package hubtest_test

import (
	"context"
	"testing"

	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/ma2htest/hubtest"
)

// The test of a Hub, here the fake one. Yours begins with what it can do; the
// rows that are skipped say what more there is.
func ExampleRun() {
	testMyHub := func(t *testing.T) {
		hub := ma2htest.NewHub(t)
		hubtest.Run(t, hubtest.Target{
			BaseURL:    hub.URL(),
			HTTPClient: hub.Client(),
			Agent:      hubtest.Agent{ID: "probe/one", Credential: hubtest.Bearer(hub.Token("probe/one"))},
			Other:      hubtest.Agent{ID: "probe/two", Credential: hubtest.Bearer(hub.Token("probe/two"))},
			Clock:      hub, // it has Now and Advance
			Human: hubtest.Human{
				ID: "human:alice",
				Resolve: func(_ context.Context, r hubtest.Resolution) error {
					by := ma2htest.By(r.By)
					switch r.Outcome {
					case "answered":
						return hub.Answer(r.MessageID, r.Value, by, ma2htest.Comment(r.Comment))
					case "declined":
						return hub.Decline(r.MessageID, by, ma2htest.Comment(r.Comment))
					case "completed":
						return hub.Complete(r.MessageID, by, ma2htest.Comment(r.Comment))
					}
					return hub.Dismiss(r.MessageID, by, ma2htest.Comment(r.Comment))
				},
			},
			Exempt: map[string]string{
				"pull.since.unchanged": "our Hub does not keep when a status changed",
			},
		})
	}
	_ = testMyHub
}
