package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/schema"
	"github.com/ma2h/ma2h-go/types"
)

func copyBody(w io.Writer, r *http.Request) (int64, error) {
	defer r.Body.Close()
	return io.Copy(w, r.Body)
}

// req: DISC-12 SUB-04 ENV-06 CB-06 PUL-10
func TestAConfigIsTakenOrRefusedByField(t *testing.T) {
	type edit = func(*ma2h.Config)
	hub := func(u string) edit { return func(c *ma2h.Config) { c.HubURL = u } }
	loop := func(u string) edit { return func(c *ma2h.Config) { c.HubURL, c.AllowInsecureLoopback = u, true } }
	cred := func(cr ma2h.Credential) edit { return func(c *ma2h.Config) { c.Credential = cr } }
	client := func(h *http.Client) edit { return func(c *ma2h.Config) { c.HTTPClient = h } }
	labels := map[string]string{"team": "dev"}
	tests := []struct {
		name  string
		edit  edit
		field string // "": taken
	}{
		{"as it is", func(*ma2h.Config) {}, ""},
		{"a port", hub("https://hub.test:8443"), ""},
		{"a path", hub("https://hub.test/a/b/"), ""},
		{"upper case", hub("HTTPS://HUB.test"), ""},
		{"an IPv6 address", hub("https://[::1]:8443"), ""},
		{"no URL", hub(""), "HubURL"},
		{"no scheme", hub("hub.test"), "HubURL"},
		{"no host", hub("https:///x"), "HubURL"},
		{"a port alone", hub("https://:443"), "HubURL"},
		{"opaque", hub("https:hub.test"), "HubURL"},
		{"white space before", hub(" https://hub.test"), "HubURL"},
		{"white space after", hub("https://hub.test/x "), "HubURL"},
		{"a line end", hub("https://hub.test\n"), "HubURL"},
		{"a user", hub("https://me@hub.test"), "HubURL"},
		{"a query", hub("https://hub.test/?a=b"), "HubURL"},
		{"an empty query", hub("https://hub.test/?"), "HubURL"},
		{"a fragment", hub("https://hub.test/#a"), "HubURL"},
		{"plain http", hub("http://hub.test"), "HubURL"},
		{"plain http to loopback", hub("http://127.0.0.1:8080"), "HubURL"},
		{"another scheme", hub("ftp://hub.test"), "HubURL"},
		{"allowed loopback", loop("http://127.0.0.1:8080"), ""},
		{"allowed loopback, all of it", loop("http://127.9.9.9"), ""},
		{"allowed loopback by name", loop("http://localhost:1"), ""},
		{"allowed loopback, IPv6", loop("http://[::1]:1"), ""},
		{"allowed, but no loopback", loop("http://hub.test"), "HubURL"},
		{"allowed, but a name that looks so", loop("http://localhost.evil.test"), "HubURL"},
		{"allowed, but an address beside", loop("http://128.0.0.1"), "HubURL"},
		{"allowed, but another scheme", loop("ftp://127.0.0.1"), "HubURL"},
		{"https where loopback is allowed", loop("https://hub.test"), ""},

		{"no credential", cred(ma2h.Credential{}), "Credential"},
		{"an empty token", cred(ma2h.Bearer("")), "Credential"},
		{"a blank token", cred(ma2h.Bearer(" \t")), "Credential"},
		{"a token with a line end", cred(ma2h.Bearer("tok\n")), "Credential"},
		{"a token with a blank before", cred(ma2h.Bearer(" tok")), "Credential"},
		{"a token with a NUL", cred(ma2h.Bearer("t\x00k")), "Credential"},
		{"a token with a DEL", cred(ma2h.Bearer("t\x7fk")), "Credential"},
		{"a token beyond ASCII", cred(ma2h.Bearer("tök")), "Credential"},
		{"a token of all that is printable", cred(ma2h.Bearer("!~azAZ09 +/=")), ""},
		{"an empty key", cred(ma2h.APIKey("")), "Credential"},
		{"a key with white space", cred(ma2h.APIKey("k ")), "Credential"},
		{"a key in a header of the Hub's", cred(ma2h.APIKeyHeader("x-hub-key", "k")), ""},
		{"a header without a name", cred(ma2h.APIKeyHeader("", "k")), "Credential"},
		{"a header with a blank", cred(ma2h.APIKeyHeader("X Key", "k")), "Credential"},
		{"a header with a digit and a sign", cred(ma2h.APIKeyHeader("x-hub_key.2!", "k")), ""},
		{"a header with a bracket", cred(ma2h.APIKeyHeader("X[Key", "k")), "Credential"},
		{"a header with a brace", cred(ma2h.APIKeyHeader("X{Key", "k")), "Credential"},
		{"a header beyond ASCII", cred(ma2h.APIKeyHeader("X-Ké", "k")), "Credential"},
		{"a header with a colon", cred(ma2h.APIKeyHeader("X-Key:", "k")), "Credential"},
		{"a header with a line end", cred(ma2h.APIKeyHeader("X-Key\r\nX", "k")), "Credential"},
		{"a header that is ours", cred(ma2h.APIKeyHeader("content-type", "k")), "Credential"},
		{"the Host header", cred(ma2h.APIKeyHeader("host", "k")), "Credential"},
		{"no function", cred(ma2h.BearerFunc(nil)), "Credential"},
		{"a function", cred(ma2h.BearerFunc(func(context.Context) (string, error) { return "", nil })), ""},

		{"no agent", func(c *ma2h.Config) { c.Agent.ID = "" }, "id"},
		{"an unknown runtime", func(c *ma2h.Config) { c.Agent.Runtime = "docker" }, "runtime"},
		{"labels", func(c *ma2h.Config) { c.Agent.Labels = labels }, ""},

		{"MaxWait below", func(c *ma2h.Config) { c.MaxWait = time.Second - 1 }, "MaxWait"},
		{"MaxWait at the least", func(c *ma2h.Config) { c.MaxWait = time.Second }, ""},
		{"MaxWait at the most", func(c *ma2h.Config) { c.MaxWait = time.Minute }, ""},
		{"MaxWait over", func(c *ma2h.Config) { c.MaxWait = time.Minute + 1 }, "MaxWait"},
		{"MaxWait negative", func(c *ma2h.Config) { c.MaxWait = -1 }, "MaxWait"},
		{"AttemptTimeout below", func(c *ma2h.Config) { c.AttemptTimeout = time.Second - 1 }, "AttemptTimeout"},
		{"AttemptTimeout at the least", func(c *ma2h.Config) { c.AttemptTimeout = time.Second }, ""},
		{"MaxBackoff below", func(c *ma2h.Config) { c.MaxBackoff = 500*time.Millisecond - 1 }, "MaxBackoff"},
		{"MaxBackoff at the least", func(c *ma2h.Config) { c.MaxBackoff = 500 * time.Millisecond }, ""},
		{"KeyRetention below", func(c *ma2h.Config) { c.KeyRetention = time.Minute - 1 }, "KeyRetention"},
		{"KeyRetention at the least", func(c *ma2h.Config) { c.KeyRetention = time.Minute }, ""},
		{"a client that is too quick", client(&http.Client{Timeout: 5*time.Second - 1}), "HTTPClient.Timeout"},
		{"a client that is just slow enough", client(&http.Client{Timeout: 5 * time.Second}), ""},
		{"a client with a negative timeout", client(&http.Client{Timeout: -1}), "HTTPClient.Timeout"},
		{"a header timeout that is too quick", client(&http.Client{Transport: &http.Transport{ResponseHeaderTimeout: 5*time.Second - 1}}), "ResponseHeaderTimeout"},
		{"a header timeout just slow enough", client(&http.Client{Transport: &http.Transport{ResponseHeaderTimeout: 5 * time.Second}}), ""},
		{"a transport that is nil", client(&http.Client{Transport: (*http.Transport)(nil)}), ""},
		{"randomness that fails", func(c *ma2h.Config) { c.Agent.RunID, c.Rand = "", iotest.ErrReader(errors.New("none")) }, "Rand"},
	}
	for _, tt := range tests {
		cfg := over(roundTrip(func(*http.Request) (*http.Response, error) {
			t.Error("a constructor sent something")
			return nil, io.EOF
		}))
		tt.edit(&cfg)
		c, err := ma2h.NewClient(cfg)
		if tt.field == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err == nil || c != nil || !strings.Contains(err.Error(), tt.field) || !strings.HasPrefix(err.Error(), "ma2h: ") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestAnErrorOfAConfigNamesTheWayOut(t *testing.T) {
	cfg := over(http.DefaultTransport)
	cfg.HTTPClient = &http.Client{Timeout: time.Second}
	_, err := ma2h.NewClient(cfg)
	fe, ok := errors.AsType[*ma2h.FieldError](err)
	if !ok || fe.Field != "Config.HTTPClient.Timeout" || !strings.Contains(fe.Problem, "5s or more") {
		t.Errorf("%v", err)
	}
	cfg = over(http.DefaultTransport)
	cfg.Credential = ma2h.Credential{}
	if _, err := ma2h.NewClient(cfg); err == nil || err.Error() != "ma2h: Config.Credential is required (§9.1)" {
		t.Errorf("%v", err)
	}
	cfg = over(http.DefaultTransport)
	cfg.HubURL = "http://127.0.0.1:1"
	if _, err := ma2h.NewClient(cfg); err == nil || !strings.Contains(err.Error(), "AllowInsecureLoopback") {
		t.Errorf("%v", err)
	}
}

func TestAnErrorOfAPartHasOnePrefixAndNamesItsPlace(t *testing.T) {
	cfg := over(http.DefaultTransport)
	c := connect(t, cfg)
	noAgent := cfg
	noAgent.Agent.ID = ""
	newClient := func(cfg ma2h.Config) error { _, err := ma2h.NewClient(cfg); return err }
	ask := func(edit func(*ma2h.Ask)) error {
		a := shipOrHold("k")
		edit(&a)
		_, err := c.Ask(t.Context(), a)
		return err
	}
	memory, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	mustNot(t, err)
	verifier := func(keys ...ma2h.Key) error {
		_, err := ma2h.NewVerifier(ma2h.VerifierConfig{
			Keys: ma2h.Keys(keys...), CallbackURL: "https://bot.test/r", AgentID: asker, Replay: memory,
		})
		return err
	}
	good := ma2h.HMACKey(strings.Repeat("k", 16))
	now := time.Now()
	_, sealErr := ma2h.NewSealer(ma2h.SealerConfig{AgentID: asker, Keys: []ma2h.SealKey{ma2h.SealKeyHex("k", "zz")}})
	t.Setenv("MA2H_HUB_URL", "https://hub.test")
	t.Setenv("MA2H_AGENT_ID", asker)
	t.Setenv("MA2H_TOKEN", " ")
	unset(t, "MA2H_API_KEY")
	_, envErr := ma2h.ConfigFromEnv()
	for _, tt := range []struct {
		err  error
		text string
	}{
		{newClient(noAgent), "ma2h: Config.Agent.id is required (§4.1)"},
		{verifier(good, ma2h.HMACKey("short")), "ma2h: VerifierConfig.Keys[1] is not what HMACKey takes: it is 5 bytes, below 16 (§9.2)"},
		{verifier(ma2h.Key{}), "ma2h: VerifierConfig.Keys[0] is the zero Key (§9.2)"},
		{verifier(good.From(now).Until(now.Add(-1))), "ma2h: VerifierConfig.Keys[0] ends before it begins (§9.2)"},
		{sealErr, "ma2h: SealerConfig.Keys[0] is not hexadecimal (§9.3)"},
		{envErr, "ma2h: MA2H_TOKEN is empty or blank (§9.1)"},
		{ask(func(a *ma2h.Ask) { a.DefaultOnExpire, a.ExpiresAt = "x", now.Add(time.Hour) }), "ma2h: Ask.DefaultOnExpire is not the value of an option (§7)"},
	} {
		if fe, ok := errors.AsType[*ma2h.FieldError](tt.err); !ok || tt.err.Error() != tt.text || fe.Error() != tt.text {
			t.Errorf("%v, want %s", tt.err, tt.text)
		}
	}
	err = ask(func(a *ma2h.Ask) {
		a.Request = ma2h.Input([]byte(`{"type":"object","properties":{"a":{"type":"array"}}}`))
	})
	if _, ok := errors.AsType[*schema.Error](err); !ok || err.Error() != "ma2h: Ask.Request: input schema: properties.a.type: neither string, number, integer nor boolean" {
		t.Errorf("%v", err)
	}
	err = ask(func(a *ma2h.Ask) {
		a.Request = ma2h.Input([]byte(`{"type":"object","properties":{"a":{"type":"string"}}}`))
		a.DefaultOnExpire, a.ExpiresAt = map[string]int{"a": 1}, now.Add(time.Hour)
	})
	if err == nil || strings.Count(err.Error(), "ma2h:") != 1 {
		t.Errorf("%v", err)
	}
}

func TestAConfigAndAClientPrintTheHubAndTheAgent(t *testing.T) {
	cfg := over(http.DefaultTransport)
	cfg.HubURL = "https://hub.test:8443/p"
	if got := fmt.Sprint(cfg); got != "Config{hub=hub.test:8443 agent=deploybot/dev-team}" {
		t.Error(got)
	}
	if got := fmt.Sprint(connect(t, cfg)); got != "Client{hub=hub.test:8443 agent=deploybot/dev-team}" {
		t.Error(got)
	}
	cfg.HubURL = "https://hub.test/%zz"
	if got := fmt.Sprint(cfg); got != `Config{hub="" agent=deploybot/dev-team}` {
		t.Error(got)
	}
}

func TestRandomnessThatFailsLaterGivesTheLongestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		cfg := over(roundTrip(func(*http.Request) (*http.Response, error) {
			if tries++; tries == 1 {
				return canned(503, ""), nil
			}
			return canned(200, view()), nil
		}))
		cfg.Rand = failing{}
		begin := time.Now()
		if _, err := connect(t, cfg).Wait(t.Context(), "msg_1"); err != nil || time.Since(begin) != time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}

func TestAClientCopiesWhatItIsGiven(t *testing.T) {
	sent := map[string]string{}
	answer := roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return canned(200, `{"ma2h_version":"0.4"}`), nil
		}
		var b strings.Builder
		if _, err := copyBody(&b, r); err != nil {
			return nil, err
		}
		var m types.Message
		if err := types.Decode([]byte(b.String()), &m); err != nil {
			return nil, err
		}
		sent = m.Agent.Labels
		return canned(202, accepted), nil
	})
	cfg := over(answer)
	cfg.Agent.Labels = map[string]string{"team": "dev"}
	c := connect(t, cfg)
	cfg.Agent.Labels["team"] = "evil"
	cfg.HTTPClient.Transport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("replaced") })
	if _, err := c.Ask(t.Context(), shipOrHold("k")); err != nil || sent["team"] != "dev" {
		t.Errorf("%v, %v", sent, err)
	}
}

