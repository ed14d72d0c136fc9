// Package ma2h lets an agent reach a human through an MA2H Hub and get a
// decision back.
//
// An agent informs with Notify, asks for a decision with Ask, Approve or
// AskFor, and wants something done by hand with Task. The human answers from
// one inbox, minutes or days later. The answer comes back by pull (Wait) or by
// a signed push, often to a new process.
//
// What a caller sees as a *Response has been verified: it has no exported
// fields and there is no other way to make one. The wire types are in package
// types, a fake Hub for tests in ma2htest.
//
// # Compatibility
//
// The module is at 0.x: a minor release may change the Go API, and the
// changelog says how. What travels or rests is kept: sealed state and handles
// of any release open in all later ones.
//
// # Protocol versions
//
// MA2H 0.2, 0.3 and 0.4. Messages go out at 0.3, or 0.2 to a Hub that speaks
// nothing later. A later minor degrades safely: what is not understood is kept
// as received and never read as a success (§10).
package ma2h

import "github.com/ma2h/ma2h-go/types"

// Wire names that a caller needs; see package types for each.
type (
	Agent        = types.Agent
	Runtime      = types.Runtime
	Verb         = types.Verb
	Priority     = types.Priority
	Part         = types.Part
	Option       = types.Option
	Permissions  = types.Permissions
	Callback     = types.Callback
	CallbackAuth = types.CallbackAuth
	Resolution   = types.Resolution
	Status       = types.Status
	FieldError   = types.FieldError
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
