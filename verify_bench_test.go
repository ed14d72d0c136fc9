package ma2h_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/ma2h/ma2h-go"
)

// benchBody is a Response of about n bytes.
func benchBody(n int) string {
	const base = `{"ma2h_version":"0.3","in_reply_to":"msg_01HZXASK0001","resolution_id":"res_01HZXR3SOLVE",` +
		`"agent":{"id":"deploybot/dev-team","run_id":"run_01HZXRUN0001"},"resolution":"answered","response":{"value":"hold",` +
		`"edited":false,"actor":"human:alice","resolved_at":"2026-06-04T15:48:30Z","comment":""},"defaulted":false,"state":{"sealed":"%s"}}`
	return fmt.Sprintf(base, strings.Repeat("MA2HSEALv1", max(0, n-len(base))/10))
}

// benchPushes are signed pushes of one body, each with a jti of its own.
func benchPushes(b testing.TB, body string, n int) []http.Header {
	b.Helper()
	out := make([]http.Header, n)
	ts := strconv.Itoa(trustUnix)
	text := specContext(b, "response", body, trustURL, ts, "jti_0000000000")
	for i := range out {
		jti := fmt.Sprintf("jti_%010d", i)
		out[i] = http.Header{"Ma2h-Signature": {"t=" + ts + ",jti=" + jti + ",v1=" + hubSigner{}.mac(strings.Replace(text, "jti_0000000000", jti, 1))}, "Content-Type": {"application/json"}}
	}
	return out
}

// BenchmarkVerify is a push of 700 bytes through all of the checks, with the
// replay store in memory, for profiles. The module bench has the comparisons.
func BenchmarkVerify(b *testing.B) {
	body := benchBody(700)
	bytes := []byte(body)
	b.Run("Response of 700 bytes", func(b *testing.B) {
		pushes := benchPushes(b, body, 1024)
		clock := newTrustClock() // the store's own: each round finds the round before expired
		v := trustVerifier(b, TrustMemory(b, MemoryConfig{Now: clock.Now}))
		ctx := context.Background()
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		i := 0
		for b.Loop() {
			if i == len(pushes) {
				i = 0
				clock.Add(time.Hour)
			}
			if _, err := v.Response(ctx, pushes[i], bytes); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	b.Run("Response of 700 bytes under ed25519", func(b *testing.B) {
		v := trustVerifier(b, openReplay{}, func(c *VerifierConfig) { c.Keys = Keys(Ed25519Key(trustPublic(0))) })
		h := hubSigner{private: trustPrivate(0)}.header(b, "response", body, trustUnix, "j")
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.Response(context.Background(), h, bytes); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("forged Response of 700 bytes", func(b *testing.B) {
		v := trustVerifier(b, openReplay{})
		h := hubSigner{secret: "the secret of a forger"}.header(b, "response", body, trustUnix, "j")
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.Response(context.Background(), h, bytes); err == nil {
				b.Fatal("it verifies")
			}
		}
	})
}

// BenchmarkMemoryStore claims in parallel among a million live entries, of which
// as many end as come, and says what an entry takes.
func BenchmarkMemoryStore(b *testing.B) {
	const live = 1_000_000
	var now atomic.Int64
	now.Store(int64(trustUnix) * int64(time.Second))
	clock := func() time.Time { return time.Unix(0, now.Load()) }
	before := heapInUse()
	s := TrustMemory(b, MemoryConfig{Now: clock, MaxEntries: 64 * live})
	ctx := context.Background()
	for i := range live {
		key := strconv.Itoa(i)
		if st, err := s.ClaimJTI(ctx, key, time.Minute, time.Duration(1+i%241)*time.Second); st != Fresh || err != nil {
			b.Fatal(st, err)
		}
		if err := s.SettleJTI(ctx, key, true); err != nil {
			b.Fatal(err)
		}
	}
	perEntry := float64(heapInUse()-before) / live
	var n atomic.Int64
	n.Store(live)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			if st, err := s.ClaimJTI(ctx, strconv.FormatInt(i, 10), time.Minute, 241*time.Second); st != Fresh || err != nil {
				b.Error(st, err)
				return
			}
			if i%(live/241) == 0 {
				now.Add(int64(time.Second))
			}
		}
	})
	b.ReportMetric(perEntry, "B/entry")
}
