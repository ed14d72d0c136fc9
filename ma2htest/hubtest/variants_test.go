package hubtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/ma2htest/hubtest"
)

// The text leaves choices. A Hub that makes another one than the fake passes all
// the same.
func TestAHubThatIsRightInAnotherWayPasses(t *testing.T) {
	for _, variant := range []struct {
		name    string
		options ma2htest.Options
		with    func(*bench)
		skips   string
	}{
		{name: "Retry-After is a date", options: limited(60, 0), skips: "limits.depth", with: serves(func(b *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
			a := ask(next, r)
			if seconds := a.header.Get("Retry-After"); seconds != "" {
				d, err := time.ParseDuration(seconds + "s")
				if err != nil {
					t.Error(err)
				}
				a.header.Set("Retry-After", b.hub.Now().Add(d).Format(http.TimeFormat))
			}
			a.write(w)
		})},
		{name: "the document says no more than what is offered", skips: "limits.body limits.parts limits.part limits.rate limits.depth pull.retention inbox.retention presence.offline presence.drain presence.edge",
			with: says(ma2htest.Discover, 200, func(d doc) {
				for name := range d {
					if name != "ma2h_version" {
						delete(d, name)
					}
				}
				for _, name := range []string{"inbound", "ack", "presence"} {
					d[name] = doc{"enabled": true}
				}
			})},
		{name: "answers have more members than the text", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
			a := ask(next, r)
			if a.doc != nil {
				a.doc["x_more"] = doc{"a": []any{1}}
			}
			if e := inner(a.doc, "error"); e != nil {
				e["x_more"] = true
			}
			a.write(w)
		})},
		{name: "types of media have parameters", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
			a := ask(next, r)
			if a.header.Get("Content-Type") != "" {
				a.header.Set("Content-Type", "Application/JSON; charset=utf-8")
			}
			a.write(w)
		})},
		{name: "poll_url is at another host", skips: "submit.poll_url", with: says(ma2htest.Submit, 202, func(d doc) {
			d["poll_url"] = strings.Replace(text(d["poll_url"]), "hub.test", "other.test", 1)
		})},
		{name: "a lost cancel tells in the details of its error", with: answers(ma2htest.Cancel, func(_ *http.Request, a *answer) {
			if a.status == 409 {
				d := doc{}
				for _, name := range []string{"id", "status", "resolution"} {
					d[name] = a.doc[name]
					delete(a.doc, name)
				}
				inner(a.doc, "error")["details"] = d
			}
		})},
		{name: "a cancel of an overdue ask is 200 and says expired", with: answers(ma2htest.Cancel, func(_ *http.Request, a *answer) {
			if a.doc["status"] == "expired" {
				a.status = 200
			}
		})},
		{name: "an acknowledgment of another resolution is refused", with: serves(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
			if is(r, ma2htest.Ack) && submitted(r)["resolution_id"] == "res_other" {
				refusal(422, "invalid_field").write(w)
				return
			}
			next.ServeHTTP(w, r)
		})},
		{name: "the run does not count for the payload", with: takes(func(_ *bench, e doc) {
			if a := inner(e, "agent"); a != nil && text(e["title"]) == "hubtest key.run" {
				a["run_id"] = "run_one"
			}
		})},
		{name: "no long-poll is held, which a Target without Held does not see", skips: "hold.timeout hold.cap expiry.hold inbox.hold.timeout", with: func(b *bench) {
			withoutQuery("wait")(b)
			b.target.Held = nil
			b.target.Owner = hubtest.Credential{}
		}},
		{name: "an envelope that breaks the shape is 422", with: answers(ma2htest.Submit, func(r *http.Request, a *answer) {
			if m := text(inner(a.doc, "error")["message"]); a.status == 400 && strings.Contains(m, "priority") {
				a.status, inner(a.doc, "error")["code"] = 422, "invalid_field"
			}
		})},
		{name: "an acknowledgment counts nothing", with: says(ma2htest.InboxAck, 200, func(d doc) { d["acked"] = 0 })},
		{name: "a webhook has the form of an entry", with: pushes(func(_ *bench, w http.ResponseWriter, r *http.Request, next http.Handler) {
			body, _ := io.ReadAll(r.Body)
			if d := decode(body); d["type"] == "directive" {
				body = encode(doc{"directive": d, "signature": "MA2H-Signature: " + r.Header.Get("MA2H-Signature")})
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		})},
		{name: "a signature is padded, and an entry's has no name", with: entries(func(row doc) {
			row["signature"] = strings.TrimPrefix(text(row["signature"]), "MA2H-Signature: ") + "="
		})},
		{name: "a push says defaulted false and state null", with: func(b *bench) {
			add := func(d doc) {
				if d == nil {
					return
				}
				if d["defaulted"] == nil {
					d["defaulted"] = false
				}
				if d["state"] == nil {
					d["state"] = nil
				}
			}
			pushed(func(d doc) {
				if d["in_reply_to"] != nil && d["type"] == nil {
					add(d)
				}
			})(b)
			reads(func(m doc) { add(inner(m, "response")) })(b)
		}},
	} {
		t.Run(variant.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, variant.options)
			b.target.Patience = time.Minute
			variant.with(b)
			skipped := append(strings.Fields(variant.skips), "discovery.earlier")
			if variant.options.Capability == nil {
				skipped = append(skipped, "limits.rate", "limits.depth")
			}
			if b.target.Owner == (hubtest.Credential{}) {
				for _, id := range hubtest.RowIDs() {
					if slices.Contains(hubtest.Needs(id), "Target.Owner") {
						skipped = append(skipped, id)
					}
				}
			}
			mustPass(t, b.target, skipped...)
		})
	}
}

