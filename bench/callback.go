package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
)

// callers is how many connections push at a time.
const callers = 16

// callback pushes over loopback to a handler of the library and to one that
// reads the body. The caller writes requests that are ready and reads as many
// bytes as an answer has, so that its own work, in both numbers, is small.
func callback(ctx context.Context, m *meter) ([]row, error) {
	v, err := newReceiver()
	if err != nil {
		return nil, err
	}
	handler, err := ma2h.NewCallbackHandler(ma2h.CallbackConfig{
		Verifier: v.Verifier, Ledger: v.store, SingleReplica: true,
		Handle: func(context.Context, *ma2h.Response) error { return nil },
	})
	if err != nil {
		return nil, err
	}
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	})
	s, err := newSigner(responseBody(700, sealedState))
	if err != nil {
		return nil, err
	}
	load := &load{signer: s}
	// Each push is a message of its own, and the store forgets them from run to
	// run.
	forget := func() { v.clock.skip(2 * ma2h.DefaultRetention) }
	ours, stop, err := load.on(handler, forget)
	if err != nil {
		return nil, err
	}
	defer stop()
	theirs, stop, err := load.on(bare, func() {})
	if err != nil {
		return nil, err
	}
	defer stop()
	ns, err := m.least(ours, theirs)
	if err != nil {
		return nil, err
	}
	share := ns[1] / ns[0] * 100
	return []row{{
		what: fmt.Sprintf("callback handler, act once, %d callers", callers), ours: rate(ns[0]),
		yardstick: "a handler that reads the body", theirs: rate(ns[1]), ratio: ns[0] / ns[1], reach: atLeast(share, 50, " % of it"),
	}}, nil
}

// load is pushes as they go over the wire.
type load struct {
	signer   *signer
	made     int
	requests [][]byte
}

// ready signs n pushes. A run of any subject uses them up.
func (l *load) ready(n int) {
	now := time.Now()
	l.requests = l.requests[:0]
	for range n {
		l.made++
		message := fmt.Sprintf("msg_%017d", l.made)
		_, header := l.signer.sign(message, now)
		body := l.signer.of(message)
		l.requests = append(l.requests, fmt.Appendf(nil,
			"POST /ma2h/resume HTTP/1.1\r\nHost: deploybot.example\r\nContent-Type: application/json\r\nMA2H-Signature: %s\r\nContent-Length: %d\r\n\r\n%s",
			header, len(body), body))
	}
}

// on serves h and returns the subject that loads it.
func (l *load) on(h http.Handler, before func()) (subject, func(), error) {
	srv := httptest.NewServer(h)
	conns := make([]*caller, callers)
	stop := func() {
		for _, c := range conns {
			if c != nil {
				_ = c.conn.Close()
			}
		}
		srv.Close()
	}
	for i := range conns {
		conn, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
		if err != nil {
			stop()
			return subject{}, nil, err
		}
		conns[i] = &caller{conn: conn, in: bufio.NewReader(conn)}
	}
	return subject{
		most:  1 << 15,
		ready: func(n int) error { before(); l.ready(n); return nil },
		run:   abreast(callers, func(w, i int) error { return conns[w].push(l.requests[i]) }),
	}, stop, nil
}

// caller is a connection of a Hub. All good answers are of one length.
type caller struct {
	conn   net.Conn
	in     *bufio.Reader
	answer []byte
}

var accepted = []byte("HTTP/1.1 200 OK\r\n")

func (c *caller) push(request []byte) error {
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	if c.answer == nil {
		return c.first()
	}
	if _, err := io.ReadFull(c.in, c.answer); err != nil {
		return err
	}
	if !bytes.HasPrefix(c.answer, accepted) || c.in.Buffered() > 0 {
		return fmt.Errorf("a push was answered %q", c.answer)
	}
	return nil
}

// first learns how long an answer is.
func (c *caller) first() error {
	resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(c.in, (*tail)(&c.answer))), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("a push was answered %s", resp.Status))
	}
	return err
}

// tail keeps what is written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) { *t = append(*t, p...); return len(p), nil }
