package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

// exampleHub returns a fake Hub in memory, and the Config of an agent that
// reaches it.
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

func Example() {
	hub, cfg := exampleHub() // a fake Hub in memory; ConfigFromEnv reaches a real one
	defer hub.Close()
	answerNext(hub, "approve")
	ctx := context.Background()

	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	verdict, err := client.Approve(ctx, ma2h.Approval{
		Title: "Drop table users?", By: []string{"human:alice"},
	})
	if err != nil {
		log.Fatal(err)
	}
	if !verdict.Approved() { // no, expired, declined, or someone else
		log.Fatal("not approved: nothing is dropped")
	}
	fmt.Println("dropped")
	// Output: dropped
}

func ExampleClient_Approve() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	answerNext(hub, "approve")
	if err := dropIfApproved(context.Background(), cfg); err != nil {
		log.Fatal(err)
	}
	// Output: dropped
}

func ExampleClient_Notify() {
	hub, cfg := exampleHub() // a fake Hub in memory
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
	hub, cfg := exampleHub() // a fake Hub in memory
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

func ExampleClient_Wait() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ack, err := client.Ask(context.Background(), ma2h.Ask{
		Title: "Ship 1.4 to prod?", IdempotencyKey: ma2h.KeyOf("ship", "1.4"),
		Request: ma2h.Confirm(), AllowedResolvers: []string{"human:alice"},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Nobody answers for now. The question stays open.
	impatient, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = client.Wait(impatient, ack.ID)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))

	answerNext(hub, ma2h.ValueApprove)
	resp, err := client.Wait(context.Background(), ack.ID) // here, or in another process
	if err != nil {
		log.Fatal(err)
	}
	switch {
	case resp.Answered(ma2h.ValueApprove) && resp.By("human:alice"):
		fmt.Println("ship")
	case resp.Resolution() == ma2h.Expired, resp.Resolution() == ma2h.Declined:
		fmt.Println("nobody said yes")
	default:
		fmt.Println("no")
	}
	// Output:
	// true
	// ship
}

func ExampleClient_Acknowledge() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	answerNext(hub, ma2h.ValueApprove)
	ctx := context.Background()
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	verdict, err := client.Approve(ctx, ma2h.Approval{Title: "Ship?", By: []string{"human:alice"}})
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := client.Acknowledge(ctx, verdict.MessageID, "Got it, deploying.")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.By, "says:", receipt.Note)
	// Output: agent:deploybot/dev-team says: Got it, deploying.
}

func ExampleClient_Presence() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	cfg.Credential = ma2h.Bearer(hub.OwnerToken()) // of the human who owns the agent
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	p, err := client.Presence(context.Background(), "deploybot/dev-team")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.State) // it has not waited for anything yet
	// Output: unknown
}

func ExampleClient_Capabilities() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	caps, err := client.Capabilities(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(caps.Version, caps.OffersInbound(), caps.OffersAck())
	// Output: 0.4 true true
}

// One process asks and exits; another comes back for the verdict.
func ExampleClient_AwaitApproval() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	ctx := context.Background()
	question := ma2h.Approval{
		Title: "Delete the backups of 2019?", By: []string{"human:alice"},
		IdempotencyKey: ma2h.KeyOf("delete backups", "2019"),
		ExpiresAt:      time.Now().Add(72 * time.Hour),
	}
	first, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ack, err := first.AskApproval(ctx, question)
	if err != nil {
		log.Fatal(err)
	}
	kept := ack.ID // a row, a file, a job output

	answerNext(hub, ma2h.ValueDeny)
	second, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	verdict, err := second.AwaitApproval(ctx, kept, question)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(verdict.Approved(), verdict.Resolution, verdict.Actor)
	// Output: false answered human:alice
}

func ExampleClient_Cancel() {
	hub, cfg := exampleHub() // a fake Hub in memory
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
	hub, cfg := exampleHub() // a fake Hub in memory
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

// SubmitFor and AwaitFor are AskFor in two processes.
func ExampleAwaitFor() {
	type Window struct {
		Hours int `json:"hours" ma2h:"min=1,max=12"`
	}
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	ctx := context.Background()
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ack, err := ma2h.SubmitFor[Window](ctx, client, ma2h.Ask{
		Title: "How long may the migration take?", IdempotencyKey: ma2h.KeyOf("migration", "hours"),
		AllowedResolvers: []string{"human:alice"},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := hub.Decline(ack.ID, ma2htest.By("human:alice")); err != nil {
		log.Fatal(err)
	}
	_, err = ma2h.AwaitFor[Window](ctx, client, ack.ID, "human:alice")
	var none *ma2h.NoAnswerError
	fmt.Println(errors.As(err, &none), none.Resolution)
	// Output: true declined
}

func ExampleClient_Task() {
	hub, cfg := exampleHub() // a fake Hub in memory
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
