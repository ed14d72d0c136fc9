// Package ghactions connects an agent that runs as a GitHub Actions job to its
// answer: a relay of the agent's own turns a push into a repository_dispatch or
// a workflow_dispatch, and the job that it starts reads the delivery from its
// event file.
//
// The event is transport, not proof. What it carries is verified like any push,
// and where it is late, too large or not genuine, ma2h.Resumer pulls.
package ghactions

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/types"
)

// Property is the member of client_payload, or the input, that holds the
// delivery, as one string: GitHub limits an event to ten members of a payload
// and takes no input but a string, and a string keeps the bytes that were
// signed.
const Property = "ma2h"

const (
	// maxPayload is what GitHub takes of a client_payload or of all inputs, less
	// some room for what it counts differently.
	maxPayload = 60 << 10
	// maxEvent bounds the event file that is read.
	maxEvent = 4 << 20
)

// Errors of an event.
var (
	// ErrNoEvent: there is no event file: not a job of GitHub Actions, or the
	// step runs in a container that does not see it.
	ErrNoEvent = errors.New("ghactions: no event file")
	// ErrOtherEvent: the event carries no delivery: another kind of event
	// started the job.
	ErrOtherEvent = errors.New("ghactions: the event carries no delivery")
	// ErrBadEvent: the event file, or the delivery in it, is not what Dispatch or
	// DispatchWorkflow makes.
	ErrBadEvent = errors.New("ghactions: malformed event")
)

// parcel is the delivery in the event's string.
type parcel struct {
	Version   int    `json:"v"`
	MessageID string `json:"id"`
	Signature string `json:"signature,omitzero"`
	Body      string `json:"body,omitzero"`
}

const parcelVersion = 1

// Dispatch returns the body of a repository_dispatch (POST
// /repos/{owner}/{repo}/dispatches) that carries d. A delivery that is too
// large for an event travels as its id alone, and the job pulls.
func Dispatch(eventType string, d ma2h.Delivery) ([]byte, error) {
	if eventType == "" || len(eventType) > 100 {
		return nil, fmt.Errorf("ghactions: event type is %d bytes, not 1 to 100", len(eventType))
	}
	return pack(d, func(packed string) ([]byte, error) {
		return types.Encode(struct {
			EventType string            `json:"event_type"`
			Payload   map[string]string `json:"client_payload"`
		}{eventType, map[string]string{Property: packed}})
	})
}

// DispatchWorkflow returns the body of a workflow_dispatch (POST
// /repos/{owner}/{repo}/actions/workflows/{file}/dispatches) that carries d as
// Dispatch does. It starts one workflow, on the branch or tag ref. The workflow
// declares an input named Property, and those of inputs, which are sent beside
// it: GitHub refuses one that is not declared, and a value that is no string,
// whatever type the workflow gives it.
func DispatchWorkflow(ref string, d ma2h.Delivery, inputs map[string]string) ([]byte, error) {
	if ref == "" {
		return nil, fmt.Errorf("ghactions: workflow_dispatch without a ref")
	}
	all := make(map[string]string, len(inputs)+1)
	for name, value := range inputs {
		if name == "" || name == Property {
			return nil, fmt.Errorf("ghactions: an input without a name, or with that of the delivery, %s", Property)
		}
		all[name] = value
	}
	return pack(d, func(packed string) ([]byte, error) {
		all[Property] = packed
		return types.Encode(struct {
			Ref    string            `json:"ref"`
			Inputs map[string]string `json:"inputs"`
		}{ref, all})
	})
}

