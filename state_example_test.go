package ma2h_test

import (
	"bytes"
	"fmt"

	"github.com/ma2h/ma2h-go"
)

func ExampleSealer() {
	// Both processes are given the key, as by a secret of the CI system.
	key := ma2h.SealKeyRaw("2026-11", bytes.Repeat([]byte{7}, 32))
	sealer, err := ma2h.NewSealer(ma2h.SealerConfig{
		Keys:          []ma2h.SealKey{key},
		AgentID:       "deploybot/dev-team",
		Deterministic: true, // a retry after a crash sends the same bytes
	})
	if err != nil {
		panic(err)
	}
	type plan struct {
		Image string `json:"image"`
	}
	binding := ma2h.Bind("deploybot/dev-team", "ship-1.4")

	// The first process seals, asks and exits.
	state, err := sealer.Seal(plan{Image: "app:1.4"}, binding)
	if err != nil {
		panic(err)
	}

	// The second opens what came back with the verified Response.
	var p plan
	if err := sealer.Open(state, &p, binding); err != nil {
		fmt.Println("not acting:", err)
		return
	}
	fmt.Println("shipping", p.Image)

	err = sealer.Open(state, &p, ma2h.Bind("deploybot/dev-team", "ship-1.5"))
	fmt.Println(err)
	// Output:
	// shipping app:1.4
	// ma2h: sealed state is not bound to this
}

// The first key seals and all of them open.
func ExampleSealerConfig_rotation() {
	oldKey := ma2h.SealKeyRaw("2026-11", bytes.Repeat([]byte{7}, 32))
	newKey := ma2h.SealKeyRaw("2027-02", bytes.Repeat([]byte{8}, 32))
	binding := ma2h.Bind("deploybot/dev-team", "ship-1.4")
	ring := func(keys ...ma2h.SealKey) *ma2h.Sealer {
		s, err := ma2h.NewSealer(ma2h.SealerConfig{Keys: keys, AgentID: "deploybot/dev-team"})
		if err != nil {
			panic(err)
		}
		return s
	}
	state, err := ring(oldKey).Seal(map[string]string{"image": "app:1.4"}, binding)
	if err != nil {
		panic(err)
	}
	var plan map[string]string
	fmt.Println(ring(newKey, oldKey).Open(state, &plan, binding)) // during the overlap
	fmt.Println(ring(newKey).Open(state, &plan, binding))         // too early
	// Output:
	// <nil>
	// ma2h: sealed under an unknown key id 2026-11
}
