package types

import (
	"fmt"
	"log/slog"
	"net/url"
)

// CallbackMode says whether the Hub pushes a Response (§8.3).
type CallbackMode string

// The callback modes. Pull equals no callback.
const (
	CallbackPush CallbackMode = "push"
	CallbackPull CallbackMode = "pull"
)

// AuthScheme is how the Hub authenticates to a callback, beside the signature
// that every push has (§8.3, §9.2).
type AuthScheme string

// The schemes.
const (
	AuthHMAC   AuthScheme = "hmac"
	AuthBearer AuthScheme = "bearer"
	AuthAPIKey AuthScheme = "apikey"
)

// Callback asks the Hub to push the Response to URL (§8.3).
type Callback struct {
	Mode CallbackMode  `json:"mode"`          // push, or pull for none
	URL  string        `json:"url,omitzero"`  // an endpoint of the agent; https
	Auth *CallbackAuth `json:"auth,omitzero"` // nil: the signature alone
}

// CallbackAuth names a credential by reference; a secret itself never goes
// here (§8.3).
type CallbackAuth struct {
	Scheme    AuthScheme `json:"scheme"`              // hmac, bearer or apikey
	SecretRef string     `json:"secret_ref,omitzero"` // of hmac, such as env:NAME
	TokenRef  string     `json:"token_ref,omitzero"`  // of bearer and apikey
}

type wireCallbackAuth struct {
	Scheme    AuthScheme `json:"scheme"`
	SecretRef *string    `json:"secret_ref"`
	TokenRef  *string    `json:"token_ref"`
}

// UnmarshalJSON reads a CallbackAuth and refuses one that has not exactly the
// reference of its scheme.
func (a *CallbackAuth) UnmarshalJSON(b []byte) error {
	var w wireCallbackAuth
	if err := Decode(b, &w); err != nil {
		return err
	}
	if (w.SecretRef != nil) != (w.Scheme == AuthHMAC) || (w.TokenRef != nil) == (w.Scheme == AuthHMAC) {
		return &FieldError{Field: "callback.auth", Problem: "of scheme " + Quote(string(w.Scheme)) + " takes secret_ref for hmac, token_ref otherwise, and not both", Section: "§8.3"}
	}
	*a = CallbackAuth{Scheme: w.Scheme}
	if w.SecretRef != nil {
		a.SecretRef = *w.SecretRef
	}
	if w.TokenRef != nil {
		a.TokenRef = *w.TokenRef
	}
	return nil
}

// UnmarshalJSON reads a Callback and refuses an empty url.
func (cb *Callback) UnmarshalJSON(b []byte) error {
	type plain Callback
	var w struct {
		plain
		URL *string `json:"url"`
	}
	if err := Decode(b, &w); err != nil {
		return err
	}
	var c checker
	w.plain.URL = given(&c, "§8.3", "callback.url", w.URL)
	*cb = Callback(w.plain)
	return c.err
}

func (cb *Callback) push() bool { return cb != nil && cb.Mode == CallbackPush }

// Validate returns a *FieldError for the first rule of §8.3 that cb breaks.
func (cb *Callback) Validate() error {
	var c checker
	switch cb.Mode {
	case CallbackPush:
		c.require("§8.3", "url", cb.URL)
	case CallbackPull:
	default:
		c.fail("§8.3", "mode", "is %s, not push or pull", Quote(string(cb.Mode)))
	}
	if cb.URL != "" {
		c.uri("§8.3", "url", cb.URL)
	}
	if cb.Auth != nil {
		c.under("auth", cb.Auth.Validate())
	}
	return c.err
}

// Validate returns a *FieldError for the first rule of §8.3 that a breaks.
func (a *CallbackAuth) Validate() error {
	var c checker
	switch a.Scheme {
	case AuthHMAC:
		c.require("§8.3", "secret_ref", a.SecretRef)
		if a.TokenRef != "" {
			c.fail("§8.3", "token_ref", "does not go with scheme hmac")
		}
	case AuthBearer, AuthAPIKey:
		c.require("§8.3", "token_ref", a.TokenRef)
		if a.SecretRef != "" {
			c.fail("§8.3", "secret_ref", "goes with scheme hmac only")
		}
	default:
		c.fail("§8.3", "scheme", "is %s, not hmac, bearer or apikey", Quote(string(a.Scheme)))
	}
	return c.err
}

func (cb Callback) summary() summary {
	host := ""
	if u, err := url.Parse(cb.URL); err == nil {
		host = u.Host
	}
	return summarize("Callback", "mode", string(cb.Mode), "host", host)
}

// Format prints the mode and the host: user, path and query of a URL may be
// what lets its caller in.
func (cb Callback) Format(f fmt.State, _ rune) { cb.summary().write(f) }

// LogValue logs what Format prints.
func (cb Callback) LogValue() slog.Value { return cb.summary().LogValue() }

func (a CallbackAuth) summary() summary {
	return summarize("CallbackAuth", "scheme", string(a.Scheme))
}

// Format prints the scheme.
func (a CallbackAuth) Format(f fmt.State, _ rune) { a.summary().write(f) }

// LogValue logs what Format prints.
func (a CallbackAuth) LogValue() slog.Value { return a.summary().LogValue() }
