package store_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
)

// replicaRole is one replica of a service that gets its answers pushed. Its
// act is a line in a file, somewhere in the middle of some time.
func replicaRole() error {
	ctx := context.Background()
	s, _, err := openStore(ctx, os.Getenv("ENGINE"), os.Getenv("PLACE"))
	if err != nil {
		return err
	}
	appendLine := func(file, line string) error {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString(line + "\n")
		return err
	}
	v, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		Keys: ma2h.Keys(ma2h.HMACKey(secret)), CallbackURL: callbackURL, AgentID: agentID, Replay: s,
	})
	if err != nil {
		return err
	}
	dawdle := func() { time.Sleep(time.Duration(mathrand.Int64N(int64(100 * time.Millisecond)))) }
	effects := os.Getenv("EFFECTS")
	h, err := ma2h.NewCallbackHandler(ma2h.CallbackConfig{
		Verifier: v, Ledger: s, Lease: time.Second,
		Handle: func(_ context.Context, r *ma2h.Response) error {
			dawdle()
			err := appendLine(effects, r.MessageID()+" "+r.ResolutionID())
			dawdle()
			return err
		},
		// Who knows where the effects are can tell.
		InDoubt: func(_ context.Context, act ma2h.Act) (ma2h.Doubt, error) {
			if err := appendLine(os.Getenv("DOUBTS"), act.MessageID()); err != nil {
				return ma2h.LeaveInDoubt, err
			}
			done, err := os.ReadFile(effects)
			if err != nil && !os.IsNotExist(err) {
				return ma2h.LeaveInDoubt, err
			}
			if bytes.Contains(done, []byte("\n"+act.MessageID()+" ")) || bytes.HasPrefix(done, []byte(act.MessageID()+" ")) {
				return ma2h.TakeAsDone, nil
			}
			return ma2h.ActAgain, nil
		},
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, h)
}

// fleet is replicas behind a splitter that knows no better than to guess.
type fleet struct {
	env   []string
	mu    sync.Mutex
	procs []*exec.Cmd
	addrs []string
}

func (f *fleet) start(i int) error {
	cmd, err := process("replica", f.env...)
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return fmt.Errorf("replica %d did not come up: %w", i, cmd.Wait())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.procs[i], f.addrs[i] = cmd, lines.Text()
	return nil
}

func (f *fleet) kill(i int) {
	f.mu.Lock()
	cmd := f.procs[i]
	f.mu.Unlock()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func (f *fleet) pick() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addrs[mathrand.IntN(len(f.addrs))]
}

// A Hub pushes each decision three times to eight replicas behind a random
// splitter, one of which is killed every second. Two copies are the same bytes,
// and what is tried again is signed anew.
//
// req: HND-07 RPL-04 RPL-05
// report: B075 B076 B079 B081
func TestEachDecisionIsActedOnOnceWhileReplicasAreKilled(t *testing.T) {
	last := 8 * time.Second
	if full() {
		last = time.Minute
	}
	for _, engine := range []string{"postgres", "redis", "sqlite"} {
		t.Run(engine, func(t *testing.T) {
			if engine == "sqlite" && !full() {
				t.Skip("MA2H_TEST_FULL is not 1")
			}
			survive(t, engine, last)
		})
	}
}

func survive(t *testing.T, engine string, last time.Duration) {
	place, dir := engines[engine](t), t.TempDir()
	effects, doubts := filepath.Join(dir, "effects"), filepath.Join(dir, "doubts")
	f := &fleet{env: []string{"ENGINE", engine, "PLACE", place, "EFFECTS", effects, "DOUBTS", doubts}, procs: make([]*exec.Cmd, 8), addrs: make([]string, 8)}
	for i := range f.procs {
		if err := f.start(i); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for i := range f.procs {
			f.kill(i)
		}
	})

	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	answers := map[int]int{}
	patience := time.Now().Add(last + 45*time.Second)
	deliver := func(d decision, signature string) {
		for time.Now().Before(patience) {
			status := d.push(client, f.pick(), signature)
			mu.Lock()
			answers[status]++
			mu.Unlock()
			switch {
			case status == http.StatusOK:
				return
			case status >= 400 && status < 500:
				t.Errorf("%s was answered %d, which is final", d.message, status)
				return
			}
			time.Sleep(time.Duration(50+mathrand.IntN(200)) * time.Millisecond)
			var err error
			if signature, err = d.sign(); err != nil {
				t.Error(err)
				return
			}
		}
		t.Errorf("%s was never taken", d.message)
	}

	over := time.After(last)
	kills, pushes := time.NewTicker(time.Second), time.NewTicker(25*time.Millisecond)
	defer kills.Stop()
	defer pushes.Stop()
	var deliveries, restarts sync.WaitGroup
	sent, killed := 0, 0
	for running := true; running; {
		select {
		case <-over:
			running = false
		case <-kills.C:
			i := killed % len(f.procs)
			killed++
			restarts.Go(func() {
				f.kill(i)
				if err := f.start(i); err != nil {
					t.Error(err)
				}
			})
		case <-pushes.C:
			d := newDecision(sent)
			sent++
			one, err := d.sign()
			if err != nil {
				t.Fatal(err)
			}
			two, err := d.sign()
			if err != nil {
				t.Fatal(err)
			}
			for _, signature := range []string{one, one, two} {
				deliveries.Go(func() { deliver(d, signature) })
			}
		}
	}
	deliveries.Wait()
	restarts.Wait()

	acted := map[string]int{}
	for _, line := range linesOf(t, effects) {
		message, _, _ := strings.Cut(line, " ")
		acted[message]++
	}
	for i := range sent {
		message := fmt.Sprint("msg-", i)
		if n := acted[message]; n != 1 {
			t.Errorf("%s was acted on %d times", message, n)
		}
		delete(acted, message)
	}
	for message := range acted {
		t.Errorf("%s was acted on and never pushed", message)
	}
	inDoubt := linesOf(t, doubts)
	if killed == 0 || len(inDoubt) == 0 && full() {
		t.Errorf("%d kills left %d doubts; the test shows nothing", killed, len(inDoubt))
	}
	t.Logf("%d decisions pushed 3 times, %d kills, %d doubts surfaced and settled, answers by status %v", sent, killed, len(inDoubt), answers)
}

func linesOf(t testing.TB, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}
