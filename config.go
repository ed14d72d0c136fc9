package ma2h

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/ma2h/ma2h-go/internal/limits"
)

// Config says how a Client reaches its Hub and who it is. The zero value of an
// optional field means the default that the field documents. NewClient copies
// what it is given.
type Config struct {
	// HubURL is the https URL of the Hub. It may have a path prefix. Required.
	HubURL string
	// Credential is scoped to Agent.ID at the Hub (§9.1). Required.
	Credential Credential
	// Agent says who asks. ID is required; an empty RunID becomes a random
	// one, an empty Runtime RuntimeOther.
	Agent Agent

	// HTTPClient carries the calls. Its transport, proxy and time-out are
	// kept; it is never asked to follow a redirect. A Timeout, and the
	// ResponseHeaderTimeout of an *http.Transport, shortens the long-poll hold
	// and must leave room for one: at least 5 s. Default: a client on
	// http.DefaultTransport.
	HTTPClient *http.Client
	// MaxWait is the longest hold that Wait asks for, up to 60 s (§8.2).
	// Default: 60 s.
	MaxWait time.Duration
	// AttemptTimeout bounds one attempt of a call that is not a long-poll,
	// its answer included. Default: 30 s.
	AttemptTimeout time.Duration
	// MaxBackoff is the longest wait between attempts that the Hub has not
	// asked for. Default: 30 s.
	MaxBackoff time.Duration

	// Outbox keeps each submit that has an idempotency key before its first
	// attempt, and the Hub's acceptance after, so that an agent that asks again
	// sends the same bytes and gets the same message. One that outlives a crash
	// is in the stores. Default: a small one in memory, which does so for this
	// Client and is lost with the process.
	Outbox Outbox
	// KeyRetention is how long the Hub remembers an idempotency key (§8.1).
	// What the Outbox keeps for longer is not sent again by itself. Default:
	// 24 hours, the least that a Hub may have.
	KeyRetention time.Duration

	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Rand gives the bytes of ids, keys and jitter; it is read from many
	// goroutines. Default: crypto/rand.
	Rand io.Reader
	// Logger gets ids, states, codes and times, never content. Default: none.
	Logger *slog.Logger

	// AllowInsecureLoopback lets HubURL and callback URLs be plain http to a
	// loopback address.
	AllowInsecureLoopback bool
}

// Format prints the Hub and the agent, nothing of the credential. User
// information of a HubURL, which NewClient refuses, may be a secret.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.text()) }

// LogValue logs what Format prints.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.text()) }

func (c *Config) text() string {
	host := ""
	if u, err := url.Parse(c.HubURL); err == nil {
		host = u.Host
	}
	return redactedText("Config", "hub", host, "agent", c.Agent.ID)
}

const (
	defaultAttemptTimeout = 30 * time.Second
	defaultMaxBackoff     = 30 * time.Second
	minBackoff            = 500 * time.Millisecond
	// minClientTimeout is the least http.Client.Timeout that leaves a hold of
	// a second beside timeoutMargin.
	minClientTimeout = 5 * time.Second
	timeoutMargin    = 4 * time.Second
)

// ConfigFromEnv reads a Config from the environment:
//
//	MA2H_HUB_URL   HubURL
//	MA2H_TOKEN     a bearer token, or
//	MA2H_API_KEY   an API key
//	MA2H_AGENT_ID  Agent.ID
//	MA2H_RUN_ID    Agent.RunID; default: that of a GitHub Actions run and attempt
//	MA2H_RUNTIME   Agent.Runtime; default: github-actions there, other elsewhere
//	MA2H_PROJECT   Agent.Project
//
// A missing or doubled one is an error that names it.
func ConfigFromEnv() (Config, error) {
	token, hasToken := os.LookupEnv("MA2H_TOKEN")
	key, hasKey := os.LookupEnv("MA2H_API_KEY")
	cfg := Config{
		HubURL: os.Getenv("MA2H_HUB_URL"),
		Agent: Agent{
			ID:      os.Getenv("MA2H_AGENT_ID"),
			RunID:   os.Getenv("MA2H_RUN_ID"),
			Runtime: Runtime(os.Getenv("MA2H_RUNTIME")),
			Project: os.Getenv("MA2H_PROJECT"),
		},
	}
	switch {
	case cfg.HubURL == "":
		return Config{}, fmt.Errorf("ma2h: MA2H_HUB_URL is not set")
	case cfg.Agent.ID == "":
		return Config{}, fmt.Errorf("ma2h: MA2H_AGENT_ID is not set")
	case hasToken && hasKey:
		return Config{}, fmt.Errorf("ma2h: MA2H_TOKEN and MA2H_API_KEY are both set")
	case hasToken:
		cfg.Credential = Bearer(token)
	case hasKey:
		cfg.Credential = APIKey(key)
	default:
		return Config{}, fmt.Errorf("ma2h: neither MA2H_TOKEN nor MA2H_API_KEY is set")
	}
	name, secret := "MA2H_TOKEN", token
	if hasKey {
		name, secret = "MA2H_API_KEY", key
	}
	if err := checkSecret(name, secret); err != nil {
		return Config{}, err
	}
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		if cfg.Agent.Runtime == "" {
			cfg.Agent.Runtime = RuntimeGitHubActions
		}
		if run := os.Getenv("GITHUB_RUN_ID"); cfg.Agent.RunID == "" && run != "" {
			cfg.Agent.RunID = run + "." + os.Getenv("GITHUB_RUN_ATTEMPT")
		}
	}
	return cfg, nil
}

