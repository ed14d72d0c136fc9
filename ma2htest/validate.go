package ma2htest

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/ma2h/ma2h-go/schema"
	"github.com/ma2h/ma2h-go/types"
)

// validateEnvelope holds an envelope to the schema of the Hub's version, and
// to what no schema can say: that no two options are the same answer.
func validateEnvelope(version string, raw []byte, m *types.Message) error {
	if err := schema.Validate(version, schema.Message, raw); err != nil {
		return err
	}
	if m.Request != nil {
		return m.Request.Validate()
	}
	return nil
}

// checkQuestion wants a schema that answers can be held to and a default that
// is an answer (§5.2, §7), and returns what checks answers.
func checkQuestion(r *types.Request) (func([]byte) error, *Error) {
	if r == nil {
		return nil, nil
	}
	check := func(value []byte) error { return checkChoice(r, value) }
	if r.Mode == types.ModeInput {
		input, err := schema.CompileInput(r.Schema)
		if err != nil {
			return nil, invalidField("request.schema: %v", err)
		}
		check = input.Validate
	}
	if err := schema.CheckDefault(r); err != nil {
		return nil, invalidField("%v", err)
	}
	return check, nil
}

func checkChoice(r *types.Request, value []byte) error {
	var s string
	if err := types.Decode(value, &s); err != nil || !slices.Contains(r.Choices(), s) {
		return errors.New("value is not one of the options (§5.2)")
	}
	return nil
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
