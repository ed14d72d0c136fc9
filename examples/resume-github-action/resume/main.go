// Resume is the second half: a new job on a clean runner, started by the relay.
// It takes the answer from its event file, or pulls it, and deploys at most
// once, also when somebody presses "re-run".
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
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "resume:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	d, err := ghactions.ReadEvent()
	if err != nil {
		return err
	}
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
	// The runner keeps nothing, so a memory that dies with the job is enough
	// for the delivery, and the Hub's acknowledgment decides who acts.
	memory, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	if err != nil {
		return err
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		Keys:        ma2h.Keys(ma2h.HMACKey(os.Getenv("MA2H_CALLBACK_SECRET"))),
		CallbackURL: os.Getenv("MA2H_CALLBACK_URL"),
		AgentID:     cfg.Agent.ID,
		Replay:      memory,
	})
	if err != nil {
		return err
	}
	var p plan.Plan
	resumer, err := ma2h.NewResumer(ma2h.ResumeConfig{
		Client: client, Verifier: verifier,
		// The state is opened before this run takes the decision: it is what
		// this agent sealed, or there is nothing to do.
		Open: func(ctx context.Context, resp *ma2h.Response) error {
			msg, err := client.Message(ctx, resp.MessageID())
			if err != nil {
				return err
			}
			return sealer.Open(resp.State(), &p, ma2h.Bind(cfg.Agent.ID, msg.Wire.IdempotencyKey))
		},
		Act:  func(_ context.Context, resp *ma2h.Response) error { return act(p, resp) },
		Note: func(*ma2h.Response) string { return "Got it, going on." },
	})
	if err != nil {
		return err
	}
	resp, err := resumer.Deliver(ctx, d)
	switch {
	case errors.Is(err, ma2h.ErrAlreadyActed):
		fmt.Println("another run has taken this; if it did not end well, look whether it deployed")
		return nil
	case errors.Is(err, ma2h.ErrInDoubt):
		return fmt.Errorf("an earlier attempt of this run stopped halfway: look whether it deployed: %w", err)
	case err != nil:
		return err
	}
	fmt.Println("acted on", resp.MessageID())
	return nil
}

// act goes on with the plan, or not.
func act(p plan.Plan, resp *ma2h.Response) error {
	decision := "hold"
	if resp.Answered("ship") && resp.By(plan.Approvers...) {
		if err := deploy(p); err != nil {
			// Something may have been deployed: nobody tries again by itself.
			return fmt.Errorf("%w: %w", ma2h.ErrOutcomeUnknown, err)
		}
		decision = "ship"
	}
	// What a human wrote goes into outputs, never into a shell line.
	err := errors.Join(ghactions.WriteOutput("comment", resp.Comment()), ghactions.WriteOutput("decision", decision))
	if err != nil && decision == "ship" {
		return fmt.Errorf("%w: deployed, and could not say so: %w", ma2h.ErrOutcomeUnknown, err)
	}
	return err
}

// deploy stands for the real thing: it leaves a line in a file.
func deploy(p plan.Plan) error {
	f, err := os.OpenFile(os.Getenv("DEPLOY_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, "deployed", p.Version, p.Commit)
	return errors.Join(err, f.Close())
}
