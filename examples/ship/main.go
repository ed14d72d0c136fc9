// Ship is the smallest agent that does something: it asks a human whether to
// ship a version, waits a day at most, and ships if that human says yes.
//
//	go run ./examples/ship 1.4 human:alice
//
// The environment says which Hub, as ma2h.ConfigFromEnv documents. Its tests
// need none.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ship:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: ship VERSION human:WHO")
	}
	cfg, err := ma2h.ConfigFromEnv()
	if err != nil {
		return err
	}
	cfg.Logger = slog.Default() // says what is tried again; ids and times, never content
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		return err
	}
	return ship(ctx, client, args[0], args[1], deploy)
}

var errNotApproved = errors.New("not approved: nothing is shipped")

// ship asks, and deploys if the human says yes.
func ship(ctx context.Context, client *ma2h.Client, version, human string, deploy func(string) error) error {
	verdict, err := client.Approve(ctx, ma2h.Approval{
		Title:     "Ship " + version + " to prod?",
		By:        []string{human},
		ExpiresAt: time.Now().Add(24 * time.Hour),
	})
	if err != nil {
		return err
	}
	if !verdict.Approved() { // no, expired, declined, or someone else
		return errNotApproved
	}
	return deploy(version)
}

func deploy(version string) error {
	_, err := fmt.Println("shipped", version)
	return err
}
