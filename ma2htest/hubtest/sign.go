package hubtest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Key is one key that a Hub signs with. It prints as its algorithm.
type Key struct {
	secret []byte
	public ed25519.PublicKey
}

// HMACKey is the secret of hmac-sha256; its bytes are the key as they are.
func HMACKey(secret []byte) Key { return Key{secret: bytes.Clone(secret)} }

// Ed25519Key is the public half of an ed25519 key.
func Ed25519Key(public ed25519.PublicKey) Key {
	return Key{public: ed25519.PublicKey(bytes.Clone(public))}
}

// Format prints the algorithm under every verb.
func (k Key) Format(f fmt.State, _ rune) {
	alg := "hmac-sha256"
	if k.public != nil {
		alg = "ed25519"
	}
	_, _ = io.WriteString(f, "hubtest.Key("+alg+")")
}

func (k Key) verifies(text, signature []byte) bool {
	if len(k.public) == ed25519.PublicKeySize {
		return ed25519.Verify(k.public, text, signature)
	}
	if len(k.secret) == 0 {
		return false
	}
	mac := hmac.New(sha256.New, k.secret)
	mac.Write(text)
	return hmac.Equal(mac.Sum(nil), signature)
}

// signatureHeader is the name of the detached signature (§9.2).
const signatureHeader = "MA2H-Signature"

// replayWindow is how far t may be from the agent's clock (§9.2).
const replayWindow = 120 * time.Second

// signature is a header that was read.
type signature struct {
	t, jti string
	v1     [][]byte
}

var (
	digitsOnly   = regexp.MustCompile(`^[0-9]{1,12}$`)
	base64urlOne = regexp.MustCompile(`^[A-Za-z0-9_-]+={0,2}$`)
)

// readSignature reads t=<unix>,jti=<nonce>,v1=<base64url>, with the name of the
// header before it or without, as entries of a mailbox have it (§8.7).
func readSignature(value string) (s signature, err error) {
	if name, rest, ok := strings.Cut(value, ":"); ok && strings.EqualFold(name, signatureHeader) {
		value = rest
	}
	for item := range strings.SplitSeq(value, ",") {
		name, v, _ := strings.Cut(strings.TrimSpace(item), "=")
		switch name {
		case "t":
			if s.t != "" || !digitsOnly.MatchString(v) {
				return s, errors.New("t is not one number of seconds")
			}
			s.t = v
		case "jti":
			if s.jti != "" || v == "" {
				return s, errors.New("jti is empty or there twice")
			}
			s.jti = v
		case "v1":
			if !base64urlOne.MatchString(v) {
				return s, errors.New("v1 is not base64url")
			}
			b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(v, "="))
			if err != nil {
				return s, errors.New("v1 is not base64url")
			}
			s.v1 = append(s.v1, b)
		}
	}
	if s.t == "" || s.jti == "" || len(s.v1) == 0 {
		return s, errors.New("not all of t, jti and v1 are there")
	}
	return s, nil
}

// signedContext is the object that is signed for one delivery.
type signedContext struct {
	digest func() (string, error)
	build  func(digest string, s signature) object
}

// responseContext is that of §9.2 for a Response pushed to url. A Response of
// 0.2 has no digest of the payload (§10).
func responseContext(body object, url string) signedContext {
	return signedContext{
		digest: func() (string, error) {
			return digestOf(object{"response": body["response"], "state": body["state"]})
		},
		build: func(digest string, s signature) object {
			c := object{
				"ma2h_version": body["ma2h_version"], "callback_url": url, "id": body["in_reply_to"],
				"in_reply_to": body["in_reply_to"], "jti": s.jti, "resolution": body["resolution"],
				"resolution_id": body["resolution_id"], "resolved_at": body.at("response", "resolved_at"), "t": s.t,
			}
			if minor(body.str("ma2h_version")) > 2 {
				c["payload_sha256"] = digest
			}
			return c
		},
	}
}