func TestAClientWithoutARunIdHasOneOfItsOwn(t *testing.T) {
	runs := map[string]bool{}
	for range 3 {
		var id string
		cfg := over(roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return canned(404, ""), nil
			}
			var b strings.Builder
			_, _ = copyBody(&b, r)
			var m types.Message
			err := types.Decode([]byte(b.String()), &m)
			id = m.Agent.RunID
			return canned(202, accepted), err
		}))
		cfg.Agent.RunID = ""
		if _, err := connect(t, cfg).Ask(t.Context(), shipOrHold("k")); err != nil {
			t.Fatal(err)
		}
		runs[id] = true
		if !strings.HasPrefix(id, "run_") || len(id) < 20 {
			t.Errorf("run id %q", id)
		}
	}
	if len(runs) != 3 {
		t.Errorf("%v", runs)
	}
}

func TestAConfigFromTheEnvironment(t *testing.T) {
	all := []string{"MA2H_HUB_URL", "MA2H_TOKEN", "MA2H_API_KEY", "MA2H_AGENT_ID", "MA2H_RUN_ID", "MA2H_RUNTIME", "MA2H_PROJECT", "GITHUB_ACTIONS", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT"}
	base := map[string]string{"MA2H_HUB_URL": "https://hub.test", "MA2H_TOKEN": "tok", "MA2H_AGENT_ID": asker}
	for _, tt := range []struct {
		name  string
		set   map[string]string // "-" unsets
		names string            // "": taken
		want  ma2h.Agent
	}{
		{"the least", nil, "", ma2h.Agent{ID: asker}},
		{"all of it", map[string]string{"MA2H_RUN_ID": "r", "MA2H_RUNTIME": "cli", "MA2H_PROJECT": "p"}, "", ma2h.Agent{ID: asker, RunID: "r", Runtime: "cli", Project: "p"}},
		{"an API key", map[string]string{"MA2H_TOKEN": "-", "MA2H_API_KEY": "k"}, "", ma2h.Agent{ID: asker}},
		{"in a GitHub Action", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "77", "GITHUB_RUN_ATTEMPT": "2"}, "", ma2h.Agent{ID: asker, RunID: "77.2", Runtime: "github-actions"}},
		{"in a GitHub Action, told otherwise", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "77", "MA2H_RUN_ID": "r", "MA2H_RUNTIME": "cli"}, "", ma2h.Agent{ID: asker, RunID: "r", Runtime: "cli"}},
		{"in a GitHub Action without a run", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_RUN_ATTEMPT": "2"}, "", ma2h.Agent{ID: asker, Runtime: "github-actions"}},
		{"no URL", map[string]string{"MA2H_HUB_URL": "-"}, "MA2H_HUB_URL", ma2h.Agent{}},
		{"no agent", map[string]string{"MA2H_AGENT_ID": ""}, "MA2H_AGENT_ID", ma2h.Agent{}},
		{"no credential", map[string]string{"MA2H_TOKEN": "-"}, "neither MA2H_TOKEN nor MA2H_API_KEY", ma2h.Agent{}},
		{"an empty token", map[string]string{"MA2H_TOKEN": ""}, "MA2H_TOKEN", ma2h.Agent{}},
		{"a token with a line end", map[string]string{"MA2H_TOKEN": "tok\n"}, "MA2H_TOKEN", ma2h.Agent{}},
		{"an empty key", map[string]string{"MA2H_TOKEN": "-", "MA2H_API_KEY": ""}, "MA2H_API_KEY", ma2h.Agent{}},
		{"both", map[string]string{"MA2H_API_KEY": "k"}, "both", ma2h.Agent{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range all {
				v, ok := base[name]
				if s, set := tt.set[name]; set {
					v, ok = s, s != "-"
				}
				t.Setenv(name, v)
				if !ok {
					unset(t, name)
				}
			}
			cfg, err := ma2h.ConfigFromEnv()
			if tt.names != "" {
				if err == nil || !strings.Contains(err.Error(), tt.names) || strings.Contains(err.Error(), "tok\n") {
					t.Fatal(err)
				}
				return
			}
			mustNot(t, err)
			if fmt.Sprintf("%#v", agentFields(cfg.Agent)) != fmt.Sprintf("%#v", agentFields(tt.want)) {
				t.Errorf("%#v, want %#v", agentFields(cfg.Agent), agentFields(tt.want))
			}
			connect(t, cfg)
		})
	}
}

