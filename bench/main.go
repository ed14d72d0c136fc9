// Bench measures the library beside its yardsticks in one run and prints a
// table of ratios. It is a module of its own, so that what it compares with is
// no dependency of the library.
//
//	cd bench && go run .
package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/gowebpki/jcs"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

const (
	agentID     = "deploybot/dev-team"
	secret      = "ma2h-test-secret-key-0123456789ab"
	callbackURL = "https://deploybot.example/ma2h/resume"
)

// row is one line of the table: the library's cost and its yardstick's.
type row struct {
	what, yardstick string
	ours, theirs    testing.BenchmarkResult
	reach           string
}

func main() {
	testing.Init()
	flag.Parse()
	if err := flag.Set("test.benchtime", "1s"); err != nil {
		log.Fatal(err)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s, %s/%s, %d cores\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	fmt.Fprintln(w, "what\tns/op\tallocs\tyardstick\tns/op\tratio\treach")
	for _, f := range []func() []row{verify, handler, submit} {
		for _, r := range f() {
			ours, theirs := r.ours.NsPerOp(), r.theirs.NsPerOp()
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%.2f\t%s\n", r.what, ours, r.ours.AllocsPerOp(), r.yardstick, theirs, float64(ours)/float64(theirs), r.reach)
		}
	}
	replay(w)
	if err := w.Flush(); err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// push is a signed Response of about n bytes, with a jti of its own.
type push struct {
	header http.Header
	body   []byte
}

var jtis atomic.Int64

func responseBody(n int) []byte {
	const head = `{"ma2h_version":"0.3","in_reply_to":"msg_01HZXASK0001","resolution_id":"res_01HZXR3SOLVE",` +
		`"agent":{"id":"deploybot/dev-team","run_id":"run_01HZX"},"resolution":"answered",` +
		`"response":{"value":"hold","edited":false,"actor":"human:alice","resolved_at":"2026-06-04T15:48:30Z","comment":"`
	const tail = `"},"defaulted":false,"state":{"sealed":"ma2h1.k.aaaaaaaa.x.bm90IGEgcmVhbCBzZWFs"}}`
	fill := max(0, n-len(head)-len(tail))
	return []byte(head + string(bytes.Repeat([]byte("x"), fill)) + tail)
}

// signer signs with the standard library and a canonicaliser that is not the
// library's own.
func sign(body []byte, now time.Time) push {
	canonical := must(jcs.Transform(body))
	member := func(name string) []byte {
		// The canonical form has these two as objects without nested names of
		// the same spelling.
		i := bytes.Index(canonical, []byte(`"`+name+`":{`))
		depth, j := 0, i+len(name)+3
		for k := j; ; k++ {
			switch canonical[k] {
			case '{':
				depth++
			case '}':
				if depth--; depth == 0 {
					return canonical[j : k+1]
				}
			}
		}
	}
	digest := sha256.Sum256(fmt.Appendf(nil, `{"response":%s,"state":%s}`, member("response"), member("state")))
	jti, t := "jti_"+strconv.FormatInt(jtis.Add(1), 10), strconv.FormatInt(now.Unix(), 10)
	text := fmt.Sprintf(`{"callback_url":%q,"id":"msg_01HZXASK0001","in_reply_to":"msg_01HZXASK0001","jti":%q,"ma2h_version":"0.3","payload_sha256":"%x","resolution":"answered","resolution_id":"res_01HZXR3SOLVE","resolved_at":"2026-06-04T15:48:30Z","t":%q}`,
		callbackURL, jti, digest, t)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	h := http.Header{"Content-Type": {"application/json"}}
	h.Set("MA2H-Signature", "t="+t+",jti="+jti+",v1="+base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
	return push{h, body}
}

func verifier() *ma2h.Verifier {
	store := must(ma2h.NewMemoryStore(ma2h.MemoryConfig{MaxEntries: 50_000_000}))
	return must(ma2h.NewVerifier(ma2h.VerifierConfig{
		Keys: ma2h.Keys(ma2h.HMACKey(secret)), CallbackURL: callbackURL, AgentID: agentID, Replay: store,
	}))
}

// pushes are signed before the clock runs; each is presented once.
func pushes(n, size int) []push {
	out := make([]push, n)
	now, body := time.Now(), responseBody(size)
	for i := range out {
		out[i] = sign(body, now)
	}
	return out
}

func verify() []row {
	const size = 700
	ours := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		v, ctx := verifier(), context.Background()
		list := pushes(b.N, size)
		b.ResetTimer()
		for i := range b.N {
			if _, err := v.Response(ctx, list[i].header, list[i].body); err != nil {
				b.Fatal(err)
			}
		}
	})
	one := pushes(1, size)[0]
	limit := testing.Benchmark(func(b *testing.B) {
		context := bytes.Repeat([]byte("c"), 390)
		for range b.N {
			sha256.Sum256(one.body)
			mac := hmac.New(sha256.New, []byte(secret))
			mac.Write(context)
			mac.Sum(nil)
		}
	})
	hook := must(standardwebhooks.NewWebhookRaw([]byte(secret)))
	now := time.Now()
	h := http.Header{}
	h.Set(standardwebhooks.HeaderWebhookID, "msg_1")
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, must(hook.Sign("msg_1", now, one.body)))
	standard := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			if err := hook.Verify(one.body, h); err != nil {
				b.Fatal(err)
			}
		}
	})
	return []row{
		{"verify a push of 700 bytes", "SHA-256 of the body and HMAC of the context", ours, limit, "<= 4"},
		{"verify a push of 700 bytes", "standard-webhooks, raw bytes only, no replay memory", ours, standard, "<= 2"},
	}
}

