package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

// report: B012
// req: DISC-13 DISC-14 GO-10
func TestNoCredentialLeavesTheConfiguredOrigin(t *testing.T) {
	var foreign atomic.Int64
	rt := func(answer func(r *http.Request) *http.Response) roundTrip {
		return func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "hub.test" {
				foreign.Add(1)
			}
			s := stub{answer: answer}
			return s.RoundTrip(r)
		}
	}
	creds := []ma2h.Credential{
		ma2h.Bearer("t"), ma2h.APIKey("k"), ma2h.APIKeyHeader("X-Hub-Key", "k"),
		ma2h.BearerFunc(func(context.Context) (string, error) { return "t", nil }),
	}
	for _, cred := range creds {
		for _, code := range []int{301, 302, 303, 307, 308} {
			cfg := over(rt(func(*http.Request) *http.Response {
				return canned(code, `{}`, "Location", "https://evil.test/v1/messages")
			}))
			cfg.Credential = cred
			// A caller who would follow is not asked.
			cfg.HTTPClient.CheckRedirect = func(*http.Request, []*http.Request) error { return nil }
			c := connect(t, cfg)
			_, err := c.Ask(t.Context(), shipOrHold("k"))
			wants(t, err, ma2h.ErrRedirect)
			_, err = c.Wait(t.Context(), "msg_1")
			wants(t, err, ma2h.ErrRedirect)
			_, err = c.Acknowledge(t.Context(), "msg_1", "")
			wants(t, err, ma2h.ErrRedirect)
			wants(t, c.Cancel(t.Context(), "msg_1"), ma2h.ErrRedirect)
		}
	}
	c := connect(t, over(rt(func(r *http.Request) *http.Response {
		if r.Method == http.MethodPost {
			return canned(202, `{"id":"msg_1","status":"open","poll_url":"https://evil.test/v1/messages/msg_1","review_url":"https://evil.test/r"}`)
		}
		return canned(200, view())
	})))
	ack, err := c.Ask(t.Context(), shipOrHold("k"))
	mustNot(t, err)
	if _, err := c.Wait(t.Context(), ack.ID); err != nil {
		t.Error(err)
	}
	if n := foreign.Load(); n != 0 {
		t.Errorf("%d requests to another origin", n)
	}
}

// req: SUB-04 DISC-01 AMB-15 AMB-16
func TestACredentialIsSentWithEveryCallButDiscovery(t *testing.T) {
	type sent struct{ path, header string }
	tests := []struct {
		cred   ma2h.Credential
		header string
		want   string
	}{
		{ma2h.Bearer("tok-1"), "Authorization", "Bearer tok-1"},
		{ma2h.APIKey("key-1"), "X-Api-Key", "key-1"},
		{ma2h.APIKeyHeader("x-hub-key", "key-2"), "X-Hub-Key", "key-2"},
		{ma2h.BearerFunc(func(context.Context) (string, error) { return "tok-2", nil }), "Authorization", "Bearer tok-2"},
	}
	for _, tt := range tests {
		var all []sent
		s := &stub{answer: func(r *http.Request) *http.Response {
			return canned(401, `{"error":{"code":"unauthenticated","message":""}}`)
		}}
		cfg := over(roundTrip(func(r *http.Request) (*http.Response, error) {
			all = append(all, sent{r.URL.Path, strings.Join(r.Header.Values(tt.header), ",")})
			for _, h := range []string{"Authorization", "X-Api-Key", "X-Hub-Key"} {
				if h != tt.header && r.Header.Get(h) != "" {
					t.Errorf("%s beside %s", h, tt.header)
				}
			}
			return s.RoundTrip(r)
		}))
		cfg.Credential = tt.cred
		c := connect(t, cfg)
		ctx := t.Context()
		_, e1 := c.Notify(ctx, ma2h.Notify{Title: "x"})
		_, e2 := c.Message(ctx, "m")
		_, e3 := c.Wait(ctx, "m")
		_, e4 := c.Acknowledge(ctx, "m", "")
		_, e5 := c.Presence(ctx, "a/b")
		for _, err := range []error{e1, e2, e3, e4, e5, c.Cancel(ctx, "m")} {
			wants(t, err, ma2h.ErrUnauthenticated)
		}
		if len(all) != 7 {
			t.Fatalf("%d requests: a 401 is final", len(all))
		}
		for _, r := range all {
			want := tt.want
			if r.path == "/.well-known/ma2h" {
				want = ""
			}
			if r.header != want {
				t.Errorf("%s carried %q, want %q", r.path, r.header, want)
			}
		}
	}
}

func TestATokenThatCannotBeHadEndsTheCallAndNothingIsSent(t *testing.T) {
	down := errors.New("token service down")
	for name, f := range map[string]func(context.Context) (string, error){
		"an error":       func(context.Context) (string, error) { return "", down },
		"empty":          func(context.Context) (string, error) { return "", nil },
		"a line end":     func(context.Context) (string, error) { return "tok\n", nil },
		"a header in it": func(context.Context) (string, error) { return "tok\r\nX-Evil: 1", nil },
	} {
		s := always(200, `{}`)
		cfg := s.config()
		cfg.Credential = ma2h.BearerFunc(f)
		c := connect(t, cfg)
		_, err1 := c.Notify(t.Context(), ma2h.Notify{Title: "x"})
		_, err2 := c.Wait(t.Context(), "msg_1")
		for _, err := range []error{err1, err2, c.Cancel(t.Context(), "msg_1")} {
			if name == "an error" {
				wants(t, err, down)
			} else {
				wantsField(t, err, "Credential")
			}
			if strings.Contains(fmt.Sprint(err), "tok") && name != "an error" {
				t.Errorf("%s: the token is in %v", name, err)
			}
		}
		if n := s.calls.Load(); n != 0 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}

func TestAWaitAsksForItsTokenAtEachPoll(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		id := mustAsk(t, c, shipOrHold("k"))
		asked := 0
		cfg := hub.Config(asker)
		cfg.Credential = ma2h.BearerFunc(func(context.Context) (string, error) {
			if asked++; asked > 3 {
				return "a token that was taken back", nil
			}
			return hub.Token(asker), nil
		})
		_, err := connect(t, cfg).Wait(t.Context(), id)
		wants(t, err, ma2h.ErrUnauthenticated)
		if asked != 4 {
			t.Errorf("asked for %d tokens", asked)
		}
		hub.RequireRequests(t, ma2htest.Pull, 4)
	})
}
