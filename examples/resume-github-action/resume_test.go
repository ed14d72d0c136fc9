package resume_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

const agentID = "deploybot/dev-team"

// world is everything around the two halves: a Hub, the relay as a process
// behind a TLS proxy, and an API that takes dispatches.
type world struct {
	t          *testing.T
	hub        *ma2htest.Hub
	dir        string
	env        []string
	dispatches chan []byte
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), dispatches: make(chan []byte, 4)}
	for _, name := range []string{"ask", "resume", "relay"} {
		build := exec.Command("go", "build", "-o", filepath.Join(w.dir, name), "./"+name)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/repos/o/r/dispatches" || r.Header.Get("Authorization") != "Bearer relay-token" {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		rw.WriteHeader(http.StatusNoContent)
		w.dispatches <- body
	}))
	t.Cleanup(api.Close)

	relayAddr := freeAddr(t)
	proxy := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: relayAddr}))
	t.Cleanup(proxy.Close)
	roots := x509.NewCertPool()
	roots.AddCert(proxy.Certificate())
	w.hub = ma2htest.NewHub(t, ma2htest.Options{AllowLoopbackCallbacks: true, CallbackRoots: roots})

	w.env = append(os.Environ(),
		"SSL_CERT_FILE="+w.trust(w.hub.URL()),
		"MA2H_HUB_URL="+w.hub.URL(), "MA2H_AGENT_ID="+agentID, "MA2H_TOKEN="+w.hub.Token(agentID),
		"MA2H_SEAL_KEY="+strings.Repeat("5e", 32), "MA2H_CALLBACK_SECRET="+w.hub.SigningSecret(),
		"MA2H_CALLBACK_URL="+proxy.URL+"/ma2h/resume",
		"GITHUB_ACTIONS=true", "GITHUB_REPOSITORY=o/r", "GITHUB_API_URL="+api.URL,
		"RELAY_ADDR="+relayAddr, "RELAY_GITHUB_TOKEN=relay-token",
		"DEPLOY_LOG="+filepath.Join(w.dir, "deploy.log"),
	)
	w.startRelay(relayAddr)
	return w
}

