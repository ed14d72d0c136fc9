package ma2htest

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/ma2h/ma2h-go/types"
)

// validateEnvelope holds an envelope to the schema of the Hub's version.
func validateEnvelope(version string, _ []byte, m *types.Message) error {
	copied := *m
	if version == types.V02 {
		copied.Version = types.V03 // a Hub of 0.2 has no rule about push
	}
	return copied.Validate()
}

// checkQuestion wants a default that is an answer (§7), and returns what
// checks answers.
func checkQuestion(r *types.Request) (func([]byte) error, *Error) {
	if r == nil {
		return nil, nil
	}
	check := func(value []byte) error {
		if r.Mode == types.ModeInput {
			if !types.Raw(value).IsObject() {
				return errors.New("value is not an object, which mode input takes (§5.2)")
			}
			return nil
		}
		var s string
		if err := json.Unmarshal(value, &s); err != nil || !slices.Contains(r.Choices(), s) {
			return errors.New("value is not one of the options (§5.2)")
		}
		return nil
	}
	if !r.DefaultOnExpire.IsNull() {
		if err := check(r.DefaultOnExpire); err != nil {
			return nil, invalidField("default_on_expire: %v", err)
		}
	}
	return check, nil
}

// partSizes are the lengths of the context parts as they were received.
func partSizes(m *message) []int64 {
	for _, mm := range m.members {
		if mm.name != "context" {
			continue
		}
		var parts []json.RawMessage
		if err := json.Unmarshal(mm.value, &parts); err != nil {
			return nil
		}
		sizes := make([]int64, len(parts))
		for i, p := range parts {
			sizes[i] = int64(len(p))
		}
		return sizes
	}
	return nil
}
