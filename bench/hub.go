package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// bare speaks to a Hub as a client without any care would.
type bare struct {
	http       *http.Client
	url, token string
}

// call returns the body of an answer with the status that is wanted.
func (b *bare) call(ctx context.Context, method, path string, body []byte, want int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+b.token)
	resp, err := b.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s %s was answered %s", method, path, resp.Status)
	}
	return text, err
}

func (b *bare) post(ctx context.Context, message []byte) (id string, err error) {
	text, err := b.call(ctx, http.MethodPost, "/v1/messages", message, http.StatusAccepted)
	if err != nil {
		return "", err
	}
	var ack struct {
		ID string `json:"id"`
	}
	return ack.ID, json.Unmarshal(text, &ack)
}

// wait holds a request until the message has ended.
func (b *bare) wait(ctx context.Context, id string) error {
	_, err := b.call(ctx, http.MethodGet, "/v1/messages/"+id+"?wait=60", nil, http.StatusOK)
	return err
}

func question(key string) ma2h.Ask {
	return ma2h.Ask{
		Title: "Ship 1.4 to prod?", Body: strings.Repeat("why it matters. ", 32), IdempotencyKey: key, AllowedResolvers: []string{alice},
		Request: ma2h.Select(ma2h.Option{Value: "ship", Label: "Ship now"}, ma2h.Option{Value: "hold", Label: "Hold"}),
	}
}

// hubRig is a Hub in this process, over TLS on loopback, and two ways to it.
type hubRig struct {
	hub    *ma2htest.Hub
	client *ma2h.Client
	bare   *bare
	sent   []byte // what the Client sends for question("first")
}

func newHubRig(ctx context.Context, opts ma2htest.Options) (*hubRig, error) {
	opts.KeepRequests = -1
	hub, err := ma2htest.New(opts)
	if err != nil {
		return nil, err
	}
	cfg := hub.ConfigTLS(agentID)
	r := &hubRig{hub: hub, bare: &bare{cfg.HTTPClient, hub.URL(), hub.Token(agentID)}}
	if r.client, err = ma2h.NewClient(cfg); err == nil {
		_, err = r.client.Ask(ctx, question("first"))
	}
	if err != nil {
		hub.Close()
		return nil, err
	}
	r.sent = hub.Messages()[0].Submitted
	return r, nil
}

// message is the bytes that the Client sends for question(key).
func (r *hubRig) message(key string) []byte {
	return bytes.Replace(r.sent, []byte(`"first"`), strconv.AppendQuote(nil, key), 1)
}

// submit sends the same bytes with the library and without.
func submit(ctx context.Context, m *meter) ([]row, error) {
	r, err := newHubRig(ctx, ma2htest.Options{})
	if err != nil {
		return nil, err
	}
	defer r.hub.Close()
	n := 0
	ns, err := m.least(
		subject{run: each(func(int) error {
			n++
			_, err := r.client.Ask(ctx, question(fmt.Sprint("ours-", n)))
			return err
		})},
		subject{run: each(func(int) error {
			n++
			_, err := r.bare.post(ctx, r.message(fmt.Sprint("bare-", n)))
			return err
		})},
	)
	if err != nil {
		return nil, err
	}
	first := beside("submit over TLS on loopback", ns[0], "a bare POST of the same bytes", ns[1])
	first.reach = atMost(first.ratio, 1.3, "")
	return []row{first}, nil
}

// wakeUp is the time from the human's answer to the return of Wait. The
// percentiles are of all that was measured.
func wakeUp(ctx context.Context, m *meter) ([]row, error) {
	const samples = 200 // of a round
	r, err := newHubRig(ctx, ma2htest.Options{})
	if err != nil {
		return nil, err
	}
	defer r.hub.Close()
	wake := func(wait func(context.Context, string) error) (time.Duration, error) {
		id, err := r.bare.post(ctx, r.message(ma2h.NewKey()))
		if err != nil {
			return 0, err
		}
		var end time.Time
		woken := make(chan error, 1)
		go func() {
			err := wait(ctx, id)
			end = time.Now()
			woken <- err
		}()
		if err := r.hub.AwaitHold(ctx, id); err != nil {
			return 0, err
		}
		begin := time.Now()
		if err := r.hub.Answer(id, "ship"); err != nil {
			return 0, err
		}
		err = <-woken
		return end.Sub(begin), err
	}
	ours := func(ctx context.Context, id string) error { _, err := r.client.Wait(ctx, id); return err }
	var took, theirs []time.Duration
	for range m.rounds {
		for range samples {
			a, err := wake(ours)
			if err != nil {
				return nil, err
			}
			b, err := wake(r.bare.wait)
			if err != nil {
				return nil, err
			}
			took, theirs = append(took, a), append(theirs, b)
		}
	}
	slices.Sort(took)
	slices.Sort(theirs)
	at := func(all []time.Duration, percent int) float64 { return float64(all[len(all)*percent/100]) }
	first := beside(fmt.Sprintf("wake-up of Wait, p99 of %d", len(took)), at(took, 99), "a bare GET that is held", at(theirs, 99))
	first.reach = atMost(at(took, 99)/1e6, 5, " ms")
	return []row{first, beside("  p50", at(took, 50), "", at(theirs, 50))}, nil
}

