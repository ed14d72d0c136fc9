// Callback-server is a service that gets its answers pushed: a real net/http
// server with timeouts and graceful shutdown, a verifier, and a ledger in an
// SQLite file, so that a restart acts on nothing twice.
//
//	go run ./examples/callback-server          serves, configured by the environment
//	go run ./examples/callback-server -demo    with a fake Hub that pushes to it, then exits
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/sqlstore/sqlite"
)

func main() {
	demo := flag.Bool("demo", false, "run against a fake Hub and exit")
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen; a proxy with TLS stands before it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *demo {
		err = runDemo(ctx)
	} else {
		err = serveFromEnv(ctx, *addr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "callback-server:", err)
		os.Exit(1)
	}
}

func serveFromEnv(ctx context.Context, addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return serve(ctx, ln, service{
		agentID:     os.Getenv("MA2H_AGENT_ID"),
		callbackURL: os.Getenv("MA2H_CALLBACK_URL"),
		keys:        ma2h.Keys(ma2h.HMACKey(os.Getenv("MA2H_CALLBACK_SECRET"))),
		ledgerFile:  filepath.Join(os.TempDir(), "ma2h-callback-server.db"),
		act: func(_ context.Context, r *ma2h.Response) error {
			slog.Info("decided", "response", r)
			return nil
		},
	})
}

// service is what one deployment differs in from another.
type service struct {
	agentID string
	// callbackURL is the public URL, as the Hub has it. What this process
	// listens on, and what a proxy makes of the request, does not matter.
	callbackURL string
	keys        ma2h.KeyRing
	ledgerFile  string
	act         func(context.Context, *ma2h.Response) error
}

// serve runs until ctx ends, then lets running acts finish.
func serve(ctx context.Context, ln net.Listener, s service) error {
	store, err := sqlite.Open(ctx, s.ledgerFile)
	if err != nil {
		return err
	}
	defer store.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		Keys: s.keys, CallbackURL: s.callbackURL, AgentID: s.agentID, Replay: store, Logger: log,
	})
	if err != nil {
		return err
	}
	pushes, err := ma2h.NewCallbackHandler(ma2h.CallbackConfig{Verifier: verifier, Ledger: store, Handle: s.act})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /ma2h/resume", pushes)
	srv := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// New pushes hear 503 and come again elsewhere; what runs may end.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := errors.Join(pushes.Shutdown(grace), srv.Shutdown(grace)); err != nil {
		return err
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
