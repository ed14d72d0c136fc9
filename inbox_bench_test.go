package ma2h_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// BenchmarkInbox drains, verifies, reserves, acts, commits and acknowledges
// over TLS on loopback, and beside it the same number of directives with a bare
// loop that drains and acknowledges and verifies nothing. The Hub is in the
// process, and what it signs is in both numbers.
func BenchmarkInbox(b *testing.B) {
	for _, batch := range []int{32, 256} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) { benchmarkInbox(b, batch) })
	}
}

func benchmarkInbox(b *testing.B, batch int) {
	const directives = 5000
	hub := ma2htest.NewHub(b, ma2htest.Options{KeepRequests: -1, Capability: func(c *types.Capability) { c.Inbound.MaxBatch = int64(batch) }})
	send := func(agent string) {
		for range directives {
			_, err := hub.SendDirective(agent, ma2htest.DirectiveDraft{From: alice, Title: "Pause deploys", Body: "Until the ledger is migrated."})
			mustNot(b, err)
		}
	}
	var ours, theirs time.Duration
	n := 0
	for b.Loop() {
		n++
		bare, agent := fmt.Sprintf("bare-%d", n), fmt.Sprintf("ours-%d", n)
		b.StopTimer()
		send(bare)
		send(agent)
		b.StartTimer()
		begin := time.Now()
		drainBare(b, hub, bare, batch, directives)
		theirs += time.Since(begin)
		begin = time.Now()
		consumeAll(b, hub, agent, 2*batch, directives)
		ours += time.Since(begin)
	}
	b.ReportMetric(directives*float64(n)/ours.Seconds(), "directives/s")
	b.ReportMetric(directives*float64(n)/theirs.Seconds(), "bare/s")
	b.ReportMetric(float64(ours)/float64(theirs), "ratio")
}

func consumeAll(b *testing.B, hub *ma2htest.Hub, agent string, concurrency, want int) {
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	mustNot(b, err)
	client := connect(b, hub.ConfigTLS(agent))
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{DirectiveKeys: ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())), AgentID: agent, Replay: store})
	mustNot(b, err)
	inbox, err := ma2h.NewInbox(ma2h.InboxConfig{Client: client, Verifier: verifier, Ledger: store, SingleReplica: true})
	mustNot(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var acted atomic.Int64
	act := func(context.Context, *ma2h.Directive) error {
		if acted.Add(1) == int64(want) {
			cancel() // what is done is acknowledged all the same
		}
		return nil
	}
	err = inbox.Consume(ctx, act, ma2h.ConsumeOptions{Authorize: ma2h.AllowFrom(alice), Concurrency: concurrency})
	if n := acted.Load(); n != int64(want) {
		b.Fatalf("acted on %d, %v", n, err)
	}
	wantNoneLeft(b, hub, agent)
}

// drainBare does what a client without any care would.
func drainBare(b *testing.B, hub *ma2htest.Hub, agent string, batch, want int) {
	client, token := hub.Client(), "Bearer "+hub.Token(agent)
	call := func(method, path string, body []byte, answer any) {
		req, err := http.NewRequestWithContext(b.Context(), method, hub.URL()+path, bytes.NewReader(body))
		mustNot(b, err)
		req.Header.Set("Authorization", token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		mustNot(b, err)
		text, err := io.ReadAll(resp.Body)
		mustNot(b, err)
		mustNot(b, resp.Body.Close())
		mustNot(b, json.Unmarshal(text, answer))
	}
	for got := 0; got < want; {
		var drained struct {
			Messages []struct {
				Directive struct {
					ID string `json:"id"`
				} `json:"directive"`
			} `json:"messages"`
		}
		call(http.MethodGet, fmt.Sprintf("/v1/inbox?max=%d", batch), nil, &drained)
		var ack types.InboxAckRequest
		for _, m := range drained.Messages {
			ack.IDs = append(ack.IDs, m.Directive.ID)
		}
		text, err := json.Marshal(ack)
		mustNot(b, err)
		call(http.MethodPost, "/v1/inbox/ack", text, new(any))
		got += len(ack.IDs)
	}
	wantNoneLeft(b, hub, agent)
}

func wantNoneLeft(b *testing.B, hub *ma2htest.Hub, agent string) {
	b.StopTimer()
	defer b.StartTimer()
	for _, d := range hub.Directives(agent) {
		if d.Delivery.State != types.Acknowledged {
			b.Fatalf("%s is %s", d.ID, d.Delivery.State)
		}
	}
}