func unset(t *testing.T, name string) {
	t.Helper()
	if err := os.Unsetenv(name); err != nil {
		t.Fatal(err)
	}
}

func agentFields(a ma2h.Agent) [4]string {
	return [4]string{a.ID, a.RunID, string(a.Runtime), a.Project}
}

// A Hub URL that ends in a lone '#' once sent every call to the root.
func TestNothingOfAHubURLIsLostOnTheWay(t *testing.T) {
	for u, want := range map[string]string{
		"https://hub.test":            "/v1/messages/m",
		"https://hub.test/":           "/v1/messages/m",
		"https://hub.test/p//":        "/p/v1/messages/m",
		"https://hub.test/a%2Fb/c%20": "/a%2Fb/c%20/v1/messages/m",
		"https://hub.test/é":          "/%C3%A9/v1/messages/m",
		"https://hub.test/#":          "/v1/messages/m",
	} {
		var got string
		cfg := over(roundTrip(func(r *http.Request) (*http.Response, error) {
			got = r.URL.EscapedPath()
			return canned(404, ""), nil
		}))
		cfg.HubURL = u
		c, err := ma2h.NewClient(cfg)
		if err != nil {
			if strings.HasSuffix(u, "#") {
				continue
			}
			t.Errorf("%s: %v", u, err)
			continue
		}
		_, _ = c.Message(t.Context(), "m")
		if got != want {
			t.Errorf("%s: went to %s, want %s", u, got, want)
		}
	}
}
