package hubtest_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/internal/vectors"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/ma2htest/hubtest"
)

// The suite's own check of signatures comes to the verdicts of the vectors that
// the client and the fake are held to.
//
// req: FH-17 SIG-05 SIG-06 SIG-07 SIG-12
func TestTheSuiteVerifiesAsTheVectorsSay(t *testing.T) {
	all, err := vectors.Load("../../internal/signed/testdata/vectors", vectors.Pinned)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for _, v := range all {
		// A Response of 0.2 is judged by the rows, which know what was submitted.
		if v.Expect == "" || v.Expect == vectors.Unbound {
			continue
		}
		seen[v.Expect]++
		var keys []hubtest.Key
		for _, k := range v.Keys {
			if k.Alg == vectors.HMAC {
				keys = append(keys, hubtest.HMACKey([]byte(k.Secret)))
				continue
			}
			public, err := hex.DecodeString(k.Public)
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, hubtest.Ed25519Key(public))
		}
		err := hubtest.VerifyPush(v.Bytes(), v.Header, v.CallbackURL, v.Kind == vectors.Ack, keys, time.Unix(v.Now, 0))
		if (err == nil) != (v.Expect == vectors.OK) {
			t.Errorf("%s: %v, the vector says %s", v.Name, err, v.Expect)
		}
	}
	for _, verdict := range []string{vectors.OK, vectors.Header, vectors.Malformed, vectors.Stale, vectors.Signature} {
		if seen[verdict] < 5 {
			t.Errorf("%d vectors of verdict %s", seen[verdict], verdict)
		}
	}
}

// A signature over another context than that of the text fails, and the author
// of the Hub reads which one it is.
func TestAUsualMistakeOfASignerIsNamed(t *testing.T) {
	const url = "https://probe.example/ma2h"
	body := []byte(`{"ma2h_version":"0.3","in_reply_to":"msg_1","resolution_id":"res_1","resolution":"answered",` +
		`"response":{"value":"ship","actor":"human:alice","resolved_at":"2026-06-04T12:00:00Z"}}`)
	secret := []byte("the secret of a Hub")
	for _, m := range hubtest.SignWrongly(t, body, url, secret, start) {
		err := hubtest.VerifyPush(body, m.Header, url, false, []hubtest.Key{hubtest.HMACKey(secret)}, start)
		if m.What == "" && err != nil {
			t.Errorf("a right signature: %v", err)
		}
		if m.What != "" && (err == nil || !strings.Contains(err.Error(), m.What)) {
			t.Errorf("%s: %v", m.What, err)
		}
		if err := hubtest.VerifyPush(body, m.Header, url, false, nil, start); err == nil {
			t.Error("verified without a key")
		}
		if err := hubtest.VerifyPush(body, m.Header, url, false, []hubtest.Key{{}}, start); err == nil {
			t.Error("verified with an empty key")
		}
	}
}

// Pushes that the fake signed differently from how the suite verifies would
// show here, in a Hub that signs with ed25519 too.
func TestTheFakeHubPassesWithEd25519(t *testing.T) {
	hub := ma2htest.NewHub(t, ma2htest.Options{Start: start, SigningAlg: "ed25519", SignWithAllKeys: true, Seed: 7})
	hub.RotateKeys()
	mustPass(t, fake(hub), "discovery.earlier", "limits.rate", "limits.depth")
}
