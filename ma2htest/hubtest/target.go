package hubtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Target is a Hub and the ways to it. BaseURL and Agent are required; what is
// left out skips the rows that need it.
type Target struct {
	// BaseURL is where /v1/messages and /.well-known/ma2h are under, without a
	// slash at the end.
	BaseURL string
	// HTTPClient reaches the Hub. Nil means http.DefaultClient. The suite
	// follows no redirect with it.
	HTTPClient *http.Client
	// Agent submits; Other is another agent, who must not get at what Agent
	// has (§9.1).
	Agent, Other Agent
	// Owner is the credential of the human account that owns Agent, for
	// presence (§15.3).
	Owner Credential
	// Human plays the human side.
	Human Human
	// Clock is the Hub's.
	Clock Clock
	// Held waits until the Hub holds a long-poll of the agent on the message, or
	// on its mailbox if messageID is empty, and fails when ctx ends. A hold whose
	// time is over by the Clock is none. With both the suite looks at when a hold
	// ends (§8.2).
	Held func(ctx context.Context, agentID, messageID string) error
	// Callback makes handler reachable for the Hub at a URL that Agent owns
	// (§9.4), each call at another one. The scheme is hmac, bearer, apikey, or
	// empty for a callback without auth. An error that is errors.ErrUnsupported
	// skips the row. The handler may be called concurrently; where it breaks a
	// connection it panics with http.ErrAbortHandler, as net/http has it.
	Callback func(ctx context.Context, scheme string, handler http.Handler) (Callback, error)
	// Webhook has the Hub push the directives of Agent to handler, until stop
	// is called (§8.7).
	Webhook func(ctx context.Context, handler http.Handler) (stop func(), err error)
	// DirectiveKeys are those that the Hub signs directives to Agent with, all
	// that are in use (§9.7). AckKeys are those of acknowledgments that it pushes
	// to a human (§14.4).
	DirectiveKeys, AckKeys []Key
	// Restart ends the process of the Hub and starts it again (§3.1).
	Restart func(ctx context.Context) error
	// Exempt names rows by their id, as failures and skips show it, that this
	// Hub does not keep to, and says why. They are skipped with that reason.
	Exempt map[string]string
	// Patience is how long, in real time, something may take that must happen:
	// an answer to a request, the end of a hold, the arrival of a push. Zero
	// means 10 s.
	Patience time.Duration
}

// Format prints the Hub's URL and the agent under every verb.
func (t Target) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "hubtest.Target(%s, %s)", t.BaseURL, t.Agent.ID)
}

// Agent is one principal that submits (§9.1).
type Agent struct {
	// ID is the agent.id that the credential is scoped to.
	ID string
	// Credential proves it.
	Credential Credential
	// Second, if set, is a credential of the same agent by another scheme.
	Second Credential
}

// Credential is a header that authenticates. It prints as the name of the
// header.
type Credential struct{ header, value string }

// Bearer is a bearer token, in the header Authorization.
func Bearer(token string) Credential { return Credential{"Authorization", "Bearer " + token} }

// APIKey is an API key in the header X-Api-Key. The specification names no
// header; HeaderCredential takes another one.
func APIKey(key string) Credential { return Credential{"X-Api-Key", key} }

// HeaderCredential is a value in any header.
func HeaderCredential(header, value string) Credential { return Credential{header, value} }

// Format prints the name of the header under every verb.
func (c Credential) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "hubtest.Credential("+c.header+")")
}

func (c Credential) isZero() bool { return c.secret() == "" }

// wrong is a credential of the same form that nobody has.
func (c Credential) wrong() Credential { return Credential{c.header, c.value + "-not"} }

// secret is the part of the value that must not be shown.
func (c Credential) secret() string {
	if _, s, ok := strings.Cut(c.value, " "); ok {
		return s
	}
	return c.value
}

// Clock is the Hub's clock (§9.5). Its methods are called from several
// goroutines, Now also while Advance runs.
type Clock interface {
	// Now is the time on it.
	Now() time.Time
	// Advance moves it, and returns when what fell due has happened: expiries,
	// the ends of holds and windows, and retries of pushes. Where one Advance
	// passes several due times, it makes no difference whether the Hub stops at
	// each.
	Advance(d time.Duration)
}

// Human plays the human side. All but the names are functions, each of which
// may be nil. An error of one fails the row, unless the row is about a refusal.
type Human struct {
	// ID is a principal that Resolve can act as, human:<id>. Empty means
	// human:alice. Stranger is another one; empty means human:mallory.
	ID, Stranger string
	// Resolve ends a message. It is an error if the Hub refuses to or if the
	// message had ended before: if it was not this act that ended it.
	Resolve func(ctx context.Context, r Resolution) error
	// Withdraw has the Hub itself cancel an ask (§7).
	Withdraw func(ctx context.Context, messageID string) error
	// Delete deletes a message (§8.2).
	Delete func(ctx context.Context, messageID string) error
	// Direct puts a directive into a mailbox and returns its id (§13).
	Direct func(ctx context.Context, d Directive) (id string, err error)
	// PushAck has the Hub push the acknowledgment of a message to handler, as
	// to the human's client (§14.4).
	PushAck func(ctx context.Context, messageID string, handler http.Handler) error
}

// Resolution is one act of a human.
type Resolution struct {
	MessageID string
	Outcome   string // answered, declined, completed or dismissed
	By        string // Human.ID or Human.Stranger
	Value     any    // with answered: a string, or a map[string]any for input
	Comment   string
}

// Directive is what a human writes to an agent (§13.1).
type Directive struct {
	From      string // Human.ID
	AgentID   string // of the addressee
	Title     string
	Body      string
	Priority  string
	Tags      []string
	ExpiresAt time.Time // zero for none
}

// Callback is a URL that the Hub pushes to.
type Callback struct {
	// URL is for callback.url, byte for byte.
	URL string
	// Ref is the secret_ref of hmac, or the token_ref of bearer and apikey, that
	// the Hub knows for this URL.
	Ref string
	// Keys are those that pushes to it are signed with.
	Keys []Key
}

const defaultPatience = 10 * time.Second

func (t Target) withDefaults() (Target, error) {
	u, err := url.Parse(t.BaseURL)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http":
		return t, errors.New("hubtest: Target.BaseURL is not an absolute http or https URL without a user")
	case strings.HasSuffix(t.BaseURL, "/"):
		return t, errors.New("hubtest: Target.BaseURL ends with a slash")
	case t.Agent.ID == "" || t.Agent.Credential.isZero():
		return t, errors.New("hubtest: Target.Agent has no ID or no Credential")
	case t.Other.ID != "" && (t.Other.ID == t.Agent.ID || t.Other.Credential.isZero()):
		return t, errors.New("hubtest: Target.Other is Target.Agent or has no Credential")
	case t.Patience < 0:
		return t, errors.New("hubtest: Target.Patience is negative")
	}
	known := make(map[string]bool)
	for _, r := range allRows() {
		known[r.id] = true
	}
	for id, reason := range t.Exempt {
		if !known[id] || reason == "" {
			return t, fmt.Errorf("hubtest: Target.Exempt[%q] is no row, or gives no reason", id)
		}
	}
	if t.HTTPClient == nil {
		t.HTTPClient = http.DefaultClient
	}
	client := *t.HTTPClient
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.HTTPClient = &client
	if t.Human.ID == "" {
		t.Human.ID = "human:alice"
	}
	if t.Human.Stranger == "" {
		t.Human.Stranger = "human:mallory"
	}
	if t.Patience == 0 {
		t.Patience = defaultPatience
	}
	return t, nil
}
