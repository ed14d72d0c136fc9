package ma2h_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// asks puts questions one after another and sees each through to its end.
func (h *hostile) asks(ctx context.Context, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		default:
		}
		h.mu.Lock()
		n := h.asked
		h.asked++
		h.mu.Unlock()
		h.ask(ctx, n)
	}
}

func (h *hostile) ask(ctx context.Context, n int) {
	key := fmt.Sprintf("question-%d", n)
	state, err := h.sealers[len(key)%2].Seal(planOf(key), ma2h.Bind(asker, key))
	if err != nil {
		h.t.Error(err)
		return
	}
	var id string
	asked := h.until(ctx, "ask", func(ctx context.Context, c *ma2h.Client) error {
		ack, err := h.submit(ctx, c, n, key, state)
		if err == nil {
			id = ack.ID
		}
		return err
	})
	if !asked || n%6 == 5 {
		return
	}
	if n%6 < 3 && n%4 == 0 {
		time.Sleep(h.some())
		h.cancel(ctx, id)
	}
	h.until(ctx, "wait", func(ctx context.Context, c *ma2h.Client) error {
		resp, err := c.Wait(ctx, id)
		if err != nil {
			return err
		}
		r, err := ma2h.NewResumer(ma2h.ResumeConfig{Client: c, Ledger: h.store, Act: h.handle})
		if err != nil {
			return err
		}
		if err := r.Response(ctx, resp); !errors.Is(err, ma2h.ErrAlreadyActed) && !errors.Is(err, ma2h.ErrInDoubt) {
			return err
		}
		return nil
	})
	attempt := 0
	h.until(ctx, "acknowledge", func(ctx context.Context, c *ma2h.Client) error {
		attempt++
		ack, err := c.Acknowledge(ctx, id, fmt.Sprintf("got it, attempt %d", attempt))
		if err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.notes[id] = ack.Note
		return nil
	})
	if err := h.hub.PushAck(h.humanURL, id); err != nil && ctx.Err() == nil {
		h.t.Error(err)
	}
}

func (h *hostile) submit(ctx context.Context, c *ma2h.Client, n int, key string, state types.Raw) (*ma2h.Ack, error) {
	ask := ma2h.Ask{Title: "Ship to prod? " + key, Body: "naïve — “quoted” \\ 😀", IdempotencyKey: key, AllowedResolvers: []string{alice}, State: state, Callback: ma2h.PushTo(h.agentURL)}
	switch n % 6 {
	case 0:
		ask.Request = ma2h.Select(ma2h.Option{Value: "ship", Label: "Ship now"}, ma2h.Option{Value: "hold", Label: "Hold"})
	case 1:
		ask.Request = ma2h.Input([]byte(`{"type":"object","properties":{"amount":{"type":"number"},"reason":{"type":"string"}},"required":["amount"]}`))
	case 2, 3:
		ask.Request, ask.Callback = ma2h.Confirm(), nil
	case 4:
		task := rotate(key)
		task.State, task.Callback = state, ask.Callback
		return c.Task(ctx, task)
	default:
		return c.Notify(ctx, ma2h.Notify{Title: "Digest " + key, IdempotencyKey: key})
	}
	return c.Ask(ctx, ask)
}

// cancel keeps what the Hub said about how the question ended.
func (h *hostile) cancel(ctx context.Context, id string) {
	h.until(ctx, "cancel", func(ctx context.Context, c *ma2h.Client) error {
		err := c.Cancel(ctx, id)
		status := types.StatusCancelled
		if lost, ok := errors.AsType[*ma2h.TerminalError](err); ok {
			status, err = lost.Status, nil
		}
		if err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.cancelled[id] = status
		}
		return err
	})
}

