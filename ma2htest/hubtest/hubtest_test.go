package hubtest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/ma2htest/hubtest"
	"github.com/ma2h/ma2h-go/types"
)

// req: FH-02 FH-03 FH-04 FH-05 FH-06 FH-07 FH-10 FH-11 FH-14
func TestTheFakeHubPasses(t *testing.T) {
	hubtest.Run(t, fake(ma2htest.NewHub(t, ma2htest.Options{Start: start})))
}

// mustPass runs all rows at a target; those named, and no others, are skipped.
func mustPass(t *testing.T, target hubtest.Target, skipped ...string) {
	t.Helper()
	results := hubtest.Observe(t, target, func(string) bool { return true })
	for id, r := range results {
		if r.Failed {
			t.Errorf("%s failed:\n%s", id, r.Text)
		}
		if r.Skipped != slices.Contains(skipped, id) {
			t.Errorf("%s is skipped: %v %s", id, r.Skipped, r.Text)
		}
	}
	if len(results) != len(hubtest.RowIDs()) {
		t.Errorf("%d rows ran", len(results))
	}
}

// A clock that runs is no clock to meet a moment with.
var momentous = []string{"envelope.now", "cancel.intime", "response.time", "expiry.intime", "presence.edge"}

func TestTheFakeHubPassesOverTLSWithAClockThatRuns(t *testing.T) {
	hub := ma2htest.NewHub(t, ma2htest.Options{PathPrefix: "/hub"})
	target := fake(hub)
	target.BaseURL, target.HTTPClient = hub.URL(), hub.Client()
	mustPass(t, target, append([]string{"discovery.earlier", "limits.rate", "limits.depth"}, momentous...)...)
}

func TestTheFakeHubPassesWithLimits(t *testing.T) {
	hub := ma2htest.NewHub(t, ma2htest.Options{Start: start, Capability: func(c *types.Capability) {
		c.RateLimit = &types.RateLimit{RequestsPerMinute: 60, InboxDepth: 30}
	}})
	mustPass(t, fake(hub), "discovery.earlier")
}

// req: VER-05
func TestTheFakeHubPassesAtEachVersion(t *testing.T) {
	var of04 []string
	for _, id := range hubtest.RowIDs() {
		switch group, _, _ := strings.Cut(id, "."); group {
		case "ack", "inbox", "directive", "webhook", "presence":
			of04 = append(of04, id)
		}
	}
	of04 = append(of04, "submit.spelling", "restart.mailbox", "limits.rate", "limits.depth")
	for version, skipped := range map[string][]string{
		"0.3": of04, "0.2": append([]string{"submit.parity", "response.version"}, of04...),
	} {
		hub := ma2htest.NewHub(t, ma2htest.Options{Start: start, Version: version})
		mustPass(t, fake(hub), skipped...)
	}
}

// The least that can be checked says what more there is to be had.
func TestATargetOfOneAgentSkipsTheRestAndSaysWhy(t *testing.T) {
	all := fake(ma2htest.NewHub(t)) // on the real clock, there being no Clock
	results := hubtest.Observe(t, hubtest.Target{BaseURL: all.BaseURL, HTTPClient: all.HTTPClient, Agent: hubtest.Agent{
		ID: agentOne, Credential: all.Agent.Credential,
	}}, func(string) bool { return true })
	ran := 0
	for _, id := range hubtest.RowIDs() {
		r, needs := results[id], hubtest.Needs(id)
		missing := slices.IndexFunc(needs, func(n string) bool { return strings.Contains(n, "Target.") })
		switch {
		case r.Failed:
			t.Errorf("%s failed:\n%s", id, r.Text)
		case missing >= 0 && !r.Skipped:
			t.Errorf("%s ran without %s", id, needs[missing])
		case missing >= 0 && !strings.Contains(r.Text, "needs "):
			t.Errorf("%s was skipped without a reason: %s", id, r.Text)
		case !r.Skipped:
			ran++
		}
	}
	if ran < 40 {
		t.Errorf("only %d rows need nothing but an agent", ran)
	}
}

