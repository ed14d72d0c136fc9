package ma2h_test

import (
	"context"
	"fmt"
	"log"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

// During a rotation the ring holds the new key and the old.
func ExampleKeys() {
	hub, err := ma2htest.New(ma2htest.Options{SigningAlg: "ed25519"})
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close()
	oldKey := hub.SigningPublicKey()
	hub.RotateKeys()
	newKey := hub.SigningPublicKey()

	over := time.Now().Add(24 * time.Hour) // when the old key ends by itself
	ring := ma2h.Keys(
		ma2h.Ed25519Key(newKey),
		ma2h.Ed25519Key(oldKey).Until(over),
	)
	fmt.Println(ring, pushesVerify(hub, ring))
	fmt.Println(pushesVerify(hub, ma2h.Keys(ma2h.Ed25519Key(oldKey))))
	// Output:
	// KeyRing{keys=2} true
	// false
}

// KeysFunc asks for the ring at each delivery: no restart to rotate.
func ExampleKeysFunc() {
	hub, _ := exampleHub() // a fake Hub in memory
	defer hub.Close()
	vault := []string{hub.SigningSecret()}
	ring := ma2h.KeysFunc(func(context.Context) ([]ma2h.Key, error) {
		var keys []ma2h.Key
		for _, secret := range vault { // cache it, if it is far away
			keys = append(keys, ma2h.HMACKey(secret))
		}
		return keys, nil
	})
	fmt.Println(pushesVerify(hub, ring))

	hub.RotateKeys()
	fmt.Println(pushesVerify(hub, ring))
	vault = append(vault, hub.SigningSecret())
	fmt.Println(pushesVerify(hub, ring))
	// Output:
	// true
	// false
	// true
}

// pushesVerify reports whether what the Hub signs now verifies by the ring.
func pushesVerify(hub *ma2htest.Hub, ring ma2h.KeyRing) bool {
	const callbackURL = "https://bot.example/ma2h/resume"
	cfg := hub.Config("deploybot/dev-team")
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{Keys: ring, CallbackURL: callbackURL, AgentID: cfg.Agent.ID, Replay: store})
	if err != nil {
		log.Fatal(err)
	}
	acted := false
	handler, err := ma2h.NewCallbackHandler(ma2h.CallbackConfig{
		Verifier: verifier, Ledger: store, SingleReplica: true,
		Handle: func(context.Context, *ma2h.Response) error { acted = true; return nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	hub.ServeCallback(callbackURL, handler)
	if err := askAndShip(hub, cfg, callbackURL, 1); err != nil {
		log.Fatal(err)
	}
	return acted
}
