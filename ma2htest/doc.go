// Package ma2htest is a Hub for tests: the agent-to-human legs of MA2H 0.2,
// 0.3 and 0.4 and the mailboxes of 0.4 over HTTP, the human side as Go calls, a
// clock that a test moves, and the faults of real life as values.
//
//	hub := ma2htest.NewHub(t)
//	// point the agent at hub.URL() with hub.Client() and hub.Token("bot/a"),
//	// or at hub.MemoryURL() with hub.Transport(), which opens no socket
//	hub.Answer(id, "ship", ma2htest.By("human:alice"))
//	hub.SendDirective("bot/a", ma2htest.DirectiveDraft{Title: "Pause deploys"})
//	hub.Advance(24 * time.Hour)
//	hub.Fault(ma2htest.LoseAck(1))
//
// The Hub is one mutex and a compare-and-set: of any number of answers, cancels
// and expiries the first ends a message and all others learn its outcome (§7).
// An answer at exactly expires_at is in time; expiry comes strictly after it.
//
// It is a fake. Messages, keys and credentials are kept in memory and are gone
// with the process, so it does not meet §3.1; Restart shows what a Hub that
// does looks like from outside. It has one human account, which owns every
// agent. It renders no HTML, fetches no file.uri, and resolves no secret_ref but
// those that RegisterCallback names. Nothing of it belongs in production.
//
// An answer is pushed to a callback that asked for it, on a goroutine that ends
// with Close. ServeCallback has an http.Handler take pushes in memory, Keys is
// what its Verifier needs, and Advance delivers what falls due:
//
//	hub.ServeCallback("https://bot.example/ma2h", handler)
//	hub.Answer(id, "ship")
//	hub.Advance(0)
//
// A Verifier judges a signature's time by its own clock: where the Hub's is moved
// by Advance, give it VerifierConfig{Now: hub.Now}. A second process reaches the
// Hub by URL, if it trusts the certificate.
//
// Each attempt is signed anew. A 5xx and a broken network are tried again after
// 1 s, 2 s, 4 s and so on of the Hub's time, whatever a Retry-After says; 3xx,
// 4xx and a refused destination are final (§8.3, §9.4).
//
// Where the specification leaves a choice, the Hub takes one reading and keeps
// to it: all members of a payload count for idempotency; since answers 304 when
// the status did not change after that time; a Response of a task is without
// the response member unless it carries a comment or a checklist; an expiry
// without default has the actor system:expired; a lost cancel is a 409 whose
// body has error beside id, status and resolution; an acknowledgment that comes
// too early is a 409 not_acknowledgeable; a pushed Response without response is
// signed with resolved_at null; a callback without a registered secret_ref is
// signed with a key of the Hub, whatever its scheme.
//
// Of mailboxes: acked counts what the request has consumed, not what was
// consumed before; a directive that was dropped takes no acknowledgment; a 2xx
// of a webhook makes it delivered, and what a webhook was sent may be
// acknowledged; drains and their acknowledgments count against
// requests_per_minute as submits do; max beyond max_batch is cut to it and a
// max of zero is a 400.
package ma2htest
