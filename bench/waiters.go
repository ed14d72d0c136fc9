package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// Some of the processes of this program play a role instead.
const roleEnv = "MA2H_BENCH_ROLE"

func play(role string) error {
	switch role {
	case "hub":
		return serveHub(os.Stdin, os.Stdout)
	case "waiters":
		return holdWaiters(context.Background(), os.Stdout, true)
	case "bare waiters":
		return holdWaiters(context.Background(), os.Stdout, false)
	}
	return fmt.Errorf("no role %q", role)
}

func process(ctx context.Context, role string) (*exec.Cmd, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env, cmd.Stderr = append(os.Environ(), roleEnv+"="+role), os.Stderr
	return cmd, nil
}

const waiting = 5000

// waiters holds 5,000 goroutines in Wait on one Client, in a process that does
// nothing else, and beside it as many bare requests in another.
func waiters(ctx context.Context, _ *meter) ([]row, error) {
	var mb, each [2]float64
	for i, role := range []string{"waiters", "bare waiters"} {
		cmd, err := process(ctx, role)
		if err != nil {
			return nil, err
		}
		out, err := cmd.Output()
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Sscan(string(out), &mb[i], &each[i]); err != nil {
			return nil, err
		}
	}
	return []row{
		{
			what: fmt.Sprintf("%d waiters on one Client, memory of the process", waiting), ours: fmt.Sprintf("%.0f MB", mb[0]),
			yardstick: "as many bare GETs that are held", theirs: fmt.Sprintf("%.0f MB", mb[1]), ratio: mb[0] / mb[1], reach: atMost(mb[0], 200, " MB"),
		},
		{what: "  a waiter", ours: fmt.Sprintf("%.1f KB", each[0]), theirs: fmt.Sprintf("%.1f KB", each[1]), ratio: each[0] / each[1]},
	}, nil
}

// inUse is what the runtime holds from the system, less what it gave back.
func inUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Sys - m.HeapReleased)
}

// holdWaiters prints what the process takes in MB and what a waiter does in KB.
// The Hub is in a process of its own.
func holdWaiters(ctx context.Context, out io.Writer, withClient bool) error {
	hub, err := startHub(ctx)
	if err != nil {
		return err
	}
	defer hub.stop()
	own := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer own.CloseIdleConnections()
	raw := &bare{&http.Client{Transport: own}, hub.url, hub.token}
	client, err := ma2h.NewClient(ma2h.Config{HubURL: hub.url, Credential: ma2h.Bearer(hub.token), Agent: ma2h.Agent{ID: agentID}, HTTPClient: raw.http})
	if err != nil {
		return err
	}
	before := inUse()
	wait := raw.wait
	if withClient {
		wait = func(ctx context.Context, id string) error {
			r, err := client.Wait(ctx, id)
			if err == nil && !r.Answered("ship") {
				err = errors.New("it was answered otherwise")
			}
			return err
		}
	}
	var wg sync.WaitGroup
	failed := make(chan error, waiting)
	for range waiting {
		id, err := raw.post(ctx, fmt.Appendf(nil, `{"ma2h_version":"0.3","type":"ask","created_at":"2026-06-04T15:48:30Z","agent":{"id":%q,"run_id":"r","runtime":"other"},`+
			`"title":"Ship 1.4 to prod?","idempotency_key":%q,`+
			`"request":{"mode":"select","allowed_resolvers":[%q],"options":[{"value":"ship","label":"Ship now"},{"value":"hold","label":"Hold"}]}}`, agentID, ma2h.NewKey(), alice))
		if err != nil {
			return err
		}
		wg.Go(func() { failed <- wait(ctx, id) })
	}
	if err := hub.tell("held"); err != nil {
		return err
	}
	now := inUse()
	fmt.Fprintln(out, now/1e6, (now-before)/waiting/1e3)
	if err := hub.tell("answer"); err != nil {
		return err
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// hubProcess is a Hub in a process of its own.
type hubProcess struct {
	cmd        *exec.Cmd
	in         io.WriteCloser
	out        *bufio.Scanner
	url, token string
}

func startHub(ctx context.Context) (*hubProcess, error) {
	cmd, err := process(ctx, "hub")
	if err != nil {
		return nil, err
	}
	h := &hubProcess{cmd: cmd}
	if h.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.out = bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if h.out.Scan() {
		h.url, h.token, _ = strings.Cut(h.out.Text(), " ")
	}
	if h.token == "" {
		h.stop()
		return nil, errors.New("the Hub did not start")
	}
	return h, nil
}

func (h *hubProcess) stop() {
	_ = h.in.Close()
	_ = h.cmd.Wait()
}

func (h *hubProcess) tell(word string) error {
	fmt.Fprintln(h.in, word)
	if !h.out.Scan() || h.out.Text() != "done" {
		return fmt.Errorf("the Hub did not do %q", word)
	}
	return nil
}

// serveHub prints its URL and a token, and does what it is told, a word a
// line: "held" waits until every message is waited on, "answer" answers all.
func serveHub(in io.Reader, out io.Writer) error {
	hub, err := ma2htest.New(ma2htest.Options{KeepRequests: -1})
	if err != nil {
		return err
	}
	defer hub.Close()
	fmt.Fprintln(out, hub.URL(), hub.Token(agentID))
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
