package schema

import (
	"slices"

	"github.com/ma2h/ma2h-go/types"
)

// CheckDefault checks that default_on_expire is an answer that the request
// itself would take: one of Choices in the modes select and confirm, an object
// that fits schema in mode input. Absent and null mean that nothing applies on
// expiry and always pass (§5.2, §7). It returns a *types.FieldError on
// default_on_expire, or, in mode input, an *Error for a schema that
// CompileInput refuses.
func CheckDefault(req *types.Request) error {
	d := req.DefaultOnExpire
	if d.IsNull() {
		return nil
	}
	fail := func(problem string) error {
		return &types.FieldError{Field: "default_on_expire", Problem: problem, Section: "§7"}
	}
	switch req.Mode {
	case types.ModeSelect, types.ModeConfirm:
		var value string
		if err := types.Decode(d, &value); err != nil || !slices.Contains(req.Choices(), value) {
			return fail("is not the value of an option")
		}
		return nil
	case types.ModeInput:
		in, err := CompileInput(req.Schema)
		if err != nil {
			return err
		}
		if err := in.Validate(d); err != nil {
			return fail("does not fit schema: " + unprefixed(err))
		}
		return nil
	}
	return fail("goes with no mode of the protocol but select, confirm and input")
}
