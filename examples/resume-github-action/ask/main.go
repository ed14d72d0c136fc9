// Ask is the first half of a GitHub Actions job that needs a human: it seals
// its plan, asks, and exits. Nothing stays open; the relay starts the second
// half when the answer comes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/examples/resume-github-action/plan"
	"github.com/ma2h/ma2h-go/ghactions"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ask:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: ask VERSION COMMIT")
	}
	p := plan.Plan{Version: args[0], Commit: args[1]}
	cfg, err := ma2h.ConfigFromEnv()
	if err != nil {
		return err
	}
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		return err
	}
	sealer, err := plan.Sealer(cfg.Agent.ID)
	if err != nil {
		return err
	}
	state, err := sealer.Seal(p, ma2h.Bind(cfg.Agent.ID, p.Key()))
	if err != nil {
		return err
	}
	ack, err := client.Ask(ctx, ma2h.Ask{
		Title: "Ship " + p.Version + " to prod?", IdempotencyKey: p.Key(), State: state,
		Request: ma2h.Select(
			ma2h.Option{Value: "ship", Label: "Ship now"},
			ma2h.Option{Value: "hold", Label: "Hold for review"}),
		AllowedResolvers: plan.Approvers,
		Callback:         ma2h.PushTo(os.Getenv("MA2H_CALLBACK_URL")),
		ExpiresAt:        time.Now().Add(72 * time.Hour),
	})
	var conflict *ma2h.ConflictError
	switch {
	case errors.As(err, &conflict):
		// Somebody pressed "re-run": this very plan has been asked about.
		fmt.Println("already asked; the first question stands")
		return nil
	case err != nil:
		return err
	}
	fmt.Println("asked:", ack.ID)
	return ghactions.WriteOutput("handle", ack.Handle().String())
}