// Each field that a row needs is enough, with the others, to run it.
func TestWithoutAFieldTheRowsThatNeedItAreSkippedAndNoOthers(t *testing.T) {
	for need, without := range map[string]func(*hubtest.Target){
		"Target.Other":          func(t *hubtest.Target) { t.Other = hubtest.Agent{} },
		"Target.Agent.Second":   func(t *hubtest.Target) { t.Agent.Second = hubtest.Credential{} },
		"Target.Owner":          func(t *hubtest.Target) { t.Owner = hubtest.Credential{} },
		"Target.Held":           func(t *hubtest.Target) { t.Held = nil },
		"Target.Human.Resolve":  func(t *hubtest.Target) { t.Human.Resolve = nil },
		"Target.Human.Withdraw": func(t *hubtest.Target) { t.Human.Withdraw = nil },
		"Target.Human.Delete":   func(t *hubtest.Target) { t.Human.Delete = nil },
		"Target.Human.Direct":   func(t *hubtest.Target) { t.Human.Direct = nil },
		"Target.Human.PushAck":  func(t *hubtest.Target) { t.Human.PushAck = nil },
		"Target.Callback":       func(t *hubtest.Target) { t.Callback = nil },
		"Target.Webhook":        func(t *hubtest.Target) { t.Webhook = nil },
		"Target.DirectiveKeys":  func(t *hubtest.Target) { t.DirectiveKeys = nil },
		"Target.AckKeys":        func(t *hubtest.Target) { t.AckKeys = nil },
		"Target.Restart":        func(t *hubtest.Target) { t.Restart = nil },
		"Target.Clock":          func(t *hubtest.Target) { t.Clock = nil },
	} {
		t.Run(need, func(t *testing.T) {
			options := ma2htest.Options{Start: start}
			if need == "Target.Clock" {
				options.Start = time.Time{} // the Hub's is the real one
			}
			target := fake(ma2htest.NewHub(t, options))
			without(&target)
			skipped := []string{"discovery.earlier", "limits.rate", "limits.depth"}
			for _, id := range hubtest.RowIDs() {
				if slices.ContainsFunc(hubtest.Needs(id), func(n string) bool {
					return n == need || need == "Target.Clock" && strings.Contains(n, need)
				}) {
					skipped = append(skipped, id)
				}
			}
			mustPass(t, target, skipped...)
		})
	}
}

func TestACallbackSchemeThatTheTargetDoesNotDoSkipsTheRow(t *testing.T) {
	target := fake(ma2htest.NewHub(t, ma2htest.Options{Start: start}))
	next := target.Callback
	target.Callback = func(ctx context.Context, scheme string, h http.Handler) (hubtest.Callback, error) {
		if scheme != "" {
			return hubtest.Callback{}, fmt.Errorf("no scheme here: %w", errors.ErrUnsupported)
		}
		return next(ctx, scheme, h)
	}
	mustPass(t, target, "discovery.earlier", "limits.rate", "limits.depth", "push.schemes")
}

func TestAnExemptRowIsSkippedWithItsReason(t *testing.T) {
	b := newBench(t, ma2htest.Options{})
	withoutQuery("since")(b)
	b.target.Exempt = map[string]string{"pull.since.unchanged": "we keep no time of the last change"}
	r := hubtest.Observe(t, b.target, func(id string) bool { return strings.HasPrefix(id, "pull.since") })
	if got := r["pull.since.unchanged"]; !got.Skipped || got.Failed || !strings.Contains(got.Text, "we keep no time of the last change") {
		t.Errorf("%+v", got)
	}
	if got := r["pull.since.news"]; got.Skipped || got.Failed {
		t.Errorf("%+v", got)
	}
}