// A target whose functions fail has no answer to be held to.
func TestAFunctionOfTheTargetThatFailsFailsItsRows(t *testing.T) {
	no := errors.New("no")
	b := newBench(t, ma2htest.Options{})
	b.target.Human.Resolve = func(context.Context, hubtest.Resolution) error { return no }
	b.target.Human.Withdraw = func(context.Context, string) error { return no }
	b.target.Human.Delete = func(context.Context, string) error { return no }
	b.target.Human.Direct = func(context.Context, hubtest.Directive) (string, error) { return "", no }
	b.target.Callback = func(context.Context, string, http.Handler) (hubtest.Callback, error) { return hubtest.Callback{}, no }
	b.target.Restart = func(context.Context) error { return no }
	b.target.Held = func(context.Context, string, string) error { return no }
	results := hubtest.Observe(t, b.target, func(string) bool { return true })
	// Rows that are about a refusal, or about what is no use of theirs.
	refusals := []string{"resolve.options", "resolve.schema", "resolve.verb", "resolve.notify", "resolve.listed", "resolve.unlisted", "cancel.race", "expiry.late"}
	for _, id := range hubtest.RowIDs() {
		calls := slices.ContainsFunc(hubtest.Needs(id), func(n string) bool {
			return strings.HasPrefix(n, "Target.Human.") || n == "Target.Callback" || n == "Target.Restart" || n == "Target.Held"
		}) || id == "hold.cancel" || id == "inbox.hold"
		if r := results[id]; r.Failed != (calls && !slices.Contains(refusals, id)) {
			t.Errorf("%s failed: %v, skipped: %v\n%s", id, r.Failed, r.Skipped, r.Text)
		}
	}
	for what, target := range map[string]func(*hubtest.Target){
		"PushAck": func(t *hubtest.Target) {
			t.Human.PushAck = func(context.Context, string, http.Handler) error { return no }
		},
		"Webhook": func(t *hubtest.Target) {
			t.Webhook = func(context.Context, http.Handler) (func(), error) { return nil, no }
		},
	} {
		b := newBench(t, ma2htest.Options{})
		target(&b.target)
		results := hubtest.Observe(t, b.target, func(id string) bool { return slices.Contains(hubtest.Needs(id), "Target."+what) || id == "ack.pushed" })
		if got := failed(results); len(got) != 1 || !strings.Contains(results[got[0]].Text, what) {
			t.Errorf("%s: %v", what, results)
		}
	}
}

// A Hub that is not there fails all rows, and none of them hangs.
func TestAHubThatDoesNotAnswerFailsEveryRow(t *testing.T) {
	b := newBench(t, ma2htest.Options{})
	b.target.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("nobody at %s", r.URL.Host)
	})}
	for id, r := range hubtest.Observe(t, b.target, func(string) bool { return true }) {
		if !r.Failed && !r.Skipped && id != "transport.tls" {
			t.Errorf("%s passed", id)
		}
	}
}

// Neither a redirect nor a URL of the Hub's document leads the suite and its
// credentials elsewhere.
func TestCredentialsGoToTheHubOnly(t *testing.T) {
	b := newBench(t, ma2htest.Options{})
	answers(ma2htest.Pull, func(_ *http.Request, a *answer) {
		a.status = http.StatusTemporaryRedirect
		a.header.Set("Location", "https://elsewhere.test/")
	})(b)
	inner := b.serve
	b.serve = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if is(r, ma2htest.Discover) {
			a := ask(next, r)
			in := a.doc["inbound"].(doc)
			in["poll_url"], in["ack_url"] = "https://elsewhere.test/v1/inbox", "http://hub.test/v1/inbox/ack"
			a.write(w)
			return
		}
		inner(w, r, next)
	}
	var mu sync.Mutex
	hosts := make(map[string]int)
	b.target.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		if r.Header.Get("Authorization")+r.Header.Get("X-Api-Key") != "" {
			hosts[r.URL.Scheme+"://"+r.URL.Host]++
		}
		mu.Unlock()
		return b.RoundTrip(r)
	})}
	results := hubtest.Observe(t, b.target, func(string) bool { return true })
	if len(hosts) != 1 || hosts["https://hub.test"] == 0 {
		t.Errorf("credentials went to %v", hosts)
	}
	if r := results["pull.message"]; !r.Failed {
		t.Error("a redirect passes for a message")
	}
	if r := results["inbox.order"]; r.Failed || r.Skipped {
		t.Errorf("the mailbox of the Hub was not found: %+v", r)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
