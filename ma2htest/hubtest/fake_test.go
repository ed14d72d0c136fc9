package hubtest_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/ma2htest/hubtest"
	"github.com/ma2h/ma2h-go/types"
)

var start = time.Date(2026, 6, 4, 12, 0, 0, 0, time.UTC)

const (
	agentOne = "probe/one"
	agentTwo = "probe/two"
)

// fake is the fake Hub as a Target, with all that it can do.
func fake(hub *ma2htest.Hub) hubtest.Target {
	return hubtest.Target{
		BaseURL:    hub.MemoryURL(),
		HTTPClient: &http.Client{Transport: hub.Transport()},
		Agent: hubtest.Agent{
			ID: agentOne, Credential: hubtest.Bearer(hub.Token(agentOne)), Second: hubtest.APIKey(hub.APIKey(agentOne)),
		},
		Other: hubtest.Agent{ID: agentTwo, Credential: hubtest.Bearer(hub.Token(agentTwo))},
		Owner: hubtest.Bearer(hub.OwnerToken()),
		Human: hubtest.Human{
			ID: "human:alice", Stranger: "human:mallory",
			Resolve: func(_ context.Context, r hubtest.Resolution) error { return resolve(hub, r) },
			Withdraw: func(_ context.Context, id string) error {
				return hub.Withdraw(id)
			},
			Delete: func(_ context.Context, id string) error {
				if !hub.Forget(id) {
					return fmt.Errorf("no message %s", id)
				}
				return nil
			},
			Direct: func(_ context.Context, d hubtest.Directive) (string, error) {
				return hub.SendDirective(d.AgentID, ma2htest.DirectiveDraft{
					From: d.From, Title: d.Title, Body: d.Body, Priority: types.Priority(d.Priority), Tags: d.Tags, ExpiresAt: d.ExpiresAt,
				})
			},
			PushAck: func(_ context.Context, id string, handler http.Handler) error {
				url := newURL()
				hub.ServeCallback(url, handler)
				return hub.PushAck(url, id)
			},
		},
		Clock: hub,
		Held: func(ctx context.Context, agentID, messageID string) error {
			if messageID == "" {
				return hub.AwaitDrain(ctx, agentID)
			}
			return hub.AwaitHold(ctx, messageID)
		},
		Callback:      callbacks(hub),
		Webhook:       webhooks(hub),
		DirectiveKeys: keys(hub),
		AckKeys:       keys(hub),
		// Everything is in memory, so there is nothing that a restart could lose:
		// what these rows do to a Hub that does lose it is shown with the broken
		// Hubs.
		Restart: func(context.Context) error { return nil },
	}
}

func resolve(hub *ma2htest.Hub, r hubtest.Resolution) error {
	by := []ma2htest.ResolveOption{ma2htest.By(r.By)}
	if r.Comment != "" {
		by = append(by, ma2htest.Comment(r.Comment))
	}
	switch r.Outcome {
	case "answered":
		return hub.Answer(r.MessageID, r.Value, by...)
	case "declined":
		return hub.Decline(r.MessageID, by...)
	case "completed":
		return hub.Complete(r.MessageID, by...)
	case "dismissed":
		return hub.Dismiss(r.MessageID, by...)
	}
	return fmt.Errorf("no outcome %q", r.Outcome)
}

func keys(hub *ma2htest.Hub) []hubtest.Key {
	var out []hubtest.Key
	for _, k := range hub.Keys() {
		if public := k.Public(); public != nil {
			out = append(out, hubtest.Ed25519Key(public))
		} else {
			out = append(out, hubtest.HMACKey([]byte(k.Secret())))
		}
	}
	return out
}

var urls atomic.Int64

func newURL() string { return fmt.Sprintf("https://probe.example/ma2h/%d", urls.Add(1)) }

func callbacks(hub *ma2htest.Hub) func(context.Context, string, http.Handler) (hubtest.Callback, error) {
	return func(_ context.Context, scheme string, handler http.Handler) (hubtest.Callback, error) {
		cb := hubtest.Callback{URL: newURL(), Ref: "env:PROBE", Keys: keys(hub)}
		hub.ServeCallback(cb.URL, handler)
		if scheme == "" {
			return cb, nil
		}
		secret := "the secret of " + cb.URL
		if scheme == "hmac" {
			// Of the secrets only that of the callback's reference (§9.2).
			cb.Keys = []hubtest.Key{hubtest.HMACKey([]byte(secret)), hubtest.Ed25519Key(hub.SigningPublicKey())}
		}
		return cb, hub.RegisterCallback(agentOne, cb.URL, map[string]string{cb.Ref: secret})
	}
}

func webhooks(hub *ma2htest.Hub) func(context.Context, http.Handler) (func(), error) {
	return func(_ context.Context, handler http.Handler) (func(), error) {
		url := newURL()
		hub.ServeCallback(url, handler)
		stop := func() {
			_ = hub.RegisterDirectiveWebhook(agentOne, "")
			hub.ServeCallback(url, nil)
		}
		return stop, hub.RegisterDirectiveWebhook(agentOne, url)
	}
}
