// Package chaosproxy is a network that nobody should trust: a proxy for HTTP that
// cuts, delays, repeats, respells, strips and downgrades what passes through it,
// by a seed, and counts what it did. Only tests import it.
package chaosproxy

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
)

// Fault is one kind of harm.
type Fault string

// What happens to any request.
const (
	CutBefore    Fault = "cut before the request"
	CutAfter     Fault = "cut after the request"
	TornRequest  Fault = "request torn"
	ShortRequest Fault = "request cut short in good order"
	TornAnswer   Fault = "answer torn"
	ShortAnswer  Fault = "answer cut short in good order"
	Delayed      Fault = "delayed"
	Stalled      Fault = "delivered and never answered"
	Duplicated   Fault = "duplicated"
	Late         Fault = "delivered after a cut"
	Page         Fault = "a gateway's page"
	Stripped     Fault = "header stripped"
)

// What happens to deliveries, to the capability document and to pulled messages.
const (
	Unsigned     Fault = "signature removed"
	OldForm      Fault = "form of 0.2"
	FieldRemoved Fault = "signed field removed"
	Tampered     Fault = "signed field changed"
	OldVersion   Fault = "older capability document"
	FewerLegs    Fault = "capability removed"
	Mutilated    Fault = "member of a message removed"
	Stale        Fault = "message as it first was"
)

// Other spellings of the same document, beside any of the others.
const (
	Reordered  Fault = "members reordered"
	Respaced   Fault = "white space"
	Escaped    Fault = "characters escaped"
	Renumbered Fault = "numbers respelled"
)

// class is what a request is to the faults.
type class int

const (
	other    class = iota
	document       // asks for the capability document
	drain          // asks for inbox entries
	pull           // asks for a message
	push           // delivers to a callback
)

var (
	anywhere = []Fault{CutBefore, CutAfter, TornAnswer, ShortAnswer, Delayed, Duplicated, Late, Page, Stripped}
	withBody = []Fault{TornRequest, ShortRequest, Stalled}
	onlyIn   = map[class][]Fault{
		document: {OldVersion, FewerLegs},
		drain:    {Unsigned, OldForm, FieldRemoved, Tampered},
		push:     {Unsigned, OldForm, FieldRemoved, Tampered},
		pull:     {Mutilated, Stale},
	}
	spellings = []Fault{Reordered, Respaced, Escaped, Renumbered}
)

// Faults is every kind, each of which a run of some length has met.
func Faults() []Fault {
	return slices.Concat(anywhere, withBody, onlyIn[document], onlyIn[push], onlyIn[pull], spellings)
}

// Everywhere is every kind that strikes in both directions.
func Everywhere() []Fault { return slices.Concat(anywhere, withBody, onlyIn[push], spellings) }

const signatureHeader = "Ma2h-Signature"

func classify(r *http.Request) class {
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/.well-known/ma2h"):
		return document
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/v1/inbox"):
		return drain
	case r.Header.Get(signatureHeader) != "":
		return push
	case r.Method == http.MethodGet && strings.Contains(path, "/v1/messages/"):
		return pull
	}
	return other
}

// dice draw faults. Those that a request can suffer come in rounds, each kind
// once in a round, so that none waits for its luck.
type dice struct {
	rand  *rand.Rand
	decks map[deck][]Fault
}

type deck struct {
	class class
	body  bool
}

const (
	harmed    = 35 // of a hundred requests
	respelled = 40
)

// draw returns what a request suffers, if anything, and whether it and its
// answer are written in another spelling.
func (d *dice) draw(key deck) (f Fault, respell bool) {
	respell = d.rand.IntN(100) < respelled
	if d.rand.IntN(100) >= harmed {
		return "", respell
	}
	if len(d.decks[key]) == 0 {
		round := slices.Concat(anywhere, onlyIn[key.class])
		if key.body {
			round = append(round, withBody...)
		}
		d.rand.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		d.decks[key] = round
	}
	f, d.decks[key] = d.decks[key][0], d.decks[key][1:]
	return f, respell
}
