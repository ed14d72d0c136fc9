package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gowebpki/jcs"

	ma2h "github.com/ma2h/ma2h-go"
)

const (
	agentID     = "deploybot/dev-team"
	alice       = "human:alice"
	secret      = "ma2h-bench-secret-0123456789abcdef"
	callbackURL = "https://deploybot.example/ma2h/resume"
	messageID   = "msg_01HZXASK000000001"
)

// Two kinds of payload: text in few members, and records of many.
func sealedState(n int) string {
	return `{"sealed":"` + strings.Repeat("MA2HSEALv1", (n+9)/10)[:n] + `"}`
}

func recordState(n int) string {
	var b strings.Builder
	b.WriteString(`{"steps":[`)
	for i := 0; ; i++ {
		step := fmt.Sprintf(`{"step":%d,"title":"Migrate a shard of the ledger","done":%t,"cost":%d.25,"notes":"checked twice, no drift"},`, i, i%2 == 0, i)
		if b.Len()+len(step) > n {
			break
		}
		b.WriteString(step)
	}
	return b.String() + `{"step":-1}]}`
}

// responseBody is a Response of at most n bytes, nearly as many.
func responseBody(n int, state func(int) string) string {
	const form = `{"ma2h_version":"0.3","in_reply_to":"` + messageID + `","resolution_id":"res_01HZXR3SOLVE",` +
		`"agent":{"id":"` + agentID + `","run_id":"run_01HZXRUN0001"},"resolution":"answered","response":{"value":"hold",` +
		`"edited":false,"actor":"` + alice + `","resolved_at":"2026-06-04T15:48:30Z","comment":"after the freeze"},"defaulted":false,"state":%s}`
	return fmt.Sprintf(form, state(n-len(form)-20))
}

// signer signs pushes of one body as a Hub does, with a canonicaliser that is
// not the library's. Each push has a jti of its own.
type signer struct {
	body   string
	digest string
}

func newSigner(body string) (*signer, error) {
	canonical, err := jcs.Transform([]byte(body))
	if err != nil {
		return nil, err
	}
	var m struct{ Response, State json.RawMessage }
	if err := json.Unmarshal(canonical, &m); err != nil {
		return nil, err
	}
	return &signer{body: body, digest: fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, `{"response":%s,"state":%s}`, m.Response, m.State)))}, nil
}

var pushes atomic.Int64

// sign returns the context of a push and the value of its header.
func (s *signer) sign(message string, at time.Time) (context []byte, header string) {
	jti, t := fmt.Sprintf("jti_%012d", pushes.Add(1)), strconv.FormatInt(at.Unix(), 10)
	context = fmt.Appendf(nil, `{"callback_url":%q,"id":%q,"in_reply_to":%q,"jti":%q,"ma2h_version":"0.3","payload_sha256":%q,`+
		`"resolution":"answered","resolution_id":"res_01HZXR3SOLVE","resolved_at":"2026-06-04T15:48:30Z","t":%q}`,
		callbackURL, message, message, jti, s.digest, t)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(context)
	return context, "t=" + t + ",jti=" + jti + ",v1=" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// of returns the body of the push of another message.
func (s *signer) of(message string) string { return strings.Replace(s.body, messageID, message, 1) }

// clock is that of a store: the time, and what it was put ahead by, which is
// how a round of pushes finds those of the round before forgotten.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) skip(d time.Duration) { c.ahead.Add(int64(d)) }

// receiver is a Verifier and its store in memory, whose clock can be put ahead.
// The Verifier's own is the time.
type receiver struct {
	*ma2h.Verifier
	store *ma2h.MemoryStore
	clock clock
}

func newReceiver() (*receiver, error) {
	r := &receiver{}
	var err error
	if r.store, err = ma2h.NewMemoryStore(ma2h.MemoryConfig{Now: r.clock.now}); err != nil {
		return nil, err
	}
	r.Verifier, err = ma2h.NewVerifier(ma2h.VerifierConfig{
		Keys: ma2h.Keys(ma2h.HMACKey(secret)), CallbackURL: callbackURL, AgentID: agentID, Replay: r.store,
	})
	return r, err
}

// ring is pushes of one body, presented over and over.
type ring struct {
	signer  *signer
	body    []byte
	context []byte // of the last
	headers [256]http.Header
	values  [256]string
}

func newRing(body string) (*ring, error) {
	s, err := newSigner(body)
	if err != nil {
		return nil, err
	}
	return &ring{signer: s, body: []byte(body)}, nil
}

// sign signs all of them anew: a signature keeps for two minutes.
func (r *ring) sign(int) error {
	now := time.Now()
	for i := range r.headers {
		r.context, r.values[i] = r.signer.sign(messageID, now)
		r.headers[i] = http.Header{"Content-Type": {"application/json"}, "Ma2h-Signature": {r.values[i]}}
	}
	return nil
}
