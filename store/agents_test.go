package store_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

const agentID = "deploybot/dev-team"

// agentRole is an agent that asks one question and prints the id.
func agentRole() error {
	ctx := context.Background()
	box, _, err := openStore(ctx, os.Getenv("ENGINE"), os.Getenv("PLACE"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(os.Getenv("ROOTS")))
	c, err := ma2h.NewClient(ma2h.Config{
		HubURL: os.Getenv("HUB"), Credential: ma2h.Bearer(os.Getenv("TOKEN")), Agent: ma2h.Agent{ID: agentID}, Outbox: box,
		HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}},
	})
	if err != nil {
		return err
	}
	key := os.Getenv("KEY")
	// A restarted agent makes all that is random anew.
	secret := []byte("0123456789abcdef-agent-test-key!")
	sealer, err := ma2h.NewSealer(ma2h.SealerConfig{AgentID: agentID, Keys: []ma2h.SealKey{ma2h.SealKeyRaw("k1", secret)}})
	if err != nil {
		return err
	}
	state, err := sealer.Seal(map[string]string{"run": rand.Text()}, ma2h.Bind(agentID, key))
	if err != nil {
		return err
	}
	fmt.Println("asking")
	ack, err := c.Ask(ctx, ma2h.Ask{
		Title: "Ship?", IdempotencyKey: key, AllowedResolvers: []string{"human:alice"}, Request: ma2h.Confirm(),
		ExpiresAt: time.Now().Add(time.Hour), State: state,
	})
	if err != nil {
		return err
	}
	fmt.Println("id", ack.ID)
	return nil
}

// pemOf is the certificate of a TLS server.
func pemOf(t testing.TB, base string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw}))
}

// runAgent runs an agent to its end, or kills it the given time after it
// begins to ask. It returns the id, if it came to print one.
func runAgent(t testing.TB, env []string, kill time.Duration) (id string) {
	t.Helper()
	cmd, err := process("agent", env...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "asking" && kill > 0 {
			time.Sleep(kill)
			_ = cmd.Process.Kill()
		}
		if text, ok := strings.CutPrefix(lines.Text(), "id "); ok {
			id = text
		}
	}
	if err := cmd.Wait(); err != nil && kill == 0 {
		t.Errorf("an agent that was left alone failed: %v", err)
	}
	return id
}

// An agent is killed around its submit, started again under the same key, and
// once more after that.
//
// req: SUB-12 SUB-13 SUB-16
// report: B016 B018
func TestAnAgentThatIsKilledAroundItsSubmitAsksOnce(t *testing.T) {
	agents := map[string]int{"sqlite": 24, "postgres": 12, "redis": 12}
	if full() {
		agents = map[string]int{"sqlite": 200, "postgres": 200, "redis": 200}
	}
	for engine, n := range agents {
		t.Run(engine, func(t *testing.T) {
			place := engines[engine](t)
			hub := ma2htest.NewHub(t)
			// Some answers are lost besides.
			hub.Fault(ma2htest.RandomFaults(1, 6, ma2htest.Chance{Fault: ma2htest.LoseAck(1), Weight: 2}, ma2htest.Chance{Fault: ma2htest.ResetBefore(1), Weight: 1}))
			env := []string{"ENGINE", engine, "PLACE", place, "HUB", hub.URL(), "TOKEN", hub.Token(agentID), "ROOTS", pemOf(t, hub.URL())}

			var mu sync.Mutex
			var died int
			slots := make(chan struct{}, 4)
			var done sync.WaitGroup
			for i := range n {
				slots <- struct{}{}
				done.Go(func() {
					defer func() { <-slots }()
					mine := append(env[:len(env):len(env)], "KEY", fmt.Sprint("key-", i))
					// A submit takes a few milliseconds, with its discovery.
					first := runAgent(t, mine, time.Microsecond+time.Duration(mathrand.Int64N(int64(25*time.Millisecond))))
					second := runAgent(t, mine, 0)
					third := runAgent(t, mine, 0)
					if second == "" || third != second || first != "" && first != second {
						t.Errorf("agent %d got %q, then %q, then %q", i, first, second, third)
					}
					if first == "" {
						mu.Lock()
						died++
						mu.Unlock()
					}
				})
			}
			done.Wait()
			hub.RequireMessages(t, n)
			// What one key was sent with never differs.
			attempts, resent := map[string][]byte{}, 0
			for _, r := range hub.Requests() {
				if r.Endpoint != ma2htest.Submit {
					continue
				}
				key := string(r.Body[bytes.Index(r.Body, []byte(`"idempotency_key"`)):])
				key, _, _ = strings.Cut(key, ",")
				if was, ok := attempts[key]; ok {
					resent++
					if !bytes.Equal(was, r.Body) {
						t.Errorf("%s was sent with different bytes", key)
					}
				}
				attempts[key] = r.Body
			}
			if len(attempts) != n {
				t.Errorf("%d keys were sent, not %d", len(attempts), n)
			}
			if died == 0 {
				t.Error("no agent was killed before it had its id; the test shows nothing")
			}
			t.Logf("%d agents, %d killed before they had an id, %d submits sent again", n, died, resent)
		})
	}
}
