package store_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gowebpki/jcs"
)

const (
	callbackURL = "https://bot.example/ma2h/resume"
	secret      = "a secret of the callback tests"
)

// decision is a Response as a Hub pushes it.
type decision struct {
	message, resolution string
	body                []byte
	answer              map[string]any
}

func newDecision(i int) decision {
	d := decision{
		message: fmt.Sprint("msg-", i), resolution: "res-" + rand.Text(),
		answer: map[string]any{"value": "approve", "actor": "human:alice", "resolved_at": time.Now().UTC().Format(time.RFC3339)},
	}
	d.body, _ = json.Marshal(map[string]any{
		"ma2h_version": "0.3", "in_reply_to": d.message, "resolution_id": d.resolution, "resolution": "answered",
		"agent": map[string]any{"id": agentID, "run_id": "run_1"}, "response": d.answer,
	})
	return d
}

// sign makes the signature header of one delivery (§9.2).
func (d decision) sign() (string, error) {
	digest, err := canonical(map[string]any{"response": d.answer, "state": nil})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(digest)
	t, jti := strconv.FormatInt(time.Now().Unix(), 10), rand.Text()
	text, err := canonical(map[string]any{
		"callback_url": callbackURL, "id": d.message, "in_reply_to": d.message, "jti": jti, "ma2h_version": "0.3",
		"payload_sha256": hex.EncodeToString(sum[:]), "resolution": "answered", "resolution_id": d.resolution,
		"resolved_at": d.answer["resolved_at"], "t": t,
	})
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(text)
	return "t=" + t + ",jti=" + jti + ",v1=" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

func canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(b)
}

// push makes one attempt and returns the status, 0 without an answer.
func (d decision) push(c *http.Client, address, signature string) int {
	req, err := http.NewRequest(http.MethodPost, "http://"+address+"/", bytes.NewReader(d.body))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("MA2H-Signature", signature)
	resp, err := c.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
