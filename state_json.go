package ma2h

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/strict"
	"github.com/ma2h/ma2h-go/types"
)

// maxStateSealed bounds what Open looks at. A Hub may escape a readable state
// anew, at up to six bytes for one.
const maxStateSealed = 1 << 20

// maxLegibleDepth leaves room for the levels around a readable state on its
// way: the message, its response, the state and what a later minor may add.
const maxLegibleDepth = limits.MaxDepth - 8

// splitState reads the state object. The token is empty, which is no token,
// for what is none. A member besides the two would be unauthenticated text in
// authenticated company.
func splitState(state types.Raw) (sealed string, plain []byte) {
	var w struct {
		Plain  jsontext.Value `json:"plain"`
		Sealed string         `json:"sealed"`
	}
	if len(state) > maxStateSealed || strict.Scan(state) != nil || json.Unmarshal(state, &w, json.RejectUnknownMembers(true)) != nil {
		return "", nil
	}
	return w.Sealed, w.Plain
}

func stateError(problem string) error {
	return &types.FieldError{Field: "state", Problem: problem, Section: "§9.3"}
}

// marshalState drops the text of a JSON error: it may quote the state.
func marshalState(v any) ([]byte, error) {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		if e, ok := errors.AsType[*json.SemanticError](err); ok && e.GoType != nil {
			return nil, stateError("has no JSON form: see Go type " + e.GoType.String())
		}
		return nil, stateError("has no JSON form")
	}
	if text[0] != '{' {
		return nil, stateError("is not a JSON object")
	}
	if err := strict.Scan(text); err != nil {
		return nil, stateError("is " + err.Error())
	}
	return text, nil
}

// legible returns the canonical form of text, if that says the same. A double
// cannot hold every integer, and the Hub may rewrite numbers as doubles.
func legible(text []byte) ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			break // the end, since text has been scanned
		}
		if dec.StackDepth() > maxLegibleDepth {
			return nil, stateError(fmt.Sprintf("is nested deeper than %d levels, in Readable mode", maxLegibleDepth))
		}
		if tok.Kind() != '0' {
			continue
		}
		lit := tok.String()
		double, _ := canon.Canonicalize([]byte(lit)) // within the doubles, by the same scan
		if !sameNumber(lit, string(double)) {
			return nil, stateError("has a number that a double does not carry exactly, in Readable mode")
		}
	}
	return canon.Canonicalize(text)
}

// sameNumber compares a number with a double. big refuses exponents that no
// double has.
func sameNumber(literal, double string) bool {
	x, ok := new(big.Rat).SetString(literal)
	y, _ := new(big.Rat).SetString(double)
	return ok && x.Cmp(y) == 0
}

// decodeState decodes into a fresh value, so that a text which fails halfway
// leaves nothing behind. Null passes here, unlike on the wire: Seal writes it
// for a nil pointer.
func decodeState(text []byte, dst reflect.Value) error {
	if strict.Scan(text) != nil || !types.Raw(bytes.TrimLeft(text, " \t\r\n")).IsObject() {
		return ErrSealMalformed
	}
	fresh := reflect.New(dst.Type().Elem())
	if err := json.Unmarshal(text, fresh.Interface()); err != nil {
		if e, ok := errors.AsType[*json.SemanticError](err); ok {
			return fmt.Errorf("%w: JSON %s for %v at byte %d", ErrSealType, e.JSONKind, e.GoType, e.ByteOffset)
		}
		return ErrSealMalformed
	}
	dst.Elem().Set(fresh.Elem())
	return nil
}
