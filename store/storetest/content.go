package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"testing"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

// A store holds no content, and an outbox no more than was sent.
func content(t *testing.T, b Backend) {
	if b.Dump == nil {
		t.Skip("needs Backend.Dump")
	}
	const agent, human = "canary-agent/team", "human:alice"
	const title, answer, comment, secret, token = "canary-title", "canary-answer", "canary-comment", "canary-secret", "canary-token"
	b.run(t, []sentence{
		{"Acting on an answer leaves nothing of the question, the answer or the state", func(t *testing.T, s *subject) {
			hub := ma2htest.NewHub(t)
			c := client(t, hub, agent, nil)
			ack := ask(t, c, title, answer, secret, agent)
			if err := hub.Answer(ack.ID, answer, ma2htest.By(human), ma2htest.Comment(comment)); err != nil {
				t.Fatal(err)
			}
			acted := 0
			r, err := ma2h.NewResumer(ma2h.ResumeConfig{Client: c, Ledger: s, Act: func(_ context.Context, r *ma2h.Response) error {
				acted++
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Resume(t.Context(), ack.Handle()); err != nil || acted != 1 {
				t.Fatalf("Resume: %v, acted %d times", err, acted)
			}
			s.claim(t, "jti\x00"+secret, 0, long)
			dump := b.Dump(t, s.address)
			if len(dump) == 0 {
				t.Fatal("the dump is empty")
			}
			for _, canary := range []string{title, answer, comment, secret, token, agent, human} {
				if bytes.Contains(dump, []byte(canary)) {
					t.Errorf("the store holds %s", canary)
				}
			}
		}},
		{"Sealed state in the outbox stays sealed and no credential comes there", func(t *testing.T, s *subject) {
			o, ok := s.Store.(ma2h.Outbox)
			if !ok {
				t.Skip("the store is no outbox")
			}
			hub := ma2htest.NewHub(t)
			c := client(t, hub, agent, o)
			ask(t, c, title, answer, secret, agent)
			dump := b.Dump(t, s.address)
			if !bytes.Contains(dump, []byte(title)) {
				t.Fatal("the outbox does not hold the message")
			}
			for _, canary := range []string{secret, hub.Token(agent)} {
				if bytes.Contains(dump, []byte(canary)) {
					t.Errorf("the outbox holds %.14s", canary)
				}
			}
		}},
	})
}

func client(t testing.TB, hub *ma2htest.Hub, agent string, o ma2h.Outbox) *ma2h.Client {
	t.Helper()
	c, err := ma2h.NewClient(ma2h.Config{
		HubURL: hub.URL(), HTTPClient: hub.Client(), Credential: ma2h.Bearer(hub.Token(agent)), Agent: ma2h.Agent{ID: agent}, Outbox: o,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ask(t testing.TB, c *ma2h.Client, title, answer, secret, agent string) *ma2h.Ack {
	t.Helper()
	key := sha256.Sum256([]byte("a key of this test"))
	sealer, err := ma2h.NewSealer(ma2h.SealerConfig{Keys: []ma2h.SealKey{ma2h.SealKeyRaw("k1", key[:])}, AgentID: agent})
	if err != nil {
		t.Fatal(err)
	}
	state, err := sealer.Seal(map[string]string{"plan": secret}, ma2h.Bind(agent, "key"))
	if err != nil {
		t.Fatal(err)
	}
	ack, err := c.Ask(t.Context(), ma2h.Ask{
		Title: title, IdempotencyKey: "key", AllowedResolvers: []string{"human:alice"}, State: state,
		Request: ma2h.Select(ma2h.Option{Value: answer, Label: "yes"}, ma2h.Option{Value: "no", Label: "no"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ack
}
