// Package hubtest checks a Hub over HTTP against the text of MA2H 0.2, 0.3 and
// 0.4: what §3 to §10 and §13 to §15 say that a Hub owes, one subtest a duty.
//
//	func TestMyHub(t *testing.T) {
//		hubtest.Run(t, hubtest.Target{
//			BaseURL: "https://127.0.0.1:8443",
//			Agent:   hubtest.Agent{ID: "probe/one", Credential: hubtest.Bearer(token)},
//		})
//	}
//
// A base URL and one agent are enough to begin. Each further field of [Target]
// opens more rows: a second agent those of isolation, a [Clock] those of expiry,
// visibility windows and retries, a [Human] those of answers and directives, a
// callback those of pushes. A row that needs what is not there is skipped and
// says which field it is, and so is one about something that the Hub's
// capability document does not offer (§8.0). SHOULD is checked like MUST; a Hub
// that has a reason to deviate names the row in Target.Exempt, and the reason
// stands in the output of every run.
//
// No row waits for time to pass: where the text speaks of time, the Clock is
// moved. Real time ends a row only if something does not come at all, after
// Target.Patience.
//
// # What it leaves behind
//
// The suite is a guest. It uses idempotency keys that no other run uses, cancels
// the asks and dismisses the tasks that it opened, and empties the mailbox of
// Target.Agent. So give it agents that nobody else uses. A Clock is moved by
// months.
//
// # What it is independent of
//
// The suite is written from the text and shares no code with the client of this
// module or with the fake Hub: it has its own reader of JSON, its own form of RFC
// 8785 and its own check of signatures, on the standard library alone. So a
// client and a Hub that agree on an error do not agree with it.
//
// # What it cannot see
//
// How a Hub shows a message to a human (§9.6), what it logs, how it verifies that
// an agent owns a host (§9.4) and how it authenticates a human (§9.1) are not on
// the wire. That a Hub refuses private addresses when it delivers cannot be seen
// from outside either, only that it follows no redirect.
package hubtest