// consumes drains the mailbox, each time with another Client.
func (h *hostile) consumes(ctx context.Context) {
	for ctx.Err() == nil {
		v, err := ma2h.NewVerifier(h.keys)
		mustNot(h.t, err)
		inbox, err := ma2h.NewInbox(ma2h.InboxConfig{Client: h.client.Load(), Verifier: v, Ledger: h.store, SingleReplica: true})
		mustNot(h.t, err)
		life, end := context.WithTimeout(ctx, 4*h.life)
		err = inbox.Consume(life, h.handleDirective, ma2h.ConsumeOptions{
			Authorize: ma2h.AllowFrom(alice), Concurrency: 4, MaxAttempts: 1000, Grace: h.life,
			OnReject: func(context.Context, *ma2h.RejectedError) error {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.rejected++
				return nil
			},
			DeadLetter: func(_ context.Context, d *ma2h.Directive, err error) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.buried[d.ID()] = err
			},
		})
		end()
		h.note("consume", err)
		time.Sleep(h.pace / 4)
	}
}

// unread is how many directives are not acknowledged and not in doubt.
func (h *hostile) unread() (n int) {
	for _, d := range h.hub.Directives(asker) {
		h.mu.Lock()
		if d.Delivery.State != types.Acknowledged && h.buried[d.ID] == nil {
			n++
		}
		h.mu.Unlock()
	}
	return n
}

// instructs sends directives.
func (h *hostile) instructs(ctx context.Context, stop <-chan struct{}) {
	for n := 0; ctx.Err() == nil; n++ {
		data, err := ma2h.Data(map[string]any{"n": n, "price": float64(n) + 0.25, "text": "naïve \\ 😀"})
		mustNot(h.t, err)
		_, err = h.hub.SendDirective(asker, ma2htest.DirectiveDraft{
			From: alice, Title: fmt.Sprintf("Pause deploy “%d”", n), Body: "until I say so", Priority: types.PriorityHigh, Context: []types.Part{data, ma2h.Text("see the channel")},
		})
		mustNot(h.t, err)
		select {
		case <-stop:
			return
		case <-time.After(h.some() / 3):
		}
	}
}

// resolves is the human: every question is answered in a while, some are
// refused.
func (h *hostile) resolves(ctx context.Context) {
	var deciding sync.WaitGroup
	defer deciding.Wait()
	for {
		s, err := h.hub.Next(ctx)
		if err != nil {
			return
		}
		pause, yes, n := 2*h.some(), h.roll(5) > 0, h.roll(1000)
		deciding.Go(func() {
			time.Sleep(pause)
			by := []ma2htest.ResolveOption{ma2htest.By(alice), ma2htest.Comment(fmt.Sprintf("reason %d: naïve “\\” 😀", n))}
			switch {
			case s.Type == types.VerbNotify:
				return
			case s.Type == types.VerbTask && yes:
				err = h.hub.Complete(s.ID, by...)
			case s.Type == types.VerbTask:
				err = h.hub.Dismiss(s.ID, by...)
			case !yes:
				err = h.hub.Decline(s.ID, by...)
			default:
				err = h.hub.Answer(s.ID, h.choice(s, n), by...)
			}
			if err != nil && !errors.Is(err, ma2htest.ErrTerminal) {
				h.t.Error(err)
			}
		})
	}
}

func (h *hostile) choice(s ma2htest.Snapshot, n int) any {
	for _, item := range h.hub.Inbox(alice) {
		if item.ID == s.ID && item.Request != nil && item.Request.Mode == types.ModeInput {
			return map[string]any{"amount": []float64{float64(n), 1e21, 0.1 * float64(n), 9007199254740993}[n%4], "reason": "naïve"}
		} else if item.ID == s.ID && len(item.Request.Options) > 0 {
			return item.Request.Options[n%len(item.Request.Options)].Value
		}
	}
	return "ship" // it has ended: the Hub says so
}

// keptBody keeps what is read of it.
type keptBody struct {
	io.ReadCloser
	text bytes.Buffer
}

func (k *keptBody) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	k.text.Write(p[:n])
	return n, err
}

func readBody(r *http.Request) ([]byte, error) { return io.ReadAll(io.LimitReader(r.Body, 1<<20)) }