// withDefaults returns a deep copy with every default filled in.
func (c Config) withDefaults() Config {
	c.Agent.Labels = maps.Clone(c.Agent.Labels)
	if c.Agent.Runtime == "" {
		c.Agent.Runtime = RuntimeOther
	}
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{}
	}
	if c.MaxWait == 0 {
		c.MaxWait = limits.MaxHold
	}
	if c.AttemptTimeout == 0 {
		c.AttemptTimeout = defaultAttemptTimeout
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = defaultMaxBackoff
	}
	if c.KeyRetention == 0 {
		c.KeyRetention = limits.DefaultKeyRetention
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func configError(field, section, format string, args ...any) error {
	return invalid("Config."+field, section, format, args...)
}

// validate returns the parsed Hub URL.
func (c *Config) validate() (*url.URL, error) {
	u, err := url.Parse(c.HubURL)
	if err != nil || u.Hostname() == "" || strings.ContainsFunc(c.HubURL, unicode.IsSpace) {
		return nil, configError("HubURL", "§8", "is not an absolute URL")
	}
	if err := checkURL(u, c.AllowInsecureLoopback); err != nil {
		return nil, configError("HubURL", "§8", "%v", err)
	}
	if len(c.HubURL) > maxHubURL {
		return nil, configError("HubURL", "§8", "is %d bytes, over %d", len(c.HubURL), maxHubURL)
	}
	if u.RawQuery != "" || u.ForceQuery {
		return nil, configError("HubURL", "§8", "has a query")
	}
	if err := c.Credential.check(); err != nil {
		return nil, err
	}
	if strings.ContainsFunc(c.Agent.ID, unicode.IsControl) {
		return nil, configError("Agent.ID", "§4.1", "has a control character")
	}
	if err := c.Agent.Validate(); err != nil {
		return nil, within("Config.Agent", err)
	}
	if c.MaxWait < time.Second || c.MaxWait > limits.MaxHold {
		return nil, configError("MaxWait", "§8.2", "is %s, not 1s to %s", c.MaxWait, limits.MaxHold)
	}
	if c.AttemptTimeout < time.Second {
		return nil, configError("AttemptTimeout", "§8.1", "is %s, below 1s", c.AttemptTimeout)
	}
	if c.MaxBackoff < minBackoff {
		return nil, configError("MaxBackoff", "§8.6", "is %s, below %s", c.MaxBackoff, minBackoff)
	}
	if c.KeyRetention < time.Minute {
		return nil, configError("KeyRetention", "§8.1", "is %s, below 1m", c.KeyRetention)
	}
	if t := c.HTTPClient.Timeout; t < 0 || t > 0 && t < minClientTimeout {
		return nil, configError("HTTPClient.Timeout", "§8.2", "is %s, which leaves no room for a long-poll; it takes %s or more, or none", t, minClientTimeout)
	}
	if t := c.headerTimeout(); t > 0 && t < minClientTimeout {
		return nil, configError("HTTPClient.Transport.ResponseHeaderTimeout", "§8.2", "is %s, which leaves no room for a long-poll; it takes %s or more, or none", t, minClientTimeout)
	}
	return u, nil
}

// headerTimeout is how long the caller's transport waits for an answer to
// begin, where it can be seen.
func (c *Config) headerTimeout() time.Duration {
	if tr, _ := c.HTTPClient.Transport.(*http.Transport); tr != nil {
		return tr.ResponseHeaderTimeout
	}
	return 0
}

// hold is the longest hold that the caller's http.Client lets through.
func (c *Config) hold() time.Duration {
	hold := c.MaxWait
	if t := c.HTTPClient.Timeout; t > 0 {
		hold = min(hold, t-timeoutMargin)
	}
	if t := c.headerTimeout(); t > 0 {
		hold = min(hold, t-timeoutMargin)
	}
	return hold.Truncate(time.Second)
}

// checkURL refuses a URL that would take a secret over plain text or carry one
// in itself.
func checkURL(u *url.URL, loopback bool) error {
	switch {
	case u.User != nil:
		return fmt.Errorf("has user information")
	case u.Fragment != "":
		return fmt.Errorf("has a fragment")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		if loopback {
			return nil
		}
		return fmt.Errorf("is plain http; AllowInsecureLoopback allows that for a loopback address")
	}
	return fmt.Errorf("is not https")
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	return net.ParseIP(host).IsLoopback()
}

// Credential is how an agent authenticates to its Hub. It prints as its scheme
// and never holds more than it needs.
type Credential struct {
	header string
	prefix string
	secret hidden[string]
	// source gives the secret anew for each call.
	source func(context.Context) (string, error)
}

// Bearer is a bearer token (§9.1).
func Bearer(token string) Credential {
	return Credential{header: "Authorization", prefix: "Bearer ", secret: hide(token)}
}

// APIKey is an API key in the header X-Api-Key (§9.1).
func APIKey(key string) Credential { return APIKeyHeader("X-Api-Key", key) }

// APIKeyHeader is an API key in a header of the Hub's choice.
func APIKeyHeader(header, key string) Credential {
	return Credential{header: http.CanonicalHeaderKey(header), secret: hide(key)}
}

// BearerFunc is a bearer token that is asked for at each call, for tokens that
// expire sooner than a human answers. f is called from many goroutines and
// should cache. Its error ends the call and is returned.
func BearerFunc(f func(context.Context) (string, error)) Credential {
	return Credential{header: "Authorization", prefix: "Bearer ", source: f}
}

func (c Credential) check() error {
	if c.header == "" {
		return configError("Credential", "§9.1", "is required")
	}
	if !isFieldName(c.header) || ownHeaders[c.header] {
		return configError("Credential", "§9.1", "names a header that cannot carry it")
	}
	switch {
	case c.source != nil:
		return nil
	case c.secret == nil:
		return configError("Credential", "§9.1", "has no function")
	}
	return checkSecret("Config.Credential", c.secret())
}

// ownHeaders are set by this library or by net/http and carry no credential.
var ownHeaders = map[string]bool{
	"Accept": true, "Connection": true, "Content-Length": true, "Content-Type": true, "Host": true, "Trailer": true, "Transfer-Encoding": true,
}

// isFieldName reports whether s is a token (RFC 9110 §5.6.2).
func isFieldName(s string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

func checkSecret(field, s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return invalid(field, "§9.1", "is empty or blank")
	case strings.TrimSpace(s) != s:
		return invalid(field, "§9.1", "has white space at an end")
	}
	for _, c := range []byte(s) {
		if c < ' ' || c >= 0x7f {
			return invalid(field, "§9.1", "has a byte that a header cannot hold")
		}
	}
	return nil
}

func (c Credential) apply(ctx context.Context, h http.Header) error {
	if c.source == nil {
		h.Set(c.header, c.prefix+c.secret())
		return nil
	}
	secret, err := c.source(ctx)
	if err != nil {
		return fmt.Errorf("ma2h: credential: %w", err)
	}
	if err := checkSecret("Config.Credential", secret); err != nil {
		return err
	}
	h.Set(c.header, c.prefix+secret)
	return nil
}

const redactedCredential = "Credential{redacted}"

// String hides the secret.
func (Credential) String() string { return redactedCredential }

// GoString hides the secret.
func (Credential) GoString() string { return redactedCredential }

// Format hides the secret under every verb.
func (Credential) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redactedCredential) }

// LogValue hides the secret.
func (Credential) LogValue() slog.Value { return slog.StringValue(redactedCredential) }

// MarshalJSON hides the secret.
func (Credential) MarshalJSON() ([]byte, error) { return json.Marshal(redactedCredential) }

// jitter is uniform in [0,1). It spreads load and guards nothing, so a Rand
// that fails gives the longest wait.
func (c *Config) jitter() float64 {
	var b [8]byte
	if _, err := io.ReadFull(c.Rand, b[:]); err != nil {
		return 1
	}
	return float64(binary.BigEndian.Uint64(b[:])>>11) / (1 << 53)
}
