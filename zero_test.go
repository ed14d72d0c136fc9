package ma2h_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/types"
)

// What no constructor made says so, and does not panic.
func TestAValueThatNoConstructorMadeSaysSo(t *testing.T) {
	ctx := context.Background()
	approval := ma2h.Approval{Title: "x", By: []string{"human:alice"}, IdempotencyKey: "k"}
	for name, c := range map[string]*ma2h.Client{"nil": nil, "zero": {}} {
		v, s, in, r, h := new(ma2h.Verifier), new(ma2h.Sealer), new(ma2h.Inbox), new(ma2h.Resumer), new(ma2h.CallbackHandler)
		if name == "nil" {
			v, s, in, r, h = nil, nil, nil, nil, nil
		}
		calls := map[string]func() error{
			"Notify":  func() error { _, err := c.Notify(ctx, ma2h.Notify{Title: "x"}); return err },
			"Ask":     func() error { _, err := c.Ask(ctx, ma2h.Ask{}); return err },
			"Task":    func() error { _, err := c.Task(ctx, ma2h.Task{}); return err },
			"Approve": func() error { _, err := c.Approve(ctx, approval); return err },
			"Approve without a key": func() error {
				_, err := c.Approve(ctx, ma2h.Approval{Title: "x", By: []string{"human:alice"}})
				return err
			},
			"AskApproval":   func() error { _, err := c.AskApproval(ctx, approval); return err },
			"AwaitApproval": func() error { _, err := c.AwaitApproval(ctx, "m", approval); return err },
			"AskFor":        func() error { _, err := ma2h.AskFor[struct{ A string }](ctx, c, ma2h.Ask{}); return err },
			"AwaitFor": func() error {
				_, err := ma2h.AwaitFor[struct{ A string }](ctx, c, "m", "human:alice")
				return err
			},
			"Wait":               func() error { _, err := c.Wait(ctx, "m"); return err },
			"Message":            func() error { _, err := c.Message(ctx, "m"); return err },
			"Cancel":             func() error { return c.Cancel(ctx, "m") },
			"Acknowledge":        func() error { _, err := c.Acknowledge(ctx, "m", ""); return err },
			"Presence":           func() error { _, err := c.Presence(ctx, "a"); return err },
			"Capabilities":       func() error { _, err := c.Capabilities(ctx); return err },
			"Verifier.Response":  func() error { _, err := v.ReceivedAt(time.Time{}).Response(ctx, nil, nil); return err },
			"Verifier.Directive": func() error { _, err := v.Directive(ctx, nil, nil); return err },
			"Verifier.Ack":       func() error { _, err := v.Ack(ctx, nil, nil); return err },
			"Seal":               func() error { _, err := s.Seal(struct{}{}, ma2h.Bind("a", "k")); return err },
			"Open":               func() error { return s.Open(types.Raw("{}"), &struct{}{}, ma2h.Bind("a", "k")) },
			"Drain":              func() error { _, err := in.Drain(ctx, ma2h.DrainOptions{}); return err },
			"Inbox.Ack":          func() error { return in.Ack(ctx, []string{"d"}, "") },
			"Resume":             func() error { _, err := r.Resume(ctx, ma2h.Handle{}); return err },
			"Deliver":            func() error { _, err := r.Deliver(ctx, ma2h.Delivery{}); return err },
			"Resumer.Response":   func() error { return r.Response(ctx, nil) },
			"Process":            func() error { return h.Process(ctx, http.Header{}, nil).Err },
			"Shutdown":           func() error { return h.Shutdown(ctx) },
			"ServeHTTP": func() error {
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))); w.Code != 503 {
					t.Errorf("a %s CallbackHandler answers %d", name, w.Code)
				}
				return ma2h.ErrZeroValue
			},
			"Consume": func() error {
				return in.Consume(ctx, func(context.Context, *ma2h.Directive) error { return nil }, ma2h.ConsumeOptions{Authorize: ma2h.AllowFrom()})
			},
			"All": func() error {
				for _, err := range in.All(ctx) {
					return err
				}
				return nil
			},
			"Entry.Ack": func() error { return new(ma2h.Entry).Ack(ctx, "") },
		}
		for call, f := range calls {
			if err := f(); !errors.Is(err, ma2h.ErrZeroValue) {
				t.Errorf("%s of a %s value: %v", call, name, err)
			}
		}
	}
	if _, err := ma2h.NewResumer(ma2h.ResumeConfig{Client: new(ma2h.Client), Act: func(context.Context, *ma2h.Response) error { return nil }}); err == nil {
		t.Error("a zero Client was accepted")
	}
}
