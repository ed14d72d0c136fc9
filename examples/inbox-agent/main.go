// Inbox-agent is a small long-running agent that a human steers: "pause
// deploys" and "resume deploys". It acts on each directive once, also across a
// restart, and ends cleanly on SIGTERM.
//
//	go run ./examples/inbox-agent          drains the Hub that the environment names
//	go run ./examples/inbox-agent -demo    with a fake Hub and a human in it, then exits
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/sqlstore/sqlite"
)

func main() {
	demo := flag.Bool("demo", false, "run against a fake Hub and exit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *demo {
		err = runDemo(ctx)
	} else {
		err = runFromEnv(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "inbox-agent:", err)
		os.Exit(1)
	}
}

func runFromEnv(ctx context.Context) error {
	cfg, err := ma2h.ConfigFromEnv()
	if err != nil {
		return err
	}
	a := &agent{operator: os.Getenv("MA2H_OPERATOR")}
	return a.run(ctx, cfg, ma2h.Keys(ma2h.HMACKey(os.Getenv("MA2H_DIRECTIVE_SECRET"))),
		filepath.Join(os.TempDir(), "ma2h-inbox-agent.db"))
}

// agent is what the human steers.
type agent struct {
	operator string // who may: human:<id>
	paused   atomic.Bool
}

// run consumes directives until ctx ends. Ending that way is success.
func (a *agent) run(ctx context.Context, cfg ma2h.Config, keys ma2h.KeyRing, ledgerFile string) error {
	// The log has ids, states and times: what the human wrote is not in it.
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	cfg.Logger = log
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, ledgerFile)
	if err != nil {
		return err
	}
	defer store.Close()
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		DirectiveKeys: keys, AgentID: cfg.Agent.ID, Replay: store, Logger: log,
	})
	if err != nil {
		return err
	}
	inbox, err := ma2h.NewInbox(ma2h.InboxConfig{Client: client, Verifier: verifier, Ledger: store})
	if err != nil {
		return err
	}
	err = inbox.Consume(ctx, a.handle, ma2h.ConsumeOptions{
		Authorize: ma2h.AllowFrom(a.operator),
		Note: func(*ma2h.Directive) string {
			if a.paused.Load() {
				return "Deploys are paused."
			}
			return "Deploys go on."
		},
	})
	if errors.Is(err, context.Canceled) {
		log.Info("stopped", "paused", a.paused.Load())
		return nil
	}
	return err
}

// handle knows two commands. Anything else is not an instruction: the text of
// a directive is input, also when its author may give instructions.
func (a *agent) handle(_ context.Context, d *ma2h.Directive) error {
	switch strings.ToLower(strings.TrimSpace(d.Title())) {
	case "pause deploys":
		a.paused.Store(true)
	case "resume deploys":
		a.paused.Store(false)
	default:
		slog.Warn("not a command of this agent", "directive", d)
	}
	return nil
}
