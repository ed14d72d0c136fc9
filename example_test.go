package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

// The examples talk to a fake Hub in memory, in which somebody answers.

func exampleHub() (*ma2htest.Hub, ma2h.Config) {
	hub, err := ma2htest.New(ma2htest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return hub, hub.Config("deploybot/dev-team")
}

// answerNext answers the next message that reaches the Hub.
func answerNext(hub *ma2htest.Hub, value any) {
	go func() {
		m, err := hub.Next(context.Background())
		if err == nil {
			err = hub.Answer(m.ID, value, ma2htest.By("human:alice"))
		}
		if err != nil {
			log.Print(err)
		}
	}()
}

func dropTable(context.Context) error { fmt.Println("dropped"); return nil }

func dropIfApproved(ctx context.Context, cfg ma2h.Config) error {
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		return err
	}
	verdict, err := client.Approve(ctx, ma2h.Approval{
		Title: "Drop table users?", By: []string{"human:alice"},
	})
	if err != nil {
		return err
	}
	if !verdict.Approved() { // no, expired, declined, or someone else
		return errors.New("not approved: nothing is dropped")
	}
	return dropTable(ctx)
}

func ExampleClient_Approve() {
	hub, cfg := exampleHub()
	defer hub.Close()
	answerNext(hub, "approve")
	if err := dropIfApproved(context.Background(), cfg); err != nil {
		log.Fatal(err)
	}
	// Output: dropped
}

func ExampleClient_Notify() {
	hub, cfg := exampleHub()
	defer hub.Close()
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ack, err := client.Notify(context.Background(), ma2h.Notify{Title: "Build 1.4 is green", Body: "All checks passed."})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ack.Status)
	// Output: delivered
}

func ExampleClient_Ask() {
	hub, cfg := exampleHub()
	defer hub.Close()
	answerNext(hub, "hold")
	ctx := context.Background()
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ack, err := client.Ask(ctx, ma2h.Ask{
		Title: "Ship 1.4 to prod?", IdempotencyKey: ma2h.KeyOf("ship", "1.4"),
		Request: ma2h.Select(
			ma2h.Option{Value: "ship", Label: "Ship now"},
			ma2h.Option{Value: "hold", Label: "Hold for review"}),
		AllowedResolvers: []string{"human:alice"},
		ExpiresAt:        time.Now().Add(24 * time.Hour),
	})
	if err != nil {
		log.Fatal(err)
	}
	resp, err := client.Wait(ctx, ack.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Answered("ship"), resp.Answered("hold"), resp.By("human:alice"))
	// Output: false true true
}

func ExampleClient_Cancel() {
	hub, cfg := exampleHub()
	defer hub.Close()
	ctx := context.Background()
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ack, err := client.AskApproval(ctx, ma2h.Approval{Title: "Keep the old cluster?", By: []string{"human:alice"}, IdempotencyKey: ma2h.NewKey()})
	if err != nil {
		log.Fatal(err)
	}
	if err := hub.Answer(ack.ID, "deny", ma2htest.By("human:alice")); err != nil {
		log.Fatal(err)
	}
	// The answer was first: the cancel says so instead of pretending.
	var lost *ma2h.TerminalError
	fmt.Println(errors.As(client.Cancel(ctx, ack.ID), &lost), lost.Status)
	// Output: true answered
}

func ExampleAskFor() {
	type Window struct {
		Reason string `json:"reason" jsonschema:"Why then?" ma2h:"minlen=1,maxlen=200"`
		Zone   string `json:"zone" ma2h:"enum=eu|us"`
		Hours  int    `json:"hours" ma2h:"min=1,max=12"`
	}
	hub, cfg := exampleHub()
	defer hub.Close()
	answerNext(hub, map[string]any{"reason": "least traffic", "zone": "eu", "hours": 2})
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	answer, err := ma2h.AskFor[Window](context.Background(), client, ma2h.Ask{
		Title: "When may I migrate the database?", AllowedResolvers: []string{"human:alice"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Value.Zone, answer.Value.Hours, answer.Actor)
	// Output: eu 2 human:alice
}

func ExampleClient_Task() {
	hub, cfg := exampleHub()
	defer hub.Close()
	ctx := context.Background()
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ack, err := client.Task(ctx, ma2h.Task{
		Title: "Rotate the signing key", IdempotencyKey: ma2h.KeyOf("rotate", "2026-11"),
		Action:           ma2h.Action{Instructions: "Make a new key in the vault.", Checklist: []string{"make key", "test webhook"}},
		AllowedResolvers: []string{"human:alice"},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := hub.Complete(ack.ID, ma2htest.By("human:alice")); err != nil {
		log.Fatal(err)
	}
	resp, err := client.Wait(ctx, ack.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Resolution())
	// Output: completed
}

func ExampleNewCallbackHandler() {
	hub, cfg := exampleHub()
	defer hub.Close()
	const callbackURL = "https://bot.example/ma2h/resume"
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{}) // one replica; see package store for more
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		Keys:        ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())),
		CallbackURL: callbackURL, AgentID: cfg.Agent.ID, Replay: store,
	})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := ma2h.NewCallbackHandler(ma2h.CallbackConfig{
		Verifier: verifier, Ledger: store, SingleReplica: true,
		Handle: func(_ context.Context, r *ma2h.Response) error {
			fmt.Println("ship:", r.Answered("ship") && r.By("human:alice"))
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /ma2h/resume", handler)

	hub.ServeCallback(callbackURL, mux)
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ack, err := client.Ask(context.Background(), ma2h.Ask{
		Title: "Ship?", IdempotencyKey: ma2h.NewKey(), AllowedResolvers: []string{"human:alice"},
		Request:  ma2h.Select(ma2h.Option{Value: "ship", Label: "Ship"}, ma2h.Option{Value: "hold", Label: "Hold"}),
		Callback: ma2h.PushTo(callbackURL),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := hub.Answer(ack.ID, "ship", ma2htest.By("human:alice")); err != nil {
		log.Fatal(err)
	}
	if err := hub.AwaitPushes(context.Background(), ack.ID, 1); err != nil {
		log.Fatal(err)
	}
	// Output: ship: true
}

func ExampleNewResumer() {
	hub, cfg := exampleHub()
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

func ExampleInbox_Consume() {
	hub, cfg := exampleHub()
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

func ExampleConfigFromEnv() {
	os.Setenv("MA2H_HUB_URL", "https://hub.example")
	os.Setenv("MA2H_AGENT_ID", "deploybot/dev-team")
	os.Setenv("MA2H_TOKEN", "secret")
	defer func() {
		for _, name := range []string{"MA2H_HUB_URL", "MA2H_AGENT_ID", "MA2H_TOKEN"} {
			os.Unsetenv(name)
		}
	}()
	cfg, err := ma2h.ConfigFromEnv()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cfg.Agent.ID, cfg.Credential)
	// Output: deploybot/dev-team Credential{redacted}
}
