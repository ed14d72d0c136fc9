// Package ma2h lets an agent reach a human through an MA2H Hub and get a
// decision back.
//
// MA2H, the Multi-agent to Human protocol, is specified at
// https://github.com/autnmy/ma2h-protocol. A § in this documentation is a
// section of its version 0.4.
//
// # Asking
//
// An agent informs with [Client.Notify], wants something done by hand with
// [Client.Task], and asks with [Client.Approve] (yes or no), [AskFor] (an
// answer of a Go type) or [Client.Ask] (a choice). The human answers from one
// inbox, minutes or days later. [Client.Wait] waits for that in this process or
// in a later one.
//
// Every question has an idempotency key. Asking again under the same key asks
// nobody twice.
//
// # Answers
//
// An answer that a human gave is a [*Response]. It is made by this library
// alone, from a push whose signature verified or from the Hub's own answer over
// TLS. Ask it [Response.Answered] and [Response.By]: expiry, refusal, a default
// and a stranger all read as no.
//
// To act at most once, whatever is delivered twice, give the act to one of
// these instead of acting on the Response by hand:
//
//   - [CallbackHandler], an http.Handler for what the Hub pushes
//   - [Resumer], the second run of an agent that asked and exited
//   - [Inbox.Consume], for directives that a human sends to the agent
//
// They need a [Ledger]: [MemoryStore] for one process, or one of the packages
// under store. A [Resumer] can do without.
//
// Package ma2htest has a fake Hub for tests, package ghactions what a GitHub
// Actions job needs, package types the wire types.
//
// # Compatibility
//
// The module is at 0.x: a minor release may change the Go API, and the
// changelog says how. Sealed state and handles of any release open in all later
// ones.
//
// # Protocol versions
//
// MA2H 0.2, 0.3 and 0.4. Messages go out at 0.3, or at 0.2 to a Hub that speaks
// nothing later. What a later minor adds is kept as received and never read as
// a success (§10).
package ma2h

import "github.com/ma2h/ma2h-go/types"

// Wire types that a caller needs.
type (
	// Agent says who asks: the agent, this run of it, and where it runs (§4.1).
	Agent = types.Agent
	// Runtime is where an agent runs (§4.1).
	Runtime = types.Runtime
	// Verb is the type of a message: notify, ask or task (§5).
	Verb = types.Verb
	// Priority is how urgent a message is (§4). Empty means Normal.
	Priority = types.Priority
	// Part is an attachment; Text, Data and File make one (§4.2).
	Part = types.Part
	// Option is one choice of a select or confirm (§5.2).
	Option = types.Option
	// Permissions take affordances away from the human (§5.2).
	Permissions = types.Permissions
	// Callback asks the Hub to push the Response; PushTo makes one (§8.3).
	Callback = types.Callback
	// CallbackAuth names, by reference, the credential that the Hub presents to
	// a callback beside its signature (§8.3).
	CallbackAuth = types.CallbackAuth
	// Resolution is how an ask or task ended (§6).
	Resolution = types.Resolution
	// Status is the phase of a message, of which a Resolution is the last (§7).
	Status = types.Status
	// FieldError says which field breaks which bound, and the section that sets
	// it. Every configuration and every message is checked before anything is
	// sent.
	FieldError = types.FieldError
)

// Runtimes of an agent (§4.1).
const (
	RuntimeGitHubActions = types.RuntimeGitHubActions
	RuntimeCLI           = types.RuntimeCLI
	RuntimeCloud         = types.RuntimeCloud
	RuntimeDesktop       = types.RuntimeDesktop
	RuntimeOther         = types.RuntimeOther
)

// Values of a Confirm without options of its own (§5.2).
const (
	ValueApprove = types.ValueApprove
	ValueDeny    = types.ValueDeny
)

// Priorities of a message (§4).
const (
	Low    = types.PriorityLow
	Normal = types.PriorityNormal
	High   = types.PriorityHigh
	Urgent = types.PriorityUrgent
)

// Resolutions of an ask or task (§6).
const (
	Answered  = types.Answered
	Declined  = types.Declined
	Cancelled = types.Cancelled
	Expired   = types.Expired
	Completed = types.Completed
	Dismissed = types.Dismissed
)
