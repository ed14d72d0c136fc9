package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

// runDemo starts the service, lets a fake Hub push an answer to it twice, and
// stops it.
func runDemo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	hub, err := ma2htest.New(ma2htest.Options{AllowLoopbackCallbacks: true})
	if err != nil {
		return err
	}
	defer hub.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ma2h")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	const agent = "deploybot/dev-team"
	callbackURL := "http://" + ln.Addr().String() + "/ma2h/resume"
	acts := make(chan string, 4)

	serving, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- serve(serving, ln, service{
			agentID: agent, callbackURL: callbackURL,
			keys:       ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())),
			ledgerFile: filepath.Join(dir, "ledger.db"),
			act: func(_ context.Context, r *ma2h.Response) error {
				if r.Answered("ship") && r.By("human:alice") {
					acts <- "shipped"
				}
				return nil
			},
		})
	}()

	cfg := hub.ConfigTLS(agent)
	cfg.AllowInsecureLoopback = true // the callback is plain http to this machine
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		return err
	}
	hub.Fault(ma2htest.DuplicatePush(1))
	ack, err := client.Ask(ctx, ma2h.Ask{
		Title: "Ship 1.4 to prod?", IdempotencyKey: ma2h.NewKey(),
		Request:          ma2h.Select(ma2h.Option{Value: "ship", Label: "Ship"}, ma2h.Option{Value: "hold", Label: "Hold"}),
		AllowedResolvers: []string{"human:alice"},
		Callback:         ma2h.PushTo(callbackURL),
	})
	if err != nil {
		return err
	}
	fmt.Println("asked, and the agent may exit now:", ack.ID)
	if err := hub.Answer(ack.ID, "ship", ma2htest.By("human:alice")); err != nil {
		return err
	}
	if err := hub.AwaitPushes(ctx, ack.ID, 2); err != nil {
		return err
	}
	for i, p := range hub.Pushes(ack.ID) {
		fmt.Printf("push %d was answered %d\n", i+1, p.Status)
	}
	stop()
	if err := <-done; err != nil {
		return err
	}
	close(acts)
	n := 0
	for act := range acts {
		fmt.Println(act)
		n++
	}
	if n != 1 {
		return fmt.Errorf("acted %d times on one decision", n)
	}
	return nil
}
