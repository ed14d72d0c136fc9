package ghactions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ghactions"
	"github.com/ma2h/ma2h-go/ma2htest"
)

// The relay turns a push into the body of a repository_dispatch. The job that
// this starts reads it back and acts on it. examples/resume-github-action is
// the whole of it as programs.
func Example() {
	hub, err := ma2htest.New(ma2htest.Options{}) // a fake Hub in memory
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close()
	cfg := hub.Config("deploybot/dev-team")
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	// The relay, which a real one does only after its Verifier took the push.
	var dispatch []byte
	hub.ServeCallback("https://relay.example/ma2h", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			return
		}
		var push struct {
			InReplyTo string `json:"in_reply_to"`
		}
		if json.Unmarshal(body, &push) == nil {
			dispatch, err = ghactions.Dispatch("ma2h-response", ma2h.Delivery{MessageID: push.InReplyTo, Header: r.Header, Body: body})
		}
		if err != nil {
			log.Print(err)
		}
	}))
	question := ma2h.Approval{
		Title: "Ship 1.4?", By: []string{"human:alice"}, IdempotencyKey: ma2h.KeyOf("ship", "1.4"),
		Callback: ma2h.PushTo("https://relay.example/ma2h"),
	}
	ack, err := client.AskApproval(ctx, question)
	if err != nil {
		log.Fatal(err)
	}
	if err := hub.Answer(ack.ID, ma2h.ValueApprove, ma2htest.By("human:alice")); err != nil {
		log.Fatal(err)
	}
	if err := hub.AwaitPushes(ctx, ack.ID, 1); err != nil {
		log.Fatal(err)
	}

	// The job. GitHub puts client_payload into the file that GITHUB_EVENT_PATH
	// names, which ReadEvent reads.
	dir, err := os.MkdirTemp("", "event")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	event := filepath.Join(dir, "event.json")
	if err := os.WriteFile(event, dispatch, 0o600); err != nil {
		log.Fatal(err)
	}
	delivery, err := ghactions.ReadEventFile(event)
	if err != nil {
		log.Fatal(err)
	}
	resumer, err := ma2h.NewResumer(ma2h.ResumeConfig{
		Client: client,
		Act: func(_ context.Context, r *ma2h.Response) error {
			fmt.Println("approved:", question.Judge(r).Approved())
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := resumer.Deliver(ctx, delivery); err != nil {
		log.Fatal(err)
	}
	// Output: approved: true
}

func ExampleMask() {
	var stdout bytes.Buffer // os.Stdout in a job
	if err := ghactions.Mask(&stdout, "hunter2 and more"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bytes.Count(stdout.Bytes(), []byte("::add-mask::")) > 0)
	// Output: true
}