// directiveContext is that of §9.7: the digest covers the members of the
// content that are there.
func directiveContext(d object) signedContext {
	return signedContext{
		digest: func() (string, error) {
			content := object{}
			for _, name := range []string{"title", "body", "priority", "tags", "context"} {
				if v, ok := d[name]; ok {
					content[name] = v
				}
			}
			return digestOf(object{"directive": content})
		},
		build: func(digest string, s signature) object {
			return object{
				"from": d["from"], "id": d["id"], "jti": s.jti, "ma2h_version": d["ma2h_version"],
				"payload_sha256": digest, "t": s.t, "to": d["to"],
			}
		},
	}
}

// ackContext is that of §14.4. Its digest always has five members; what is
// absent is null.
func ackContext(ack object) signedContext {
	return signedContext{
		digest: func() (string, error) {
			content := object{}
			for _, name := range []string{"acked_at", "by", "in_reply_to", "note", "resolution_id"} {
				content[name] = ack[name]
			}
			return digestOf(content)
		},
		build: func(digest string, s signature) object {
			return object{
				"ack_sha256": digest, "by": ack["by"], "in_reply_to": ack["in_reply_to"], "jti": s.jti,
				"ma2h_version": ack["ma2h_version"], "t": s.t,
			}
		},
	}
}

// digestOf is the lower-case hex SHA-256 of the canonical form.
func digestOf(v any) (string, error) {
	b, err := canonical(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// verify holds a signature to a context, one of the keys and the clock. The
// error says what is wrong and, for the usual mistakes, which one it is.
func (c signedContext) verify(s signature, keys []Key, now time.Time) error {
	if len(keys) == 0 {
		return errors.New("there is no key to verify with")
	}
	seconds, err := strconv.ParseInt(s.t, 10, 64)
	if err != nil {
		return errors.New("t is not a number of seconds")
	}
	if off := time.Duration(now.Unix()-seconds) * time.Second; off.Abs() > replayWindow {
		return fmt.Errorf("t is %s off the clock, more than the %s of the replay window", off, replayWindow)
	}
	digest, err := c.digest()
	if err != nil {
		return fmt.Errorf("what is signed has no canonical form: %w", err)
	}
	signed := c.build(digest, s)
	if signedBy(signed, s, keys) {
		return nil
	}
	for _, m := range mistakes {
		wrong := c.build(digest, s)
		m.make(wrong)
		if signedBy(wrong, s, keys) {
			return errors.New("the signature is over another context: " + m.what)
		}
	}
	return errors.New("the signature is not one of the signed context under any of the keys")
}

func signedBy(context object, s signature, keys []Key) bool {
	text, err := canonical(context)
	if err != nil {
		return false
	}
	for _, k := range keys {
		for _, v1 := range s.v1 {
			if k.verifies(text, v1) {
				return true
			}
		}
	}
	return false
}

// mistakes are contexts that Hubs sign in place of the right one.
var mistakes = []struct {
	what string
	make func(object)
}{
	{"t is a number in it and must be a string", func(c object) { c["t"] = json.Number(c.str("t")) }},
	{"it has no payload_sha256, as in 0.2", func(c object) { delete(c, "payload_sha256") }},
	{"its payload_sha256 is in upper case", func(c object) { c["payload_sha256"] = strings.ToUpper(c.str("payload_sha256")) }},
	{"its callback_url has no slash at the end, the registered one has", func(c object) {
		c["callback_url"] = strings.TrimSuffix(c.str("callback_url"), "/")
	}},
	{"its callback_url has a slash at the end, the registered one has not", func(c object) { c["callback_url"] = c.str("callback_url") + "/" }},
	{"it has no resolved_at", func(c object) { delete(c, "resolved_at") }},
	{"it has no callback_url", func(c object) { delete(c, "callback_url") }},
	{"it has no id", func(c object) { delete(c, "id") }},
}

var canonicalVersion = regexp.MustCompile(`^0\.(0|[1-9][0-9]*)$`)

// minor is that of a version of major 0, or -1.
func minor(version string) int {
	if !canonicalVersion.MatchString(version) {
		return -1
	}
	n, err := strconv.Atoi(version[2:])
	if err != nil {
		return -1
	}
	return n
}
