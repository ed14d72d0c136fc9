package ma2htest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/ma2h/ma2h-go/types"
)

// nonce is what makes one signature differ from the next over the same content.
type nonce struct{ t, jti string }

// contextOf returns the canonical bytes that are signed for one delivery.
type contextOf func(nonce) ([]byte, error)

// responseContext is the text signed for a Response that is pushed to
// callbackURL. From 0.3 on it holds the digest of answer and state; at 0.2 it
// holds neither (§9.2). Without a response member resolved_at is null.
func responseContext(body []byte, callbackURL string) contextOf {
	return responseContextAt(body, callbackURL, nil)
}

// responseContextAt signs resolvedAt, if set, where a Response carries none.
func responseContextAt(body []byte, callbackURL string, resolvedAt json.RawMessage) contextOf {
	return func(n nonce) ([]byte, error) {
		r, err := membersOf(body)
		if err != nil {
			return nil, err
		}
		var version string
		if err := json.Unmarshal(orNull(r["ma2h_version"]), &version); err != nil {
			return nil, fmt.Errorf("ma2htest: ma2h_version: %w", err)
		}
		v, err := types.ParseVersion(version)
		if err != nil {
			return nil, err
		}
		at := orNull(resolvedAt)
		if !isNull(r["response"]) {
			detail, err := membersOf(r["response"])
			if err != nil {
				return nil, err
			}
			at = orNull(detail["resolved_at"])
		}
		signed := map[string]any{
			"callback_url":  callbackURL,
			"id":            r["in_reply_to"],
			"in_reply_to":   r["in_reply_to"],
			"jti":           n.jti,
			"ma2h_version":  version,
			"resolution":    r["resolution"],
			"resolution_id": r["resolution_id"],
			"resolved_at":   at,
			"t":             n.t,
		}
		if v.Minor > 2 {
			digest, err := digestOf(map[string]any{"response": orNull(r["response"]), "state": orNull(r["state"])})
			if err != nil {
				return nil, err
			}
			signed["payload_sha256"] = digest
		}
		return canonical(signed)
	}
}

// directiveContext is the text signed for a directive, which digests the
// members of its content that are there (§9.7).
func directiveContext(body []byte) contextOf {
	return func(n nonce) ([]byte, error) {
		d, err := membersOf(body)
		if err != nil {
			return nil, err
		}
		content := make(map[string]any)
		for _, name := range []string{"title", "body", "priority", "tags", "context"} {
			if v, ok := d[name]; ok {
				content[name] = v
			}
		}
		digest, err := digestOf(map[string]any{"directive": content})
		if err != nil {
			return nil, err
		}
		return canonical(map[string]any{
			"from": d["from"], "id": d["id"], "to": d["to"], "ma2h_version": d["ma2h_version"],
			"jti": n.jti, "t": n.t, "payload_sha256": digest,
		})
	}
}

// ackContext is the text signed for an acknowledgment that is pushed to a
// human's client. Its digest always has five members; what is absent is null
// (§14.4).
func ackContext(body []byte) contextOf {
	return func(n nonce) ([]byte, error) {
		a, err := membersOf(body)
		if err != nil {
			return nil, err
		}
		content := make(map[string]any)
		for _, name := range []string{"acked_at", "by", "in_reply_to", "note", "resolution_id"} {
			content[name] = orNull(a[name])
		}
		digest, err := digestOf(content)
		if err != nil {
			return nil, err
		}
		return canonical(map[string]any{
			"by": a["by"], "in_reply_to": a["in_reply_to"], "ma2h_version": a["ma2h_version"],
			"jti": n.jti, "t": n.t, "ack_sha256": digest,
		})
	}
}

// membersOf splits an object by exact names, which encoding/json does for maps
// and not for structs.
func membersOf(object []byte) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(object, &m); err != nil {
		return nil, fmt.Errorf("ma2htest: what is to be signed: %w", err)
	}
	return m, nil
}

func isNull(v json.RawMessage) bool { return len(v) == 0 || string(v) == "null" }

func orNull(v json.RawMessage) json.RawMessage {
	if isNull(v) {
		return json.RawMessage("null")
	}
	return v
}

// canonical writes v in the form of RFC 8785.
func canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("ma2htest: %w", err)
	}
	if b, err = jcs.Transform(b); err != nil {
		return nil, fmt.Errorf("ma2htest: no canonical form: %w", err)
	}
	return b, nil
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

// signatureHeader is the name of the detached signature (§9.2).
const signatureHeader = "MA2H-Signature"

// renderSignature writes the value of the header; several signatures are
// several v1 items.
func renderSignature(n nonce, signatures ...[]byte) string {
	var b strings.Builder
	b.WriteString("t=" + n.t + ",jti=" + n.jti)
	for _, s := range signatures {
		b.WriteString(",v1=" + base64.RawURLEncoding.EncodeToString(s))
	}
	return b.String()
}

// signing is how one delivery is signed. The zero value is how a Hub does it:
// now, with the newest key.
type signing struct {
	keys    []SigningKey // instead of the Hub's
	choice  keyChoice
	skew    time.Duration // added to t
	corrupt bool          // flips a bit of the signature
}

type keyChoice int

const (
	newestKey keyChoice = iota
	olderKey            // the one before the newest; of a ring of one, an unknown one
	unknownKey
)

// sign returns the value of the signature header for one delivery, with a
// fresh t and jti. The lock is held.
func (h *Hub) sign(now time.Time, context contextOf, s signing) (string, error) {
	n := nonce{t: strconv.FormatInt(now.Add(s.skew).Unix(), 10), jti: h.ids.next("jti_")}
	text, err := context(n)
	if err != nil {
		return "", err
	}
	keys := s.keys
	if len(keys) == 0 {
		keys = h.ring.of(h.opts.SigningAlg)
	}
	keys = h.ring.choose(keys, s.choice, h.opts.SignWithAllKeys)
	signatures := make([][]byte, len(keys))
	for i, k := range keys {
		signatures[i] = k.sign(text)
		if s.corrupt {
			signatures[i][0] ^= 1
		}
	}
	return renderSignature(n, signatures...), nil
}