func TestATargetThatMakesNoSenseIsRefused(t *testing.T) {
	good := fake(ma2htest.NewHub(t, ma2htest.Options{Start: start}))
	if err := hubtest.Refuses(t, good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*hubtest.Target){
		"BaseURL":   func(t *hubtest.Target) { t.BaseURL = "hub.example" },
		"a slash":   func(t *hubtest.Target) { t.BaseURL += "/" },
		"Agent":     func(t *hubtest.Target) { t.Agent.ID = "" },
		"Cred":      func(t *hubtest.Target) { t.Agent.Credential = hubtest.Credential{} },
		"Agent has": func(t *hubtest.Target) { t.Agent.Credential = hubtest.Bearer("") },
		"Other":     func(t *hubtest.Target) { t.Other.ID = t.Agent.ID },
		"Patience":  func(t *hubtest.Target) { t.Patience = -1 },
		"no.row":    func(t *hubtest.Target) { t.Exempt = map[string]string{"no.row": "because"} },
		"key.day":   func(t *hubtest.Target) { t.Exempt = map[string]string{"key.day": ""} },
	} {
		target := good
		change(&target)
		if err := hubtest.Refuses(t, target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestTheRowsAreSentencesWithASectionAndAnID(t *testing.T) {
	ids, names := hubtest.RowIDs(), hubtest.RowNames()
	// It moves with the rows, so that none gets lost unseen.
	if len(ids) != 152 {
		t.Errorf("%d rows", len(ids))
	}
	id, name := regexp.MustCompile(`^[a-z0-9]+(\.[a-z0-9_]+)+$`), regexp.MustCompile(`^§[0-9]+(\.[0-9]+)?/[a-z].*[^.]$`)
	for i := range ids {
		if !id.MatchString(ids[i]) || !name.MatchString(names[i]) {
			t.Errorf("%s: %s", ids[i], names[i])
		}
		if slices.Index(ids, ids[i]) != i || slices.Index(names, names[i]) != i {
			t.Errorf("%s is there twice", ids[i])
		}
	}
}

func TestAFailureSaysTheSectionWhatWasSentWhatCameAndWhatIsWanted(t *testing.T) {
	b := newBench(t, ma2htest.Options{Seed: 1})
	answers(ma2htest.Cancel, func(r *http.Request, a *answer) {
		if a.status == 404 {
			a.status, a.doc = 200, doc{"status": "cancelled"}
		}
	})(b)
	got := hubtest.Observe(t, b.target, func(id string) bool { return id == "cancel.unknown" })["cancel.unknown"].Text
	got = regexp.MustCompile(`msg_hubtest-[a-z0-9-]+`).ReplaceAllString(got, "msg_x")
	want := `§8.4, row cancel.unknown: a cancel of an unknown id is 404
	sent: POST /v1/messages/msg_x/cancel
	came: 200 {"status":"cancelled"}
	want: 404 not_found in an error envelope (§8.5)
`
	if strings.ReplaceAll(got, "}\n\n", "}\n") != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A Hub that shows in its answers whatever it was sent, credentials too, and
// human acts that fail with one in the error.
//
// req: TEL-01
func TestNoFailureShowsACredential(t *testing.T) {
	b := newBench(t, ma2htest.Options{})
	serves(func(_ *bench, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		a := &answer{status: 500, header: jsonHeader(), doc: doc{"error": doc{"code": "oops", "message": fmt.Sprint(r.Header)}}}
		a.write(w)
	})(b)
	tokens := []string{b.hub.Token(agentOne), b.hub.Token(agentTwo), b.hub.APIKey(agentOne), b.hub.OwnerToken()}
	b.target.Human.Direct = func(context.Context, hubtest.Directive) (string, error) {
		return "", errors.New("no: " + strings.Join(tokens, " "))
	}
	results := hubtest.Observe(t, b.target, func(string) bool { return true })
	shown := 0
	for id, r := range results {
		for _, token := range tokens {
			if strings.Contains(r.Text, token) {
				t.Errorf("%s shows a credential", id)
			}
		}
		shown += strings.Count(r.Text, "[credential]")
	}
	if shown == 0 {
		t.Error("no failure would have shown one")
	}
	for _, secret := range []any{
		b.target, &b.target, b.target.Agent, hubtest.HMACKey([]byte("the-secret-of-a-key")), hubtest.Bearer("the-secret-of-a-key"),
		[]hubtest.Key{hubtest.HMACKey([]byte("the-secret-of-a-key"))}, hubtest.HeaderCredential("X-Key", "the-secret-of-a-key"),
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, secret)
			for _, token := range append([]string{"the-secret-of-a-key", fmt.Sprintf("%x", "the-secret-of-a-key")}, tokens...) {
				if strings.Contains(text, token) {
					t.Errorf("%s of a %T shows a secret", verb, secret)
				}
			}
		}
	}
}
