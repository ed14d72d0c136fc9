package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

func ExampleInbox_Consume() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		DirectiveKeys: ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())), AgentID: cfg.Agent.ID, Replay: store,
	})
	if err != nil {
		log.Fatal(err)
	}
	inbox, err := ma2h.NewInbox(ma2h.InboxConfig{Client: client, Verifier: verifier, Ledger: store, SingleReplica: true})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := hub.SendDirective(cfg.Agent.ID, ma2htest.DirectiveDraft{From: "human:alice", Title: "Pause deploys"}); err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	err = inbox.Consume(ctx, func(_ context.Context, d *ma2h.Directive) error {
		fmt.Println(d.From(), "says:", d.Title())
		stop() // for the example: what is done is still acknowledged
		return nil
	}, ma2h.ConsumeOptions{Authorize: ma2h.AllowFrom("human:alice")})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// human:alice says: Pause deploys
	// true
}

// Drain is for an agent that looks into its mailbox now and then and does what
// Consume does by itself: who may, once, acknowledge.
func ExampleInbox_Drain() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	ctx := context.Background()
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		DirectiveKeys: ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())), AgentID: cfg.Agent.ID, Replay: store,
	})
	if err != nil {
		log.Fatal(err)
	}
	inbox, err := ma2h.NewInbox(ma2h.InboxConfig{Client: client, Verifier: verifier})
	if err != nil {
		log.Fatal(err)
	}
	for _, from := range []string{"human:alice", "human:mallory"} {
		if _, err := hub.SendDirective(cfg.Agent.ID, ma2htest.DirectiveDraft{From: from, Title: "Pause deploys"}); err != nil {
			log.Fatal(err)
		}
	}
	mayInstruct := ma2h.AllowFrom("human:alice")
	entries, err := inbox.Drain(ctx, ma2h.DrainOptions{})
	if err != nil {
		log.Print(err) // of those that were rejected; the others are in entries
	}
	for _, e := range entries {
		if !mayInstruct(e.From()) {
			fmt.Println(e.From(), "may not")
			continue
		}
		fmt.Println(e.From(), "says:", e.Title())
		if err := e.Ack(ctx, "Paused."); err != nil {
			log.Print(err) // the Hub delivers it again
		}
	}
	// Output:
	// human:alice says: Pause deploys
	// human:mallory may not
}
