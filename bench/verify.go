package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// verifying is the library on a ring of pushes, each new to the replay store.
func verifying(ctx context.Context, r *ring) (subject, error) {
	v, err := newReceiver()
	if err != nil {
		return subject{}, err
	}
	return subject{ready: r.sign, run: each(func(i int) error {
		if i %= len(r.headers); i == 0 {
			v.clock.skip(time.Hour)
		}
		_, err := v.Response(ctx, r.headers[i], r.body)
		return err
	})}, nil
}

// hashing is the least that a verification can do.
func hashing(r *ring) subject {
	return subject{ready: r.sign, run: each(func(int) error {
		sha256.Sum256(r.body)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(r.context)
		mac.Sum(nil)
		return nil
	})}
}

// standardWebhooks verifies the raw bytes of the same body. It remembers no
// delivery.
func standardWebhooks(r *ring) (subject, error) {
	hook, err := standardwebhooks.NewWebhookRaw([]byte(secret))
	if err != nil {
		return subject{}, err
	}
	h := http.Header{}
	return subject{
		ready: func(int) error {
			now := time.Now()
			signature, err := hook.Sign(messageID, now, r.body)
			h.Set(standardwebhooks.HeaderWebhookID, messageID)
			h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
			h.Set(standardwebhooks.HeaderWebhookSignature, signature)
			return err
		},
		run: each(func(int) error { return hook.Verify(r.body, h) }),
	}, nil
}

func verify(ctx context.Context, m *meter) ([]row, error) {
	const what = "verify a push of 700 bytes"
	r, err := newRing(responseBody(700, sealedState))
	if err != nil {
		return nil, err
	}
	ours, err := verifying(ctx, r)
	if err != nil {
		return nil, err
	}
	standard, err := standardWebhooks(r)
	if err != nil {
		return nil, err
	}
	subjects := []subject{ours, hashing(r), standard}
	node, why, err := startReference(ctx, m.reference)
	if err != nil {
		return nil, err
	}
	if node != nil {
		defer node.stop()
		subjects = append(subjects, node.verifying(r))
	}
	ns, err := m.least(subjects...)
	if err != nil {
		return nil, err
	}
	allocs, err := allocsOf(ours)
	if err != nil {
		return nil, err
	}
	rows := []row{
		beside(what, ns[0], "SHA-256 of the body, HMAC of the context", ns[1]),
		beside("", ns[0], "standard-webhooks: raw bytes, no memory of deliveries", ns[2]),
		notMeasured("", "the TypeScript reference under Node", why),
		{what: "  allocations", ours: fmt.Sprint(allocs), reach: atMost(allocs, 30, "")},
	}
	rows[0].reach, rows[1].reach = atMost(rows[0].ratio, 4, ""), atMost(rows[1].ratio, 2, "")
	if node != nil {
		rows[2] = beside("", ns[0], "the TypeScript reference, Node "+node.version, ns[3])
		rows[2].reach = atMost(rows[2].ratio, 0.5, "")
	}
	return rows, nil
}

// allocsOf returns the allocations of one operation.
func allocsOf(s subject) (float64, error) {
	const n = 1000
	if err := s.ready(n); err != nil {
		return 0, err
	}
	var err error
	all := testing.AllocsPerRun(1, func() { _, err = s.run(n) })
	return float64(int(all+n/2) / n), err
}

// verifySizes shows what a byte costs.
func verifySizes(ctx context.Context, m *meter) ([]row, error) {
	var rows []row
	for _, kind := range []struct {
		name  string
		state func(int) string
	}{{"one text", sealedState}, {"records", recordState}} {
		perByte := make(map[int]float64)
		for _, kb := range []int{1, 16, 64, 256, 1024} {
			r, err := newRing(responseBody(kb<<10, kind.state))
			if err != nil {
				return nil, err
			}
			ours, err := verifying(ctx, r)
			if err != nil {
				return nil, err
			}
			ns, err := m.least(ours, hashing(r))
			if err != nil {
				return nil, err
			}
			speed := func(ns float64) float64 { return float64(len(r.body)) / ns * 1e3 }
			perByte[kb] = ns[0] / float64(len(r.body))
			next := row{
				what: fmt.Sprintf("verify %d KB, %s", kb, kind.name), ours: threeDigits(speed(ns[0])) + " MB/s",
				yardstick: "SHA-256 of the body, HMAC of the context", theirs: threeDigits(speed(ns[1])) + " MB/s", ratio: ns[0] / ns[1],
			}
			if kb == 64 {
				next.reach = atLeast(speed(ns[0]), 150, " MB/s")
			}
			rows = append(rows, next)
		}
		grows := perByte[1024] / perByte[64]
		rows = append(rows, row{
			what: "  a byte of 1 MB, " + kind.name, ours: fmt.Sprintf("%.2f ns", perByte[1024]),
			yardstick: "a byte of 64 KB", theirs: fmt.Sprintf("%.2f ns", perByte[64]), ratio: grows, reach: atMost(grows, 1.5, ""),
		})
	}
	return rows, nil
}
