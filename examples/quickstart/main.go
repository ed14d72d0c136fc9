// Quickstart runs the main job of MA2H end to end on a fake Hub inside the
// program, over real HTTPS on loopback: an agent informs, asks, wants a task
// done, withdraws a question, and a human answers.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -interactive   (you answer the question)
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

func main() {
	interactive := flag.Bool("interactive", false, "answer the agent's question yourself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var human io.Reader
	if *interactive {
		human = os.Stdin
	}
	if err := run(ctx, os.Stdout, human); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run plays the agent and, unless human gives the answers, the human too.
func run(ctx context.Context, out io.Writer, human io.Reader) error {
	say := func(who, format string, args ...any) {
		fmt.Fprintf(out, "%-6s %s\n", who, fmt.Sprintf(format, args...))
	}
	hub, err := ma2htest.New(ma2htest.Options{})
	if err != nil {
		return err
	}
	defer hub.Close()
	say("hub", "listens on %s (a fake, in memory, for this run)", hub.URL())

	client, err := ma2h.NewClient(ma2h.Config{
		HubURL:     hub.URL(),
		Credential: ma2h.Bearer(hub.Token("deploybot/dev-team")),
		Agent:      ma2h.Agent{ID: "deploybot/dev-team", Runtime: ma2h.RuntimeCLI},
		HTTPClient: hub.Client(),
	})
	if err != nil {
		return err
	}

	// Inform: nobody has to answer.
	note, err := client.Notify(ctx, ma2h.Notify{Title: "Build 1.4 is green", Body: "All 312 checks passed."})
	if err != nil {
		return err
	}
	say("agent", "tells alice that build 1.4 is green (%s)", note.Status)

	// Ask: a decision, then act on it once.
	ship := ma2h.Ask{
		Title: "Ship 1.4 to prod?", IdempotencyKey: ma2h.KeyOf("ship", "1.4"),
		Request: ma2h.Select(
			ma2h.Option{Value: "ship", Label: "Ship now"},
			ma2h.Option{Value: "hold", Label: "Hold for review"}),
		AllowedResolvers: []string{"human:alice"},
	}
	ask, err := client.Ask(ctx, ship)
	if err != nil {
		return err
	}
	say("agent", "asks: %s", ship.Title)
	again, err := client.Ask(ctx, ship)
	if err != nil {
		return err
	}
	say("agent", "asks again, as after a lost answer: still one question for alice (%t)", again.ID == ask.ID)
	go alice(ctx, say, hub, ask.ID, human)
	answer, err := client.Wait(ctx, ask.ID)
	if err != nil {
		return err
	}
	switch {
	case answer.Answered("ship") && answer.By("human:alice"):
		say("agent", "ships 1.4, because alice said so")
	case answer.Answered("hold"):
		say("agent", "holds 1.4")
	default:
		say("agent", "does nothing: the question ended as %s", answer.Resolution())
	}
	if _, err := client.Acknowledge(ctx, ask.ID, "Got it, on my way."); err != nil {
		return err
	}
	hubSide, _ := hub.Message(ask.ID)
	say("hub", "shows alice that the agent has her answer (%s)", hubSide.Delivery.State)

	// Task: something that only hands can do.
	task, err := client.Task(ctx, ma2h.Task{
		Title: "Rotate the signing key", IdempotencyKey: ma2h.KeyOf("rotate", "2026-11"),
		Action:           ma2h.Action{Instructions: "Make a new key in the vault.", Checklist: []string{"make key", "test webhook"}},
		AllowedResolvers: []string{"human:alice"},
	})
	if err != nil {
		return err
	}
	say("agent", "wants the signing key rotated by hand")
	if err := hub.Complete(task.ID, ma2htest.By("human:alice"), ma2htest.Comment("Done, the webhook is fine.")); err != nil {
		return err
	}
	done, err := client.Wait(ctx, task.ID)
	if err != nil {
		return err
	}
	say("agent", "reads that the task is %s by %s: %q", done.Resolution(), done.Actor(), done.Comment())

	// Cancel: a question that no longer matters, and one that was answered
	// in the same moment.
	moot, err := client.Ask(ctx, ma2h.Ask{
		Title: "Keep the old cluster?", IdempotencyKey: ma2h.KeyOf("cluster"), Request: ma2h.Confirm(),
		AllowedResolvers: []string{"human:alice"},
	})
	if err != nil {
		return err
	}
	if err := client.Cancel(ctx, moot.ID); err != nil {
		return err
	}
	say("agent", "withdraws a question that no longer matters")
	var lost *ma2h.TerminalError
	if err := client.Cancel(ctx, ask.ID); !errors.As(err, &lost) {
		return fmt.Errorf("cancelling an answered question: %w", err)
	}
	say("agent", "cannot withdraw the answered one, and learns how it ended: %s", lost.Status)
	return nil
}

// alice answers the question: the person at the terminal, or nobody's fault if
// there is none.
func alice(ctx context.Context, say func(who, format string, args ...any), hub *ma2htest.Hub, id string, human io.Reader) {
	value := "ship"
	if human != nil {
		lines := bufio.NewScanner(human)
		for ok := false; !ok; {
			say("you", "are alice: ship or hold?")
			if !lines.Scan() {
				say("you", "went away: nobody answers, and nothing is shipped")
				if err := hub.Decline(id, ma2htest.By("human:alice")); err != nil {
					say("hub", "could not take that: %v", err)
				}
				return
			}
			value = strings.TrimSpace(lines.Text())
			ok = value == "ship" || value == "hold"
		}
	} else if err := sleep(ctx, 500*time.Millisecond); err != nil {
		return
	}
	if err := hub.Answer(id, value, ma2htest.By("human:alice")); err != nil {
		say("hub", "could not take the answer: %v", err)
		return
	}
	say("alice", "answers %q", value)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
