package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/internal/header"
)

// TestAllocationsStayBelowTheirCeilings counts and does not time. A ceiling is
// a little above what was counted when it was set.
func TestAllocationsStayBelowTheirCeilings(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, c := range map[string]struct {
		ceiling float64
		per     int // operations of one run of the func
		prepare func(t *testing.T) func() error
	}{
		"a header that is read":                     {2, 1, allocHeader},
		"a push of 700 bytes that verifies":         {14, 1, allocVerify},
		"a push of 700 bytes that is forged":        {7, 1, allocForged},
		"a directive that verifies":                 {23, 1, allocDirective},
		"a push that is processed and acted on":     {40, 1, allocProcess},
		"a push of what was acted on before":        {16, 1, allocProcessAgain},
		"a directive that is drained":               {36, drainedAtOnce, allocDrain},
		"a poll of Wait that brings no news":        {41, pollsAtOnce, allocPoll},
		"a delivery that a memory store takes":      {0, 1, allocClaim},
		"an act that a memory store takes and ends": {0, 1, allocReserve},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.prepare(t)
			var failed error
			run := func() {
				if err := f(); err != nil {
					failed = err
				}
			}
			for range 300 { // until nothing grows any more
				run()
			}
			got := testing.AllocsPerRun(100, run) / float64(c.per)
			if failed != nil {
				t.Fatal(failed)
			}
			t.Logf("%.1f of %.0f", got, c.ceiling)
			if got > c.ceiling {
				t.Errorf("it allocates %.1f times, over %.0f", got, c.ceiling)
			}
		})
	}
}

func allocHeader(t *testing.T) func() error {
	h := hubSigner{}.header(t, "response", benchBody(700), trustUnix, "jti_0000000000")
	return func() error { _, err := header.FromHTTP(h); return err }
}

func allocVerify(t *testing.T) func() error {
	body := benchBody(700)
	pushes, bytes, clock, i := benchPushes(t, body, 64), []byte(body), newTrustClock(), 0
	v := trustVerifier(t, TrustMemory(t, MemoryConfig{Now: clock.Now}))
	return func() error {
		if i++; i%len(pushes) == 0 {
			clock.Add(time.Hour)
		}
		_, err := v.Response(context.Background(), pushes[i%len(pushes)], bytes)
		return err
	}
}

func allocForged(t *testing.T) func() error {
	body := benchBody(700)
	bytes, h := []byte(body), hubSigner{secret: "the secret of a forger"}.header(t, "response", body, trustUnix, "j")
	v := trustVerifier(t, openReplay{})
	return func() error {
		if _, err := v.Response(context.Background(), h, bytes); !errors.Is(err, ErrSignature) {
			return fmt.Errorf("a forgery: %w", err)
		}
		return nil
	}
}

func allocDirective(t *testing.T) func() error {
	v, bytes, h := trustVerifier(t, openReplay{}), []byte(trustDirective), hubSigner{}.header(t, "directive", trustDirective, trustUnix, "j")
	return func() error { _, err := v.Directive(context.Background(), h, bytes); return err }
}

func allocProcess(t *testing.T) func() error { return allocProcessing(t, time.Hour+DefaultRetention) }

func allocProcessAgain(t *testing.T) func() error { return allocProcessing(t, time.Hour) }

// allocProcessing pushes one decision under many signatures. The store's clock
// goes on by step each time.
func allocProcessing(t *testing.T, step time.Duration) func() error {
	body := benchBody(700)
	pushes, bytes, clock, i := benchPushes(t, body, 64), []byte(body), newTrustClock(), 0
	store := TrustMemory(t, MemoryConfig{Now: clock.Now})
	h, err := NewCallbackHandler(CallbackConfig{
		Verifier: trustVerifier(t, store), Ledger: store, SingleReplica: true,
		Handle: func(context.Context, *Response) error { return nil },
	})
	mustNot(t, err)
	act := step > DefaultRetention
	return func() error {
		clock.Add(step)
		i++
		if out := h.Process(context.Background(), pushes[i%len(pushes)], bytes); out.Status != http.StatusOK || out.Acted != act && i > 1 {
			return fmt.Errorf("%d, acted %t: %w", out.Status, out.Acted, out.Err)
		}
		return nil
	}
}

const drainedAtOnce = 32

func allocDrain(t *testing.T) func() error {
	entry := `{"directive":` + trustDirective + `,"signature":"MA2H-Signature: ` + hubSigner{}.value(t, "directive", trustDirective, trustUnix, "j") + `"}`
	batch := `{"messages":[` + entry + strings.Repeat(","+entry, drainedAtOnce-1) + `]}`
	client := connect(t, over(roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/.well-known/ma2h") {
			return canned(http.StatusOK, `{"ma2h_version":"0.4","inbound":{"enabled":true,"poll_url":"https://hub.test/v1/inbox","max_batch":32}}`), nil
		}
		return canned(http.StatusOK, batch), nil
	})))
	in, err := NewInbox(InboxConfig{Client: client, Verifier: trustVerifier(t, openReplay{})})
	mustNot(t, err)
	return func() error {
		entries, err := in.Drain(context.Background(), DrainOptions{})
		if err == nil && len(entries) != drainedAtOnce {
			err = fmt.Errorf("%d entries", len(entries))
		}
		return err
	}
}

const pollsAtOnce = 32

// allocPoll waits through many polls without news, each of which the Hub held
// by the Client's clock. The last one, which ends the wait, counts as well.
func allocPoll(t *testing.T) func() error {
	clock, polls := newTrustClock(), 0
	client := connect(t, over(roundTrip(func(r *http.Request) (*http.Response, error) {
		clock.Add(time.Minute)
		if polls++; polls%pollsAtOnce == 0 {
			return canned(http.StatusOK, view()), nil
		}
		return canned(http.StatusNotModified, ""), nil
	})), func(c *Config) { c.Now = clock.Now })
	return func() error { _, err := client.Wait(context.Background(), "msg_1"); return err }
}

// allocKeys are keys that come round after their time.
func allocKeys() (keys []string) {
	for i := range 256 {
		keys = append(keys, "jti\x00Keys\x00deploybot/dev-team\x00jti_"+strconv.Itoa(i))
	}
	return keys
}

func allocClaim(t *testing.T) func() error {
	clock, keys, i := newTrustClock(), allocKeys(), 0
	s := TrustMemory(t, MemoryConfig{Now: clock.Now})
	return func() error {
		clock.Add(time.Second)
		i++
		key := keys[i%len(keys)]
		if st, err := s.ClaimJTI(context.Background(), key, time.Minute, 2*time.Minute); err != nil || st != Fresh {
			return fmt.Errorf("%v: %w", st, err)
		}
		return s.SettleJTI(context.Background(), key, true)
	}
}

func allocReserve(t *testing.T) func() error {
	clock, keys, i := newTrustClock(), allocKeys(), 0
	s := TrustMemory(t, MemoryConfig{Now: clock.Now, Retention: time.Minute})
	return func() error {
		clock.Add(time.Second)
		i++
		act := Act{Key: keys[i%len(keys)], Resolution: "res_1"}
		r, err := s.Reserve(context.Background(), act, time.Minute, false)
		if err != nil || r.State != ActClaimed {
			return fmt.Errorf("%v: %w", r.State, err)
		}
		return s.Commit(context.Background(), act, r.Token)
	}
}
