package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

func ExampleNewResumer() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	ctx := context.Background()

	// The first run asks, keeps the handle and exits.
	first, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	question := ma2h.Approval{Title: "Delete the backups of 2019?", By: []string{"human:alice"}, IdempotencyKey: ma2h.KeyOf("backups", "2019")}
	ack, err := first.AskApproval(ctx, question)
	if err != nil {
		log.Fatal(err)
	}
	kept := ack.Handle().String()

	if err := hub.Answer(ack.ID, "approve", ma2htest.By("human:alice")); err != nil {
		log.Fatal(err)
	}

	// The second, on a clean machine, goes on: the Hub's acknowledgment decides
	// that it alone acts.
	second, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	resumer, err := ma2h.NewResumer(ma2h.ResumeConfig{
		Client: second,
		Act: func(_ context.Context, r *ma2h.Response) error {
			fmt.Println("approved:", question.Judge(r).Approved())
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	handle, err := ma2h.ParseHandle(kept)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := resumer.Resume(ctx, handle); err != nil {
		log.Fatal(err)
	}
	_, err = resumer.Resume(ctx, handle)
	fmt.Println("twice:", !errors.Is(err, ma2h.ErrAlreadyActed) && !errors.Is(err, ma2h.ErrInDoubt))
	// Output:
	// approved: true
	// twice: false
}

// The second run gets the push itself, as a relay has passed it on. Package
// ghactions reads it from the event file of a GitHub Actions job.
func ExampleResumer_Deliver() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	const callbackURL = "https://bot.example/ma2h/resume"
	var delivery ma2h.Delivery
	hub.ServeCallback(callbackURL, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			delivery = ma2h.Delivery{Header: r.Header, Body: body}
		}
	}))
	if err := askAndShip(hub, cfg, callbackURL, 1); err != nil {
		log.Fatal(err)
	}

	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	memory, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		Keys: ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())), CallbackURL: callbackURL, AgentID: cfg.Agent.ID, Replay: memory,
	})
	if err != nil {
		log.Fatal(err)
	}
	resumer, err := ma2h.NewResumer(ma2h.ResumeConfig{
		Client: client, Verifier: verifier,
		Act: func(_ context.Context, r *ma2h.Response) error {
			fmt.Println("ship:", r.Answered("ship") && r.By("human:alice"))
			return nil
		},
		Note: func(*ma2h.Response) string { return "Got it, going on." },
	})
	if err != nil {
		log.Fatal(err)
	}
	resp, err := resumer.Deliver(context.Background(), delivery)
	fmt.Println(err, resp.Pulled())
	// Output:
	// ship: true
	// <nil> false
}

// A process that waited acts once too, also if it is started again: the Ledger
// remembers.
func ExampleResumer_Response() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	answerNext(hub, ma2h.ValueApprove)
	ctx := context.Background()
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ledger, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{}) // one that outlives a restart is in package store
	if err != nil {
		log.Fatal(err)
	}
	resumer, err := ma2h.NewResumer(ma2h.ResumeConfig{
		Client: client, Ledger: ledger,
		Act: func(_ context.Context, r *ma2h.Response) error {
			fmt.Println("acting on", r.Resolution())
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ack, err := client.AskApproval(ctx, ma2h.Approval{Title: "Ship?", By: []string{"human:alice"}, IdempotencyKey: ma2h.NewKey()})
	if err != nil {
		log.Fatal(err)
	}
	resp, err := client.Wait(ctx, ack.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resumer.Response(ctx, resp))
	fmt.Println(errors.Is(resumer.Response(ctx, resp), ma2h.ErrAlreadyActed))
	// Output:
	// acting on answered
	// <nil>
	// true
}
