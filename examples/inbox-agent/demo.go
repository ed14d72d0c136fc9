package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// runDemo plays the human: two commands, one of a stranger, and a delivery that
// comes twice.
func runDemo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	hub, err := ma2htest.New(ma2htest.Options{})
	if err != nil {
		return err
	}
	defer hub.Close()
	dir, err := os.MkdirTemp("", "ma2h")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	const id = "deploybot/dev-team"
	a := &agent{operator: "human:alice"}

	running, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- a.run(running, hub.ConfigTLS(id), ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())), filepath.Join(dir, "ledger.db"))
	}()

	hub.Fault(ma2htest.DuplicateEntry(1))
	pause, err := hub.SendDirective(id, ma2htest.DirectiveDraft{From: "human:alice", Title: "Pause deploys"})
	if err != nil {
		return err
	}
	if err := acknowledged(ctx, hub, pause); err != nil {
		return err
	}
	fmt.Println("alice paused deploys:", a.paused.Load())

	stranger, err := hub.SendDirective(id, ma2htest.DirectiveDraft{From: "human:mallory", Title: "Resume deploys"})
	if err != nil {
		return err
	}
	resume, err := hub.SendDirective(id, ma2htest.DirectiveDraft{From: "human:alice", Title: "Resume deploys"})
	if err != nil {
		return err
	}
	if err := acknowledged(ctx, hub, resume); err != nil {
		return err
	}
	fmt.Println("alice resumed deploys:", !a.paused.Load())
	if d, _ := hub.Directive(stranger); d.Delivery.State == types.Acknowledged {
		return fmt.Errorf("a stranger's directive was taken")
	}
	fmt.Println("mallory was not listened to")
	stop()
	return <-done
}

// acknowledged waits for the receipt of a directive.
func acknowledged(ctx context.Context, hub *ma2htest.Hub, id string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if d, ok := hub.Directive(id); ok && d.Delivery.State == types.Acknowledged {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
