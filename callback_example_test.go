package ma2h_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

func ExampleNewCallbackHandler() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	const callbackURL = "https://bot.example/ma2h/resume"
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{}) // one replica; see package store for more
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		Keys:        ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())),
		CallbackURL: callbackURL, AgentID: cfg.Agent.ID, Replay: store,
	})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := ma2h.NewCallbackHandler(ma2h.CallbackConfig{
		Verifier: verifier, Ledger: store, SingleReplica: true,
		Handle: func(_ context.Context, r *ma2h.Response) error {
			fmt.Println("ship:", r.Answered("ship") && r.By("human:alice"))
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /ma2h/resume", handler)

	hub.ServeCallback(callbackURL, mux)
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ack, err := client.Ask(context.Background(), ma2h.Ask{
		Title: "Ship?", IdempotencyKey: ma2h.NewKey(), AllowedResolvers: []string{"human:alice"},
		Request:  ma2h.Select(ma2h.Option{Value: "ship", Label: "Ship"}, ma2h.Option{Value: "hold", Label: "Hold"}),
		Callback: ma2h.PushTo(callbackURL),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := hub.Answer(ack.ID, "ship", ma2htest.By("human:alice")); err != nil {
		log.Fatal(err)
	}
	if err := hub.AwaitPushes(context.Background(), ack.ID, 1); err != nil {
		log.Fatal(err)
	}
	// Output: ship: true
}

// Process is for a router that has read the body, or that is not net/http.
func ExampleCallbackHandler_Process() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	const callbackURL = "https://bot.example/ma2h/resume"
	handler, err := shipHandler(hub, cfg, callbackURL)
	if err != nil {
		log.Fatal(err)
	}
	route := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "", http.StatusRequestEntityTooLarge)
			return
		}
		out := handler.Process(r.Context(), r.Header, body)
		if out.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(out.RetryAfter.Seconds())))
		}
		w.WriteHeader(out.Status)
		fmt.Println(out.Status, out.Acted)
	}
	hub.ServeCallback(callbackURL, http.HandlerFunc(route))
	hub.Fault(ma2htest.Replay(1)) // somebody sends the bytes again
	if err := askAndShip(hub, cfg, callbackURL, 2); err != nil {
		log.Fatal(err)
	}
	// Output:
	// ship: true
	// 200 true
	// 200 false
}

func shipHandler(hub *ma2htest.Hub, cfg ma2h.Config, callbackURL string) (*ma2h.CallbackHandler, error) {
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	if err != nil {
		return nil, err
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		Keys: ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())), CallbackURL: callbackURL, AgentID: cfg.Agent.ID, Replay: store,
	})
	if err != nil {
		return nil, err
	}
	return ma2h.NewCallbackHandler(ma2h.CallbackConfig{
		Verifier: verifier, Ledger: store, SingleReplica: true,
		Handle: func(_ context.Context, r *ma2h.Response) error {
			fmt.Println("ship:", r.Answered("ship") && r.By("human:alice"))
			return nil
		},
	})
}

// askAndShip asks, answers and waits for so many pushes.
func askAndShip(hub *ma2htest.Hub, cfg ma2h.Config, callbackURL string, pushes int) error {
	ctx := context.Background()
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		return err
	}
	ack, err := client.Ask(ctx, ma2h.Ask{
		Title: "Ship?", IdempotencyKey: ma2h.NewKey(), AllowedResolvers: []string{"human:alice"},
		Request:  ma2h.Select(ma2h.Option{Value: "ship", Label: "Ship"}, ma2h.Option{Value: "hold", Label: "Hold"}),
		Callback: ma2h.PushTo(callbackURL),
	})
	if err != nil {
		return err
	}
	if err := hub.Answer(ack.ID, "ship", ma2htest.By("human:alice")); err != nil {
		return err
	}
	return hub.AwaitPushes(ctx, ack.ID, pushes)
}

// A Verifier alone believes; it does not act once. This handler only counts.
func ExampleVerifier_Response() {
	hub, cfg := exampleHub() // a fake Hub in memory
	defer hub.Close()
	const callbackURL = "https://bot.example/ma2h/count"
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		Keys: ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())), CallbackURL: callbackURL, AgentID: cfg.Agent.ID, Replay: store,
	})
	if err != nil {
		log.Fatal(err)
	}
	hub.ServeCallback(callbackURL, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			return
		}
		resp, err := verifier.Response(r.Context(), r.Header, body)
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Println(err)
			return
		}
		fmt.Println(resp.Resolution(), resp.Actor())
	}))
	hub.Fault(ma2htest.TamperPayload(1)) // someone on the way changes the answer
	if err := askAndShip(hub, cfg, callbackURL, 1); err != nil {
		log.Fatal(err)
	}
	if err := askAndShip(hub, cfg, callbackURL, 1); err != nil {
		log.Fatal(err)
	}
	// Output:
	// ma2h: the signature does not hold: it is of no key that is configured
	// answered human:alice
}
