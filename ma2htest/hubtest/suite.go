package hubtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Run checks a Hub. Each row is a subtest whose name is the section of the
// specification and a sentence; a failure says what was sent, what came and what
// the text wants, without any credential. A Target that makes no sense ends the
// test. The rows run one after another.
func Run(t *testing.T, target Target) {
	t.Helper()
	s, err := newSuite(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range allRows() {
		t.Run(r.name(), func(t *testing.T) { s.run(t, r) })
	}
}

// row is one duty of a Hub.
type row struct {
	id      string // stable, for Target.Exempt
	section string
	says    string
	needs   []need
	check   func(*probe)
}

func (r row) name() string { return r.section + "/" + r.says }

// allRows is the suite, in the order in which it runs.
func allRows() []row {
	var all []row
	for _, group := range [][]row{
		discoveryRows, authRows, submitRows, envelopeRows, limitRows, keyRows, pullRows, holdRows, cancelRows,
		resolveRows, responseRows, expiryRows, receiptRows, mailboxRows, directiveRows, pushRows, retryRows, webhookRows,
		presenceRows, restartRows,
	} {
		all = append(all, group...)
	}
	return all
}

// need is what a row cannot do without.
type need struct {
	what string
	met  func(*suite) bool
}

var (
	needHTTPS      = need{"a BaseURL of https", func(s *suite) bool { return strings.HasPrefix(s.t.BaseURL, "https:") }}
	needOther      = need{"Target.Other", func(s *suite) bool { return s.t.Other.ID != "" }}
	needSecond     = need{"Target.Agent.Second", func(s *suite) bool { return !s.t.Agent.Second.isZero() }}
	needOwner      = need{"Target.Owner", func(s *suite) bool { return !s.t.Owner.isZero() }}
	needClock      = need{"Target.Clock", func(s *suite) bool { return s.t.Clock != nil }}
	needStandstill = need{"a Target.Clock that only Advance moves", func(s *suite) bool { return s.stands }}
	needHeld       = need{"Target.Held", func(s *suite) bool { return s.t.Held != nil }}
	needResolve    = need{"Target.Human.Resolve", func(s *suite) bool { return s.t.Human.Resolve != nil }}
	needWithdraw   = need{"Target.Human.Withdraw", func(s *suite) bool { return s.t.Human.Withdraw != nil }}
	needDelete     = need{"Target.Human.Delete", func(s *suite) bool { return s.t.Human.Delete != nil }}
	needDirect     = need{"Target.Human.Direct", func(s *suite) bool { return s.t.Human.Direct != nil }}
	needCallback   = need{"Target.Callback", func(s *suite) bool { return s.t.Callback != nil }}
	needWebhook    = need{"Target.Webhook", func(s *suite) bool { return s.t.Webhook != nil }}
	needPushAck    = need{"Target.Human.PushAck", func(s *suite) bool { return s.t.Human.PushAck != nil }}
	needAckKeys    = need{"Target.AckKeys", func(s *suite) bool { return len(s.t.AckKeys) > 0 }}
	needKeys       = need{"Target.DirectiveKeys", func(s *suite) bool { return len(s.t.DirectiveKeys) > 0 }}
	needRestart    = need{"Target.Restart", func(s *suite) bool { return s.t.Restart != nil }}

	need03       = need{"a Hub of 0.3 or later", func(s *suite) bool { return s.minor >= 3 }}
	need04       = need{"a Hub of 0.4 or later", func(s *suite) bool { return s.minor >= 4 }}
	needBefore04 = need{"a Hub before 0.4", func(s *suite) bool { return s.minor < 4 }}
	needInbound  = need{"a Hub that offers inbound (§8.0)", func(s *suite) bool { return s.doc.flag("inbound", "enabled") }}
	needAck      = need{"a Hub that offers ack (§8.0)", func(s *suite) bool { return s.doc.flag("ack", "enabled") }}
	needPresence = need{"a Hub that offers presence (§8.0)", func(s *suite) bool { return s.doc.flag("presence", "enabled") }}
)

// suite is one run.
type suite struct {
	t      Target
	doc    object // the capability document; nil if there is none to read
	minor  int    // of the Hub; 4 if it does not say
	stands bool   // the clock does
	prefix string // of every idempotency key
	count  atomic.Int64
	redact *strings.Replacer
}

func newSuite(ctx context.Context, t Target) (*suite, error) {
	t, err := t.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &suite{t: t, prefix: "hubtest-" + strings.ToLower(rand.Text()[:12])}
	var hide []string
	for _, c := range []Credential{t.Agent.Credential, t.Agent.Second, t.Other.Credential, t.Other.Second, t.Owner} {
		if !c.isZero() {
			hide = append(hide, c.secret(), "[credential]")
		}
	}
	s.redact = strings.NewReplacer(hide...)
	if t.Clock != nil {
		s.stands = t.Clock.Now().Equal(t.Clock.Now())
	}
	// What cannot be read here fails the first row.
	if doc, err := s.try(ctx, Credential{}, "GET", discovery, nil); err == nil && doc.status == 200 {
		s.doc = doc.json
	}
	if s.minor = minor(s.doc.str("ma2h_version")); s.minor < 0 {
		s.minor = 4
	}
	return s, nil
}

// reporter is what a row reports to: a *testing.T.
type reporter interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

func (s *suite) run(r reporter, row row) {
	r.Helper()
	if reason, ok := s.t.Exempt[row.id]; ok {
		r.Skipf("[%s] exempt: %s", row.id, reason)
	}
	for _, n := range row.needs {
		if !n.met(s) {
			r.Skipf("[%s] needs %s", row.id, n.what)
		}
	}
	p := &probe{suite: s, r: r, row: row}
	defer p.tidy()
	s.makeRoom()
	row.check(p)
}

// makeRoom lets a minute pass where the Hub limits a minute's requests, so that
// no row pays for the one before.
func (s *suite) makeRoom() {
	if n, ok := s.doc.whole("rate_limit", "requests_per_minute"); ok && n > 0 && s.t.Clock != nil {
		s.t.Clock.Advance(time.Minute + time.Second)
	}
}

// now is the time on the Hub's clock.
func (s *suite) now() time.Time {
	if s.t.Clock != nil {
		return s.t.Clock.Now()
	}
	return time.Now()
}

// version is what envelopes are sent at: the lowest minor that has all that is
// asked of it.
func (s *suite) version() string { return fmt.Sprintf("0.%d", min(s.minor, 3)) }

func (s *suite) key() string { return fmt.Sprintf("%s-%d", s.prefix, s.count.Add(1)) }

// url is where path is, or path itself if it is a URL of the Hub's origin.
func (s *suite) url(path string) (string, bool) {
	if strings.HasPrefix(path, "/") {
		return s.t.BaseURL + path, true
	}
	return path, sameOrigin(path, s.t.BaseURL)
}

func sameOrigin(a, b string) bool {
	x, errA := url.Parse(a)
	y, errB := url.Parse(b)
	return errA == nil && errB == nil && x.Scheme == y.Scheme && x.Host == y.Host && x.User == nil
}
