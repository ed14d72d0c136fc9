package schema

import "github.com/ma2h/ma2h-go/types"

type Input struct{}

func CompileInput(raw []byte) (*Input, error) { return &Input{}, nil }
func (*Input) Validate(value []byte) error    { return nil }
func CheckDefault(*types.Request) error       { return nil }
