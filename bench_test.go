package ma2h_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// memoryInUse is what the runtime holds from the system, less what it gave
// back.
func memoryInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}

// BenchmarkSubmit sends asks over TLS on loopback, and beside them the same
// bytes with a bare net/http POST. The keys differ, so every one is a new
// message.
func BenchmarkSubmit(b *testing.B) {
	hub := ma2htest.NewHub(b, ma2htest.Options{KeepRequests: 1})
	cfg := hub.ConfigTLS(asker)
	c := connect(b, cfg)
	a := shipOrHold("")
	a.Body = string(bytes.Repeat([]byte("why it matters. "), 32))
	a.IdempotencyKey = "first"
	mustAsk(b, c, a)
	first := hub.Messages()[0].Submitted
	url, token := hub.URL()+"/v1/messages", "Bearer "+hub.Token(asker)
	bare := func(key string) {
		body := bytes.Replace(first, []byte(`"first"`), []byte(`"`+key+`"`), 1)
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
		mustNot(b, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", token)
		resp, err := cfg.HTTPClient.Do(req)
		mustNot(b, err)
		_, err = io.Copy(io.Discard, resp.Body)
		mustNot(b, err)
		mustNot(b, resp.Body.Close())
		if resp.StatusCode != http.StatusAccepted {
			b.Fatal(resp.Status)
		}
	}
	var ours, theirs time.Duration
	n := 0
	for b.Loop() {
		n++
		key := strconv.Itoa(n)
		begin := time.Now()
		bare("bare-" + key)
		theirs += time.Since(begin)
		begin = time.Now()
		a.IdempotencyKey = "ours-" + key
		if _, err := c.Ask(b.Context(), a); err != nil {
			b.Fatal(err)
		}
		ours += time.Since(begin)
	}
	b.ReportMetric(float64(ours.Microseconds())/float64(n), "µs/submit")
	b.ReportMetric(float64(theirs.Microseconds())/float64(n), "µs/bare-post")
	b.ReportMetric(float64(ours)/float64(theirs), "ratio")
}

// BenchmarkWakeUp is the time from the human's answer to the return of Wait.
func BenchmarkWakeUp(b *testing.B) {
	hub := ma2htest.NewHub(b, ma2htest.Options{KeepRequests: 1})
	c := connect(b, hub.ConfigTLS(asker))
	var took []time.Duration
	for b.Loop() {
		id := mustAsk(b, c, shipOrHold(ma2h.NewKey()))
		woken := make(chan time.Time)
		go func() {
			if _, err := c.Wait(b.Context(), id); err != nil {
				b.Error(err)
			}
			woken <- time.Now()
		}()
		mustNot(b, hub.AwaitHold(b.Context(), id))
		begin := time.Now()
		mustNot(b, hub.Answer(id, "ship"))
		took = append(took, (<-woken).Sub(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// hubProcess, in the environment, makes the test binary a Hub of its own.
const hubProcess = "MA2H_TEST_HUB_PROCESS"

// serveHub prints its URL and a token, and does what it is told, a word a
// line: "held" waits until every message is waited on, "answer" answers all.
func serveHub(in io.Reader, out io.Writer) error {
	hub, err := ma2htest.New(ma2htest.Options{KeepRequests: -1})
	if err != nil {
		return err
	}
	defer hub.Close()
	fmt.Fprintln(out, hub.URL(), hub.Token(asker))
	for lines := bufio.NewScanner(in); lines.Scan(); fmt.Fprintln(out, "done") {
		for _, m := range hub.Messages() {
			switch word := lines.Text(); {
			case m.Status != types.StatusOpen:
			case word == "held":
				err = hub.AwaitHold(context.Background(), m.ID)
			case word == "answer":
				err = hub.Answer(m.ID, "ship")
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// BenchmarkWaiters holds 5,000 goroutines in Wait on one Client over TLS, the
// Hub in another process, and reports what they take of this one.
func BenchmarkWaiters(b *testing.B) {
	const waiters = 5000
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), hubProcess+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	mustNot(b, err)
	out, err := cmd.StdoutPipe()
	mustNot(b, err)
	mustNot(b, cmd.Start())
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	var url, token string
	_, err = fmt.Fscanln(out, &url, &token)
	mustNot(b, err)
	tell := func(word string) {
		var answer string
		fmt.Fprintln(in, word)
		if _, err := fmt.Fscanln(out, &answer); err != nil || answer != "done" {
			b.Fatal(answer, err)
		}
	}
	own := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer own.CloseIdleConnections()
	c := connect(b, ma2h.Config{HubURL: url, Credential: ma2h.Bearer(token), Agent: ma2h.Agent{ID: asker}, HTTPClient: &http.Client{Transport: own}})
	for b.Loop() {
		before := memoryInUse()
		var wg sync.WaitGroup
		for range waiters {
			id := mustAsk(b, c, shipOrHold(ma2h.NewKey()))
			wg.Go(func() {
				if r, err := c.Wait(b.Context(), id); err != nil || !r.Answered("ship") {
					b.Error(r, err)
				}
			})
		}
		tell("held")
		now := memoryInUse()
		b.ReportMetric(float64(now)/(1<<20), "MB-process")
		b.ReportMetric(float64(now-before)/waiters, "B/waiter")
		tell("answer")
		wg.Wait()
	}
}
