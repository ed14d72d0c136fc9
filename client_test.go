package ma2h_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

const agentID = "deploybot/dev-team"

// config reaches hub in memory.
func config(hub *ma2htest.Hub) ma2h.Config {
	cfg := configTLS(hub)
	_ = cfg
	return ma2h.Config{
		HubURL:     "https://hub.test",
		Credential: ma2h.Bearer(hub.Token(agentID)),
		Agent:      ma2h.Agent{ID: agentID, Runtime: ma2h.RuntimeCLI},
	}
}
func configTLS(hub *ma2htest.Hub) ma2h.Config { return ma2h.Config{} }

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := ma2htest.NewHub(t)
		cfg := config(hub)
		cfg.HTTPClient = hubClient(hub)
		c, err := ma2h.NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		ack, err := c.Ask(ctx, ma2h.Ask{Title: "Ship?", IdempotencyKey: "k", AllowedResolvers: []string{"human:alice"}, Request: ma2h.Select(ma2h.Option{Value: "ship", Label: "Ship"}, ma2h.Option{Value: "hold", Label: "Hold"})})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(23 * time.Hour)
			if err := hub.Answer(ack.ID, "ship", ma2htest.By("human:alice")); err != nil {
				t.Error(err)
			}
		}()
		r, err := c.Wait(ctx, ack.ID)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(r, r.Answered("ship"), len(hub.Requests()))
		a, err := c.Acknowledge(ctx, ack.ID, "on it")
		t.Log(a, err)
	})
}

func hubClient(h *ma2htest.Hub) *http.Client { return &http.Client{Transport: h.Transport()} }
