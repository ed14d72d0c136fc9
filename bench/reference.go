package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

//go:embed reference.mjs
var referenceDriver string

// reference is a Node that runs the TypeScript reference and waits for orders.
// It is warm by the time it is measured.
type reference struct {
	version string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	stderr  strings.Builder
}

// startReference starts one in the folder of the reference, or says why there
// is none.
func startReference(ctx context.Context, folder string) (r *reference, why string, err error) {
	if folder == "" {
		return nil, "no -reference", nil
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, "no node on the path", nil
	}
	r = &reference{cmd: exec.CommandContext(ctx, node, "--import", "tsx", "--input-type=module", "--eval", referenceDriver)}
	r.cmd.Dir, r.cmd.Stderr = folder, &r.stderr
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, "", err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	r.out = bufio.NewScanner(out)
	if err := r.cmd.Start(); err != nil {
		return nil, "", err
	}
	if r.version, err = r.answer(); err != nil {
		r.stop()
		return nil, "", err
	}
	return r, "", nil
}

func (r *reference) stop() {
	_ = r.in.Close()
	_ = r.cmd.Wait()
}

func (r *reference) answer() (string, error) {
	if !r.out.Scan() {
		_ = r.cmd.Wait()
		return "", fmt.Errorf("the reference gave no answer: %s", r.stderr.String())
	}
	return r.out.Text(), nil
}

func (r *reference) order(v any) (time.Duration, error) {
	if err := json.NewEncoder(r.in).Encode(v); err != nil {
		return 0, err
	}
	text, err := r.answer()
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(ns), err
}

// verifying is the reference on the pushes of the ring. It gets the body as the
// text that a server would first have to decode, and forgets each round's
// deliveries at once.
func (r *reference) verifying(of *ring) subject {
	return subject{
		ready: func(n int) error {
			if err := of.sign(n); err != nil {
				return err
			}
			_, err := r.order(map[string]any{"pushes": map[string]any{
				"key": secret, "callback_url": callbackURL, "body": string(of.body), "headers": of.values,
			}})
			return err
		},
		run: func(n int) (time.Duration, error) { return r.order(map[string]int{"n": n}) },
	}
}