// pack makes the delivery one string and has it put into a body, without its
// content if it does not fit or is no text.
func pack(d ma2h.Delivery, into func(packed string) ([]byte, error)) ([]byte, error) {
	if d.MessageID == "" {
		return nil, fmt.Errorf("ghactions: delivery without a message id")
	}
	whole := parcel{Version: parcelVersion, MessageID: d.MessageID, Signature: d.Header.Get("MA2H-Signature"), Body: string(d.Body)}
	for _, p := range []parcel{whole, {Version: parcelVersion, MessageID: d.MessageID}} {
		// A body that is not valid UTF-8 cannot travel, nor verify.
		text, err := types.Encode(p)
		if err != nil {
			continue
		}
		body, err := into(string(text))
		if err != nil {
			return nil, fmt.Errorf("ghactions: the event is not text")
		}
		if len(body) <= maxPayload {
			return body, nil
		}
	}
	return nil, fmt.Errorf("ghactions: the message id is not text, or what goes with it is over %d bytes", maxPayload)
}

// ReadEvent reads the delivery from the event file of this job, whose path is
// in GITHUB_EVENT_PATH. Nothing of it is trusted yet.
func ReadEvent() (ma2h.Delivery, error) {
	path := os.Getenv("GITHUB_EVENT_PATH")
	if path == "" {
		return ma2h.Delivery{}, fmt.Errorf("%w: GITHUB_EVENT_PATH is not set", ErrNoEvent)
	}
	return ReadEventFile(path)
}

// ReadEventFile is ReadEvent for a path of the caller's.
func ReadEventFile(path string) (ma2h.Delivery, error) {
	f, err := os.Open(path)
	if err != nil {
		return ma2h.Delivery{}, fmt.Errorf("%w: %w", ErrNoEvent, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxEvent+1))
	if err != nil {
		return ma2h.Delivery{}, fmt.Errorf("%w: %w", ErrNoEvent, err)
	}
	return parseEvent(text)
}

func parseEvent(text []byte) (ma2h.Delivery, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	switch {
	case len(text) > maxEvent:
		return ma2h.Delivery{}, fmt.Errorf("%w: over %d bytes", ErrBadEvent, maxEvent)
	case len(bytes.TrimSpace(text)) == 0:
		return ma2h.Delivery{}, fmt.Errorf("%w: the event file is empty", ErrBadEvent)
	}
	var event struct {
		Payload types.Raw `json:"client_payload"` // of a repository_dispatch
		Inputs  types.Raw `json:"inputs"`         // of a workflow_dispatch
	}
	if err := types.Decode(text, &event); err != nil {
		return ma2h.Delivery{}, fmt.Errorf("%w: %w", ErrBadEvent, err)
	}
	where, value := "client_payload."+Property, member(event.Payload)
	if input := member(event.Inputs); input != nil {
		if value != nil {
			return ma2h.Delivery{}, fmt.Errorf("%w: it is of two kinds", ErrBadEvent)
		}
		where, value = "inputs."+Property, input
	}
	if value == nil {
		return ma2h.Delivery{}, fmt.Errorf("%w: %s is missing, in client_payload and in inputs", ErrOtherEvent, Property)
	}
	var packed string
	if err := types.Decode(value, &packed); err != nil {
		return ma2h.Delivery{}, fmt.Errorf("%w: %s is not a string", ErrBadEvent, where)
	}
	var p parcel
	if err := types.Decode([]byte(packed), &p); err != nil {
		return ma2h.Delivery{}, fmt.Errorf("%w: %s: %w", ErrBadEvent, where, err)
	}
	if p.Version != parcelVersion || p.MessageID == "" {
		return ma2h.Delivery{}, fmt.Errorf("%w: %s is of version %d, or without an id", ErrBadEvent, where, p.Version)
	}
	d := ma2h.Delivery{MessageID: p.MessageID}
	if p.Signature != "" && p.Body != "" {
		d.Header = http.Header{}
		d.Header.Set("MA2H-Signature", p.Signature)
		d.Body = []byte(p.Body)
	}
	return d, nil
}

// member is the delivery's, nil if it is not there or, as of a job that was
// started by hand, left empty.
func member(object types.Raw) types.Raw {
	var members map[string]types.Raw
	if object.IsNull() || types.Decode(object, &members) != nil {
		return nil
	}
	if v := members[Property]; !v.IsNull() && string(v) != `""` {
		return v
	}
	return nil
}