// handler serves over a real connection, one after another.
func handler() []row {
	serve := func(h func(n int) http.Handler, list func(n int) []push) testing.BenchmarkResult {
		return testing.Benchmark(func(b *testing.B) {
			items := list(b.N)
			srv := httptest.NewServer(h(b.N))
			defer srv.Close()
			client := srv.Client()
			b.ResetTimer()
			for i := range b.N {
				req := must(http.NewRequest(http.MethodPost, srv.URL, bytes.NewReader(items[i].body)))
				req.Header = items[i].header
				resp := must(client.Do(req))
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					b.Fatal(resp.StatusCode)
				}
			}
		})
	}
	// Every push is the same decision under its own signature: the first acts,
	// the others are verified and found done, which is what a Hub that resends
	// costs. The bare handler reads the body.
	ours := serve(func(int) http.Handler {
		store := must(ma2h.NewMemoryStore(ma2h.MemoryConfig{}))
		v := must(ma2h.NewVerifier(ma2h.VerifierConfig{Keys: ma2h.Keys(ma2h.HMACKey(secret)), CallbackURL: callbackURL, AgentID: agentID, Replay: store}))
		return must(ma2h.NewCallbackHandler(ma2h.CallbackConfig{Verifier: v, Ledger: store, SingleReplica: true,
			Handle: func(context.Context, *ma2h.Response) error { return nil }}))
	}, func(n int) []push { return pushes(n, 700) })
	bare := serve(func(int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "{}")
		})
	}, func(n int) []push { return pushes(n, 700) })
	return []row{{"callback handler, loopback", "a handler that reads the body", ours, bare, "<= 2"}}
}

// submit sends the same bytes as the library does, to the same fake Hub.
func submit() []row {
	opts := ma2htest.Options{KeepRequests: -1}
	hub := must(ma2htest.New(opts))
	defer hub.Close()
	cfg := hub.ConfigTLS(agentID)
	client := must(ma2h.NewClient(cfg))
	ctx := context.Background()
	ours := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if _, err := client.Notify(ctx, ma2h.Notify{Title: "Build is green", Body: "All checks passed.", IdempotencyKey: fmt.Sprint("a", b.N, i)}); err != nil {
				b.Fatal(err)
			}
		}
	})
	httpClient, token := hub.Client(), hub.Token(agentID)
	bare := testing.Benchmark(func(b *testing.B) {
		for i := range b.N {
			body := fmt.Appendf(nil, `{"ma2h_version":"0.3","type":"notify","created_at":"2026-06-04T15:48:30Z","agent":{"id":%q,"run_id":"r","runtime":"other"},"title":"Build is green","body":"All checks passed.","idempotency_key":"b%d-%d"}`, agentID, b.N, i)
			req := must(http.NewRequest(http.MethodPost, hub.URL()+"/v1/messages", bytes.NewReader(body)))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+token)
			resp := must(httpClient.Do(req))
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusAccepted {
				b.Fatal(resp.StatusCode)
			}
		}
	})
	return []row{{"submit over TLS on loopback", "a bare POST of the same message", ours, bare, "<= 1.3"}}
}

// replay measures claims beside a million live entries.
func replay(w io.Writer) {
	const live = 1_000_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	store := must(ma2h.NewMemoryStore(ma2h.MemoryConfig{MaxEntries: 100 * live}))
	ctx := context.Background()
	for i := range live {
		must(store.ClaimJTI(ctx, "live_"+strconv.Itoa(i), 0, time.Hour))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	var n atomic.Int64
	r := testing.Benchmark(func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := store.ClaimJTI(ctx, "new_"+strconv.FormatInt(n.Add(1), 10), 0, time.Minute); err != nil {
					b.Error(err)
				}
			}
		})
	})
	fmt.Fprintf(w, "replay claim in parallel, %d live\t%d\t%d\tbytes an entry\t%d\t\t<= 400 ns, <= 150 bytes\n",
		live, r.NsPerOp(), r.AllocsPerOp(), (after.HeapAlloc-before.HeapAlloc)/live)
	runtime.KeepAlive(store)
}