// trust writes the certificate of a TLS server where a process looks for its
// roots.
func (w *world) trust(server string) string {
	w.t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(server, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	path := filepath.Join(w.dir, "roots.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw})
	if err := os.WriteFile(path, cert, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) startRelay(addr string) {
	w.t.Helper()
	relay := exec.Command(filepath.Join(w.dir, "relay"))
	relay.Env = w.env
	var log bytes.Buffer
	relay.Stderr = &log
	if err := relay.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = relay.Process.Signal(os.Interrupt)
		if err := relay.Wait(); err != nil {
			w.t.Errorf("relay: %v\n%s", err, log.String())
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			w.t.Fatalf("the relay does not listen\n%s", log.String())
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// run is one job: a process of its own, with a run id and nothing kept.
func (w *world) run(runID, attempt, name string, args ...string) (out string, outputs map[string]string, err error) {
	w.t.Helper()
	outputFile := filepath.Join(w.t.TempDir(), "outputs")
	cmd := exec.Command(filepath.Join(w.dir, name), args...)
	cmd.Env = append(w.env, "GITHUB_RUN_ID="+runID, "GITHUB_RUN_ATTEMPT="+attempt,
		"GITHUB_OUTPUT="+outputFile, "GITHUB_EVENT_PATH="+filepath.Join(w.dir, "event.json"))
	text, err := cmd.CombinedOutput()
	return string(text), readOutputs(w.t, outputFile), err
}

func readOutputs(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		name, marker, ok := strings.Cut(lines[i], "<<")
		if !ok {
			continue
		}
		var value []string
		for i++; i < len(lines) && lines[i] != marker; i++ {
			value = append(value, lines[i])
		}
		out[name] = strings.Join(value, "\n")
	}
	return out
}

// event turns a dispatch into the file that the job gets.
func (w *world) event(edit func(payload map[string]string)) {
	w.t.Helper()
	var body []byte
	select {
	case body = <-w.dispatches:
	case <-time.After(30 * time.Second):
		w.t.Fatal("no job was dispatched")
	}
	var d struct {
		EventType string            `json:"event_type"`
		Payload   map[string]string `json:"client_payload"`
	}
	if err := json.Unmarshal(body, &d); err != nil {
		w.t.Fatal(err)
	}
	if edit != nil {
		edit(d.Payload)
	}
	text, err := json.Marshal(map[string]any{"action": d.EventType, "client_payload": d.Payload})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "event.json"), text, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) ask() ma2h.Handle {
	w.t.Helper()
	out, outputs, err := w.run("100", "1", "ask", "v1.4", "abc123")
	if err != nil {
		w.t.Fatalf("ask: %v\n%s", err, out)
	}
	h, err := ma2h.ParseHandle(outputs["handle"])
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) deployed() int {
	text, _ := os.ReadFile(filepath.Join(w.dir, "deploy.log"))
	return strings.Count(string(text), "deployed v1.4 abc123\n")
}

// req: STA-09 STA-10
// report: B094 B097 B099 B117
func TestBothHalvesRunInProcessesOfTheirOwnAndDeployOnce(t *testing.T) {
	w := newWorld(t)
	h := w.ask()
	if out, _, err := w.run("100", "2", "ask", "v1.4", "abc123"); err != nil || !strings.Contains(out, "already asked") {
		t.Errorf("a re-run of the first half: %v\n%s", err, out)
	}
	w.hub.RequireMessages(t, 1)

	comment := "fine\nEOF\ndecision=hold\n"
	if err := w.hub.Answer(h.MessageID, "ship", ma2htest.By("human:alice"), ma2htest.Comment(comment)); err != nil {
		t.Fatal(err)
	}
	w.event(nil)
	out, outputs, err := w.run("200", "1", "resume")
	if err != nil {
		t.Fatalf("resume: %v\n%s", err, out)
	}
	if w.deployed() != 1 || outputs["decision"] != "ship" || outputs["comment"] != comment {
		t.Errorf("deployed %d times, outputs %q\n%s", w.deployed(), outputs, out)
	}

	// The same job started again, and the event delivered to another run: both
	// on a clean machine.
	if out, outputs, err := w.run("200", "2", "resume"); err == nil || len(outputs) > 0 || !strings.Contains(out, "in doubt") {
		t.Errorf("a re-run of the second half: %v %q\n%s", err, outputs, out)
	}
	if out, outputs, err := w.run("201", "1", "resume"); err != nil || len(outputs) > 0 || !strings.Contains(out, "another run has taken this") {
		t.Errorf("a second job for one answer: %v %q\n%s", err, outputs, out)
	}
	if w.deployed() != 1 {
		t.Errorf("deployed %d times", w.deployed())
	}
}

// report: B115
func TestAnEventThatWasChangedOnItsWayLeadsToThePulledAnswer(t *testing.T) {
	w := newWorld(t)
	h := w.ask()
	if err := w.hub.Answer(h.MessageID, "hold", ma2htest.By("human:alice")); err != nil {
		t.Fatal(err)
	}
	w.event(func(payload map[string]string) {
		for k, v := range payload {
			payload[k] = strings.ReplaceAll(v, "hold", "ship")
		}
	})
	out, outputs, err := w.run("200", "1", "resume")
	if err != nil || outputs["decision"] != "hold" || w.deployed() != 0 {
		t.Errorf("%v, deployed %d times, outputs %q\n%s", err, w.deployed(), outputs, out)
	}
}

// report: B100
func TestAJobOfAnotherEventWritesNothing(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(filepath.Join(w.dir, "event.json"), []byte(`{"ref":"refs/heads/main"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, outputs, err := w.run("200", "1", "resume"); err == nil || len(outputs) > 0 || w.deployed() != 0 {
		t.Errorf("%v %q\n%s", err, outputs, out)
	}
}