// inbox drains, verifies, reserves, acts, commits and acknowledges, beside a
// loop that drains and acknowledges. The Hub is in the process, and what it
// does is in both numbers.
func inbox(ctx context.Context, m *meter) ([]row, error) {
	var rows []row
	for _, batch := range []int{32, 256} {
		next, err := inboxOf(ctx, m, batch)
		if err != nil {
			return nil, err
		}
		rows = append(rows, next)
	}
	return rows, nil
}

func inboxOf(ctx context.Context, m *meter, batch int) (row, error) {
	const directives = 2000
	r, err := newHubRig(ctx, ma2htest.Options{Capability: func(c *types.Capability) { c.Inbound.MaxBatch = int64(batch) }})
	if err != nil {
		return row{}, err
	}
	defer r.hub.Close()
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	if err != nil {
		return row{}, err
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{DirectiveKeys: ma2h.Keys(ma2h.HMACKey(r.hub.SigningSecret())), AgentID: agentID, Replay: store})
	if err != nil {
		return row{}, err
	}
	in, err := ma2h.NewInbox(ma2h.InboxConfig{Client: r.client, Verifier: verifier, Ledger: store, SingleReplica: true})
	if err != nil {
		return row{}, err
	}
	send := func(agent string) func(int) error {
		return func(n int) error {
			for range n {
				if _, err := r.hub.SendDirective(agent, ma2htest.DirectiveDraft{From: alice, Title: "Pause deploys", Body: "Until the ledger is migrated."}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	const other = "bare/dev-team"
	without := &bare{r.bare.http, r.bare.url, r.hub.Token(other)}
	ns, err := m.least(
		subject{most: directives, ready: send(agentID), run: func(n int) (time.Duration, error) { return consume(ctx, in, n, 2*batch) }},
		subject{most: directives, ready: send(other), run: func(n int) (time.Duration, error) {
			begin := time.Now()
			err := without.drain(ctx, n, batch)
			return time.Since(begin), err
		}},
	)
	if err != nil {
		return row{}, err
	}
	for _, agent := range []string{agentID, other} {
		for _, d := range r.hub.Directives(agent) {
			if d.Delivery.State != types.Acknowledged {
				return row{}, fmt.Errorf("directive %s is %s", d.ID, d.Delivery.State)
			}
		}
	}
	return row{
		what: fmt.Sprintf("inbox, the whole duty list, batches of %d", batch), ours: rate(ns[0]),
		yardstick: "draining and acknowledging, nothing verified", theirs: rate(ns[1]), ratio: ns[0] / ns[1],
		reach: atLeast(1e9/ns[0], 10_000, "/s"),
	}, nil
}

// consume acts on n directives.
func consume(ctx context.Context, in *ma2h.Inbox, n, concurrency int) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var acted atomic.Int64
	begin := time.Now()
	err := in.Consume(ctx, func(context.Context, *ma2h.Directive) error {
		if acted.Add(1) == int64(n) {
			cancel() // what is done is acknowledged all the same
		}
		return nil
	}, ma2h.ConsumeOptions{Authorize: ma2h.AllowFrom(alice), Concurrency: concurrency})
	took := time.Since(begin)
	if acted.Load() != int64(n) {
		return 0, fmt.Errorf("acted on %d of %d: %w", acted.Load(), n, err)
	}
	return took, nil
}

// drain takes n directives and acknowledges them.
func (b *bare) drain(ctx context.Context, n, batch int) error {
	for got := 0; got < n; {
		var drained struct {
			Messages []struct {
				Directive struct {
					ID string `json:"id"`
				} `json:"directive"`
			} `json:"messages"`
		}
		text, err := b.call(ctx, http.MethodGet, fmt.Sprintf("/v1/inbox?max=%d", batch), nil, http.StatusOK)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &drained); err != nil {
			return err
		}
		var ack types.InboxAckRequest
		for _, m := range drained.Messages {
			ack.IDs = append(ack.IDs, m.Directive.ID)
		}
		if text, err = json.Marshal(ack); err != nil {
			return err
		}
		if _, err := b.call(ctx, http.MethodPost, "/v1/inbox/ack", text, http.StatusOK); err != nil {
			return err
		}
		got += len(ack.IDs)
	}
	return nil
}
