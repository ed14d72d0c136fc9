// Relay is the agent's own endpoint for pushes. It verifies a push and starts a
// job with it, with the agent's own GitHub token: the Hub never gets one, and
// could not be trusted with it (§9.4). It acts on nothing itself.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ghactions"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	h, err := newRelay(github{
		api:   envOr("GITHUB_API_URL", "https://api.github.com"),
		repo:  os.Getenv("GITHUB_REPOSITORY"),
		token: os.Getenv("RELAY_GITHUB_TOKEN"),
		http:  &http.Client{Timeout: 20 * time.Second},
	}, log)
	if err != nil {
		return err
	}
	srv := &http.Server{Addr: envOr("RELAY_ADDR", "127.0.0.1:8080"), Handler: h, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = srv.Shutdown(grace)
	}()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type github struct {
	api, repo, token string
	http             *http.Client
}

type deliveryKey struct{}

// newRelay returns the handler. Its memory is that of one replica: a push that
// is dispatched twice starts two jobs, of which one acts.
func newRelay(gh github, log *slog.Logger) (http.Handler, error) {
	memory, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	if err != nil {
		return nil, err
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		Keys:        ma2h.Keys(ma2h.HMACKey(os.Getenv("MA2H_CALLBACK_SECRET"))),
		CallbackURL: os.Getenv("MA2H_CALLBACK_URL"),
		AgentID:     os.Getenv("MA2H_AGENT_ID"),
		Replay:      memory,
		Logger:      log,
	})
	if err != nil {
		return nil, err
	}
	pushes, err := ma2h.NewCallbackHandler(ma2h.CallbackConfig{
		Verifier: verifier, Ledger: memory, SingleReplica: true,
		Handle: func(ctx context.Context, resp *ma2h.Response) error {
			d, _ := ctx.Value(deliveryKey{}).(ma2h.Delivery)
			d.MessageID = resp.MessageID()
			return gh.dispatch(ctx, d)
		},
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ma2h/resume", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "", http.StatusRequestEntityTooLarge)
			return
		}
		// The bytes go on to the job as they came, so that it can verify them.
		ctx := context.WithValue(r.Context(), deliveryKey{}, ma2h.Delivery{Header: r.Header, Body: body})
		out := pushes.Process(ctx, r.Header, body)
		if out.RetryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(int(out.RetryAfter.Seconds())))
		}
		w.WriteHeader(out.Status)
	})
	return mux, nil
}

// dispatch starts the job. An error means that no job was started, so the Hub
// delivers again.
func (g github) dispatch(ctx context.Context, d ma2h.Delivery) error {
	body, err := ghactions.Dispatch("ma2h-response", d)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.api+"/repos/"+g.repo+"/dispatches", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("Content-Type", "application/json")
	resp, err := g.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("dispatch answered %d", resp.StatusCode)
	}
	return nil
}

func envOr(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}
