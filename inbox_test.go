package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// mail is an agent and its mailbox at a fake Hub, in a bubble.
type mail struct {
	t     *testing.T
	hub   *ma2htest.Hub
	store *spyStore
	log   *syncBuffer
	inbox *ma2h.Inbox

	mu       sync.Mutex
	acted    []string         // titles, in order
	failing  map[string]error // by title
	slow     time.Duration    // how long an act takes
	rejected []*ma2h.RejectedError
	buried   []string
	burials  []error
}

// mailSetup is what a test changes.
type mailSetup struct {
	hub    ma2htest.Options
	agent  string
	client func(*ma2h.Config)
	keys   func(*ma2htest.Hub) ma2h.KeyRing
	wire   func(http.RoundTripper) http.RoundTripper
}

func withMail(t *testing.T, s mailSetup, f func(t *testing.T, m *mail)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &mail{t: t, hub: ma2htest.NewHub(t, s.hub), store: newSpyStore(t, time.Now), failing: make(map[string]error)}
		m.restart(s)
		f(t, m)
	})
}

// restart is a new process of the agent, on the same stores.
func (m *mail) restart(s mailSetup) {
	m.t.Helper()
	if s.agent == "" {
		s.agent = asker
	}
	m.log = &syncBuffer{}
	cfg := m.hub.Config(s.agent)
	cfg.Logger = slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if s.client != nil {
		s.client(&cfg)
	}
	if s.wire != nil {
		cfg.HTTPClient = &http.Client{Transport: s.wire(m.hub.Transport())}
	}
	keys := ma2h.Keys(ma2h.HMACKey(m.hub.SigningSecret()))
	if s.keys != nil {
		keys = s.keys(m.hub)
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{DirectiveKeys: keys, AgentID: s.agent, Replay: m.store})
	mustNot(m.t, err)
	m.inbox, err = ma2h.NewInbox(ma2h.InboxConfig{Client: connect(m.t, cfg), Verifier: verifier, Ledger: m.store})
	mustNot(m.t, err)
}

func (m *mail) send(titles ...string) (ids []string) {
	m.t.Helper()
	for _, title := range titles {
		ids = append(ids, m.sendDraft(ma2htest.DirectiveDraft{From: alice, Title: title}))
	}
	return ids
}

func (m *mail) sendDraft(d ma2htest.DirectiveDraft) string {
	m.t.Helper()
	id, err := m.hub.SendDirective(asker, d)
	mustNot(m.t, err)
	return id
}

func (m *mail) handle(ctx context.Context, d *ma2h.Directive) error {
	if m.slow > 0 {
		select {
		case <-time.After(m.slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failing[d.Title()]; err != nil {
		return err
	}
	m.acted = append(m.acted, d.Title())
	return nil
}

func (m *mail) options(edits ...func(*ma2h.ConsumeOptions)) ma2h.ConsumeOptions {
	opts := ma2h.ConsumeOptions{
		Authorize: ma2h.AllowFrom(alice),
		OnReject: func(_ context.Context, r *ma2h.RejectedError) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.rejected = append(m.rejected, r)
			return nil
		},
		DeadLetter: func(_ context.Context, d *ma2h.Directive, err error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.buried, m.burials = append(m.buried, d.Title()), append(m.burials, err)
		},
	}
	for _, edit := range edits {
		edit(&opts)
	}
	return opts
}

// consume runs for so long.
func (m *mail) consume(d time.Duration, edits ...func(*ma2h.ConsumeOptions)) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), d)
	defer cancel()
	wants(m.t, m.inbox.Consume(ctx, m.handle, m.options(edits...)), context.DeadlineExceeded)
}

func (m *mail) wantActed(titles ...string) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.acted, titles) {
		m.t.Fatalf("acted on %q, want %q", m.acted, titles)
	}
}

func (m *mail) wantBuried(titles ...string) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.buried, titles) {
		m.t.Fatalf("given up on %q for %v, want %q", m.buried, m.burials, titles)
	}
}

func (m *mail) deliveries(id string) int {
	d, _ := m.hub.Directive(id)
	return len(d.Deliveries)
}

// queries are those of the drains so far.
func (m *mail) queries() (out []string) {
	for _, r := range m.hub.Requests() {
		if r.Endpoint == ma2htest.Drain {
			out = append(out, r.Query)
		}
	}
	return out
}

// acks are the ids of each acknowledgment that the Hub saw.
func (m *mail) acks() (out [][]string) {
	m.t.Helper()
	for _, r := range m.hub.Requests() {
		if r.Endpoint == ma2htest.InboxAck {
			var req types.InboxAckRequest
			mustNot(m.t, types.Decode(r.Body, &req))
			out = append(out, req.IDs)
		}
	}
	return out
}

// mailOf is an Inbox whose Hub gives exactly these rows, again and again, after
// the capability document. The keys are those of hubSigner.
func mailOf(t *testing.T, rows ...string) (*ma2h.Inbox, *stub) {
	t.Helper()
	caps := `{"ma2h_version":"0.4","inbound":{"enabled":true}}`
	s := always(200, `{"messages":[`+strings.Join(rows, ",")+`]}`)
	wire := roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/ma2h") {
			return canned(200, caps), nil
		}
		return s.RoundTrip(r)
	})
	return mailOver(t, wire, trustAgent), s
}

func mailOver(t *testing.T, wire http.RoundTripper, agent string) *ma2h.Inbox {
	t.Helper()
	cfg := over(wire)
	cfg.Agent.ID = agent
	store := newSpyStore(t, time.Now)
	v, err := ma2h.NewVerifier(ma2h.VerifierConfig{DirectiveKeys: ma2h.Keys(ma2h.HMACKey(trustSecret)), AgentID: agent, Replay: store})
	mustNot(t, err)
	in, err := ma2h.NewInbox(ma2h.InboxConfig{Client: connect(t, cfg), Verifier: v, Ledger: store})
	mustNot(t, err)
	return in
}

// signedRow is a row that verifies now.
func signedRow(t *testing.T, directive, jti string) string {
	t.Helper()
	return `{"directive":` + directive + `,"signature":"MA2H-Signature: ` + hubSigner{}.value(t, "directive", directive, time.Now().Unix(), jti) + `"}`
}

// onlyRejection wants one rejection in what a drain returned.
func onlyRejection(t *testing.T, err error) *ma2h.RejectedError {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 1 {
		t.Fatalf("not one rejection: %v", err)
	}
	r, ok := errors.AsType[*ma2h.RejectedError](err)
	if !ok {
		t.Fatalf("no rejection: %v", err)
	}
	return r
}

func TestAnInboxRefusesABadConfiguration(t *testing.T) {
	hub := ma2htest.NewHub(t)
	memory, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	mustNot(t, err)
	durable := newSpyStore(t, time.Now)
	verifier := func(edits ...func(*ma2h.VerifierConfig)) *ma2h.Verifier {
		cfg := ma2h.VerifierConfig{DirectiveKeys: ma2h.Keys(ma2h.HMACKey(trustSecret)), AgentID: asker, Replay: durable}
		for _, edit := range edits {
			edit(&cfg)
		}
		v, err := ma2h.NewVerifier(cfg)
		mustNot(t, err)
		return v
	}
	for name, row := range map[string]struct {
		edit  func(*ma2h.InboxConfig)
		field string // none: it is accepted
	}{
		"as it is":     {func(*ma2h.InboxConfig) {}, ""},
		"no client":    {func(c *ma2h.InboxConfig) { c.Client = nil }, "InboxConfig.Client"},
		"no verifier":  {func(c *ma2h.InboxConfig) { c.Verifier = nil }, "InboxConfig.Verifier"},
		"other agent":  {func(c *ma2h.InboxConfig) { c.Client = connect(t, hub.Config("other/bot")) }, "InboxConfig.Verifier"},
		"one delivery": {func(c *ma2h.InboxConfig) { c.Verifier = c.Verifier.ReceivedAt(time.Now()) }, "InboxConfig.Verifier"},
		"other purpose": {func(c *ma2h.InboxConfig) {
			c.Verifier = verifier(func(v *ma2h.VerifierConfig) { v.AckKeys, v.DirectiveKeys = v.DirectiveKeys, ma2h.KeyRing{} })
		}, "InboxConfig.Verifier"},
		"ledger in memory":          {func(c *ma2h.InboxConfig) { c.Ledger = memory }, "InboxConfig.Ledger"},
		"replay in memory":          {func(c *ma2h.InboxConfig) { c.Verifier = verifier(func(v *ma2h.VerifierConfig) { v.Replay = memory }) }, "InboxConfig.Ledger"},
		"in memory, of one process": {func(c *ma2h.InboxConfig) { c.Ledger, c.SingleReplica = memory, true }, ""},
		"replay in memory, to drain by hand": {func(c *ma2h.InboxConfig) {
			c.Ledger, c.Verifier = nil, verifier(func(v *ma2h.VerifierConfig) { v.Replay = memory })
		}, ""},
	} {
		cfg := ma2h.InboxConfig{Client: connect(t, hub.Config(asker)), Verifier: verifier(), Ledger: durable}
		row.edit(&cfg)
		in, err := ma2h.NewInbox(cfg)
		if row.field == "" {
			if err != nil || in == nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if field, ok := errors.AsType[*ma2h.FieldError](err); !ok || field.Field != row.field || in != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	hub.RequireRequests(t, "", 0)
}

// req: INB-01 INB-04 DISC-02 DISC-05
func TestADrainAsksForWhatTheCapabilityDocumentAllows(t *testing.T) {
	for name, row := range map[string]struct {
		batch int64
		opts  ma2h.DrainOptions
		want  string
	}{
		"the Hub's most":       {7, ma2h.DrainOptions{}, "max=7"},
		"fewer":                {7, ma2h.DrainOptions{Max: 3}, "max=3"},
		"exactly":              {7, ma2h.DrainOptions{Max: 7}, "max=7"},
		"more than allowed":    {7, ma2h.DrainOptions{Max: 8}, "max=7"},
		"the Hub does not say": {0, ma2h.DrainOptions{}, "max=32"},
		"more than is read":    {5000, ma2h.DrainOptions{}, "max=1000"},
		"held":                 {7, ma2h.DrainOptions{Wait: 20 * time.Second}, "max=7&wait=20"},
		"held as long as may":  {7, ma2h.DrainOptions{Wait: time.Minute}, "max=7&wait=60"},
		"below a second":       {7, ma2h.DrainOptions{Wait: 999 * time.Millisecond}, "max=7"},
		"held for a second":    {7, ma2h.DrainOptions{Wait: time.Second}, "max=7&wait=1"},
	} {
		withMail(t, mailSetup{hub: ma2htest.Options{Capability: func(c *types.Capability) { c.Inbound.MaxBatch = row.batch }}}, func(t *testing.T, m *mail) {
			begin := time.Now()
			entries, err := m.inbox.Drain(t.Context(), row.opts)
			if got := m.queries(); err != nil || len(entries) != 0 || !slices.Equal(got, []string{row.want}) {
				t.Errorf("%s: asked %q, got %d entries, %v", name, got, len(entries), err)
			}
			if took := time.Since(begin); took != row.opts.Wait.Truncate(time.Second) {
				t.Errorf("%s: took %s", name, took)
			}
		})
	}
	for name, row := range map[string]struct {
		opts  ma2h.DrainOptions
		field string
	}{
		"a negative number": {ma2h.DrainOptions{Max: -1}, "DrainOptions.Max"},
		"a negative wait":   {ma2h.DrainOptions{Wait: -1}, "DrainOptions.Wait"},
		"over 60 s":         {ma2h.DrainOptions{Wait: time.Minute + 1}, "DrainOptions.Wait"},
	} {
		withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
			m.send("pause deploys")
			entries, err := m.inbox.Drain(t.Context(), row.opts)
			if len(entries) != 0 {
				t.Errorf("%s: %d entries", name, len(entries))
			}
			wantsField(t, err, row.field)
			m.hub.RequireRequests(t, "", 0)
		})
	}
}

// req: INB-01 DISC-02 DISC-05
func TestTheMailboxIsWhereTheCapabilityDocumentSaysAndNeverElsewhere(t *testing.T) {
	const own = "https://hub.test"
	for name, row := range map[string]struct {
		poll, ack string
		ok        bool
	}{
		"not said":         {"", "", true},
		"own":              {own + "/v1/inbox", own + "/v1/inbox/ack", true},
		"with a query":     {own + "/v1/inbox?box=7", own + "/v1/inbox/ack?box=7", true},
		"another host":     {"https://evil.test/v1/inbox", "", false},
		"another ack host": {"", "https://evil.test/v1/inbox/ack", false},
		"another port":     {own + ":444/v1/inbox", "", false},
		"no TLS":           {"http://hub.test/v1/inbox", "", false},
		"a user":           {"https://alice@hub.test/v1/inbox", "", false},
		"a host in a user": {"https://hub.test@evil.test/v1/inbox", "", false},
	} {
		setup := mailSetup{hub: ma2htest.Options{Capability: func(c *types.Capability) { c.Inbound.PollURL, c.Inbound.AckURL = row.poll, row.ack }}}
		withMail(t, setup, func(t *testing.T, m *mail) {
			m.send("pause deploys")
			if row.ok {
				m.consume(time.Minute)
				m.wantActed("pause deploys")
				asked := m.queries()[0]
				if strings.Contains(row.poll, "box=7") != strings.HasPrefix(asked, "box=7&max=") {
					t.Errorf("%s: asked %q", name, asked)
				}
				if n := len(m.acks()); n != 1 {
					t.Errorf("%s: %d acknowledgments", name, n)
				}
				return
			}
			_, err := m.inbox.Drain(t.Context(), ma2h.DrainOptions{})
			wants(t, err, ma2h.ErrProtocol)
			wants(t, m.inbox.Ack(t.Context(), []string{"dir_1"}, ""), ma2h.ErrProtocol)
			wants(t, m.inbox.Consume(t.Context(), m.handle, m.options()), ma2h.ErrProtocol)
			m.wantActed()
			m.hub.RequireRequests(t, "", 1) // the document
		})
	}
}

// req: DISC-02 INB-20 DISC-05
func TestWhatIsDrainedLapsesWhenTheHubSays(t *testing.T) {
	for said, want := range map[int64]time.Duration{0: time.Minute, 5: 5 * time.Second, 3600: time.Hour, 86400: 24 * time.Hour, 86401: 24 * time.Hour, 1<<53 - 1: 24 * time.Hour} {
		withMail(t, mailSetup{hub: ma2htest.Options{Capability: func(c *types.Capability) { c.Inbound.VisibilityTimeoutSeconds = said }}}, func(t *testing.T, m *mail) {
			m.send("pause deploys")
			entries, err := m.inbox.Drain(t.Context(), ma2h.DrainOptions{})
			if err != nil || len(entries) != 1 {
				t.Fatal(len(entries), err)
			}
			if left := time.Until(entries[0].Lapses()); left != want {
				t.Errorf("said %d s: lapses in %s", said, left)
			}
		})
	}
}

// req: INB-02 INB-03 VER-07 INB-04 AMB-10 AMB-31
func TestARowThatIsNoEntryIsRejectedAndTheOthersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := signedRow(t, trustDirective, "good")
		for name, row := range map[string]struct {
			text string
			want error // nil: it is an entry
		}{
			"as it is":               {signedRow(t, trustDirective, "row"), nil},
			"without the name":       {strings.Replace(signedRow(t, trustDirective, "row"), "MA2H-Signature: ", "", 1), nil},
			"two kinds":              {strings.TrimSuffix(signedRow(t, trustDirective, "row"), "}") + `,"message":{}}`, ma2h.ErrMalformed},
			"no kind":                {`{"signature":"t=1,jti=a,v1=b"}`, ma2h.ErrMalformed},
			"nothing":                {`{}`, ma2h.ErrMalformed},
			"null":                   {`null`, ma2h.ErrMalformed},
			"a string":               {`"directive"`, ma2h.ErrMalformed},
			"an array":               {`[` + good + `]`, ma2h.ErrMalformed},
			"a directive as text":    {`{"directive":"none","signature":"t=1,jti=a,v1=b"}`, ma2h.ErrMalformed},
			"no signature":           {`{"directive":` + trustDirective + `}`, ma2h.ErrMalformed},
			"an empty signature":     {`{"directive":` + trustDirective + `,"signature":""}`, ma2h.ErrMalformed},
			"a number as signature":  {`{"directive":` + trustDirective + `,"signature":7}`, ma2h.ErrMalformed},
			"two signatures":         {strings.TrimSuffix(signedRow(t, trustDirective, "row"), "}") + `,"signature":"t=1,jti=a,v1=b"}`, ma2h.ErrMalformed},
			"a signature of nothing": {`{"directive":` + trustDirective + `,"signature":"yes"}`, ma2h.ErrSignature},
			"a later kind":           {`{"message":{"id":"msg_1"},"signature":"t=1,jti=a,v1=b"}`, ma2h.ErrUnknownEntry},
			"a kind of no version":   {`{"poke":{},"signature":"t=1,jti=a,v1=b"}`, ma2h.ErrUnknownEntry},
			"another case":           {`{"Directive":` + trustDirective + `,"signature":"t=1,jti=a,v1=b"}`, ma2h.ErrUnknownEntry},
		} {
			in, _ := mailOf(t, row.text, good)
			entries, err := in.Drain(t.Context(), ma2h.DrainOptions{})
			if row.want == nil {
				if err != nil || len(entries) != 2 {
					t.Errorf("%s: %d entries, %v", name, len(entries), err)
				}
				continue
			}
			r := onlyRejection(t, err)
			if len(entries) != 1 || !errors.Is(r.Err, row.want) || !errors.Is(err, row.want) {
				t.Errorf("%s: %d entries, %v", name, len(entries), err)
			}
		}
	})
}

// req: INB-17 INB-24 INB-23 INB-05
func TestADirectiveOfAForgedOrForeignShapeIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edit := func(old, with string) string { return strings.Replace(trustDirective, old, with, 1) }
		for name, row := range map[string]struct {
			directive string
			want      error
		}{
			"as it is":                {trustDirective, nil},
			"of the system":           {edit("human:alice", "system:scheduler"), nil},
			"of an agent":             {edit("human:alice", "agent:other"), ma2h.ErrMalformed},
			"of nobody":               {edit("human:alice", "human:"), ma2h.ErrMalformed},
			"of no kind":              {edit("human:alice", "alice"), ma2h.ErrMalformed},
			"an id without a prefix":  {edit("dir_1", "7"), nil},
			"an id of another prefix": {edit("dir_1", "msg_1"), nil},
			"no id":                   {edit("dir_1", ""), ma2h.ErrMalformed},
			"expired long ago":        {edit("2026-06-22T12:00:00Z", "1999-01-01T00:00:00Z"), nil},
			"created long ago":        {edit("2026-06-21T12:00:00Z", "1999-01-01T00:00:00Z"), nil},
			"created in years":        {edit("2026-06-21T12:00:00Z", "2099-01-01T00:00:00Z"), nil},
			"created at no time":      {edit("2026-06-21T12:00:00Z", "yesterday"), ma2h.ErrMalformed},
			"to a human":              {edit("agent:deploybot", "human:deploybot"), ma2h.ErrMalformed},
			"to another agent":        {edit("agent:deploybot/dev-team", "agent:deploybot/dev-teams"), ma2h.ErrAddressee},
			"to another case":         {edit("agent:deploybot", "agent:Deploybot"), ma2h.ErrAddressee},
			"to a session of it":      {edit("dev-team\"", "dev-team#sess_1\""), ma2h.ErrAddressee},
			"of another type":         {edit(`"type":"directive"`, `"type":"notify"`), ma2h.ErrMalformed},
			"at 0.3":                  {edit(`"0.4"`, `"0.3"`), ma2h.ErrVersion},
			"at 1.0":                  {edit(`"0.4"`, `"1.0"`), ma2h.ErrVersion},
		} {
			in, _ := mailOf(t, signedRow(t, row.directive, "j"))
			entries, err := in.Drain(t.Context(), ma2h.DrainOptions{})
			if row.want == nil {
				if err != nil || len(entries) != 1 {
					t.Errorf("%s: %d entries, %v", name, len(entries), err)
				}
				continue
			}
			if r := onlyRejection(t, err); len(entries) != 0 || !errors.Is(r.Err, row.want) {
				t.Errorf("%s: %d entries, %v", name, len(entries), err)
			}
		}
	})
}

// req: INB-09 INB-08
func TestAnAgentIdWithAHashIsALiteralAndNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for agent, want := range map[string]error{"foo#bar": nil, "foo": ma2h.ErrAddressee, "foo#": ma2h.ErrAddressee, "foo#bar2": ma2h.ErrAddressee} {
			row := signedRow(t, strings.Replace(trustDirective, "agent:deploybot/dev-team", "agent:foo#bar", 1), "j")
			wire := roundTrip(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/ma2h") {
					return canned(200, `{"ma2h_version":"0.4","inbound":{"enabled":true}}`), nil
				}
				return canned(200, `{"messages":[`+row+`]}`), nil
			})
			entries, err := mailOver(t, wire, agent).Drain(t.Context(), ma2h.DrainOptions{})
			if !errors.Is(err, want) || (len(entries) == 1) != (want == nil) {
				t.Errorf("%s: %d entries, %v", agent, len(entries), err)
			}
		}
	})
}

// req: SGD-01 SGD-03 RPL-06
func TestARejectionNamesItsReasonAndItsEntryAndNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		row := signedRow(t, trustDirective, "j")
		for name, tt := range map[string]struct {
			row, id string
			want    error
		}{
			"a member that is not signed": {strings.Replace(row, "2026-06-22T12:00:00Z", "2026-06-23T12:00:00Z", 1), "", nil},
			"content":                     {strings.Replace(row, "Until I say so.", "For ever. CANARY", 1), "dir_1", ma2h.ErrSignature},
			"the author":                  {strings.Replace(row, "human:alice", "human:CANARY", 1), "dir_1", ma2h.ErrSignature},
			"the id":                      {strings.Replace(row, "dir_1", `dir\u202e\n`+strings.Repeat("x", 90), 1), "dir" + strings.Repeat("x", 29), ma2h.ErrSignature},
			"no signature":                {`{"directive":` + trustDirective + `,"signature":"CANARY"}`, "dir_1", ma2h.ErrSignature},
		} {
			in, _ := mailOf(t, tt.row)
			entries, err := in.Drain(t.Context(), ma2h.DrainOptions{})
			if tt.want == nil {
				if err != nil || len(entries) != 1 || entries[0].Advisory().ExpiresAt != "2026-06-23T12:00:00Z" {
					t.Errorf("%s: %d entries, %v", name, len(entries), err)
				}
				if again, err := in.Drain(t.Context(), ma2h.DrainOptions{}); !errors.Is(err, ma2h.ErrReplay) || len(again) != 0 {
					t.Errorf("the same signature again: %d entries, %v", len(again), err)
				}
				continue
			}
			r := onlyRejection(t, err)
			if len(entries) != 0 || r.ID != tt.id || !errors.Is(r, tt.want) || strings.Contains(err.Error(), "CANARY") || !strings.Contains(err.Error(), "rejected") {
				t.Errorf("%s: id %q, %v", name, r.ID, err)
			}
		}
	})
}

// req: INB-18 ACK-06
func TestAnAckIsSentAsItIsAndItsNoteIsBounded(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		ids := m.send("pause deploys")
		entries, err := m.inbox.Drain(t.Context(), ma2h.DrainOptions{})
		if err != nil || len(entries) != 1 {
			t.Fatal(len(entries), err)
		}
		before := len(m.hub.Requests())
		wantsField(t, entries[0].Ack(t.Context(), strings.Repeat("x", ma2h.MaxNote+1)), "note")
		if err := m.inbox.Ack(t.Context(), nil, "nothing to say it about"); err == nil {
			t.Error("an acknowledgment of nothing was taken")
		}
		if m.inbox.Ack(t.Context(), []string{ids[0]}, "\xff") == nil {
			t.Error("a note that is no text was sent")
		}
		m.hub.RequireRequests(t, "", before)
		m.hub.RequireDelivery(t, ids[0], ma2htest.Delivered)

		mustNot(t, m.inbox.Ack(t.Context(), []string{"dir_of_nobody"}, ""))
		m.hub.RequireDelivery(t, ids[0], ma2htest.Delivered)
		note := strings.Repeat("x", ma2h.MaxNote)
		mustNot(t, entries[0].Ack(t.Context(), note))
		mustNot(t, entries[0].Ack(t.Context(), "again")) // no matter
		d, _ := m.hub.Directive(ids[0])
		if d.Delivery.Ack == nil || d.Delivery.Ack.Note != note {
			t.Errorf("receipt %+v", d.Delivery.Ack)
		}
		if got := fmt.Sprint(m.acks()); got != fmt.Sprintf("[[dir_of_nobody] [%s] [%s]]", ids[0], ids[0]) {
			t.Errorf("acknowledged %s", got)
		}
		m.hub.Fault(ma2htest.Status(401, 1).On(ma2htest.InboxAck))
		wants(t, m.inbox.Ack(t.Context(), []string{ids[0]}, ""), ma2h.ErrUnauthenticated)
	})
}

// req: INB-15
func TestALoopOverTheInboxGoesOnAfterARejectionAndEndsOnTrouble(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.hub.Fault(ma2htest.CorruptDirectiveSignature(1), ma2htest.Status(503, 2).On(ma2htest.Drain).After(1), ma2htest.Status(403, 1).On(ma2htest.Drain).After(1))
		ids := m.send("1", "2")
		var got []string
		for e, err := range m.inbox.All(t.Context()) {
			switch r, rejected := errors.AsType[*ma2h.RejectedError](err); {
			case rejected:
				wants(t, r, ma2h.ErrSignature)
				got = append(got, "rejected "+r.ID)
			case err != nil:
				wants(t, err, ma2h.ErrNotAuthorized)
				got = append(got, "ended")
			default:
				got = append(got, e.Title())
			}
		}
		if want := []string{"rejected " + ids[0], "2", "ended"}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		m.hub.RequireRequests(t, ma2htest.Drain, 4)
		m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
	})
}

func TestALoopThatBreaksAcknowledgesNothingAndMayStartAnew(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		ids := m.send("1", "2")
		all := m.inbox.All(t.Context())
		for range 2 {
			for e, err := range all {
				mustNot(t, err)
				m.acted = append(m.acted, e.Title())
				break
			}
		}
		m.wantActed("1", "1")
		m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
		m.hub.RequireDelivery(t, ids[0], ma2htest.Delivered)
	})
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute, errors.New("enough"))
		defer cancel()
		n := 0
		for e, err := range m.inbox.All(ctx) {
			if n++; e != nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "enough") {
				t.Errorf("%v, %v", e, err)
			}
		}
		if n != 1 {
			t.Errorf("an idle mailbox yielded %d times", n)
		}
	})
	withMail(t, mailSetup{hub: ma2htest.Options{Version: types.V03}}, func(t *testing.T, m *mail) {
		n := 0
		for e, err := range m.inbox.All(t.Context()) {
			n++
			if e != nil {
				t.Error(e)
			}
			wants(t, err, ma2h.ErrUnsupported)
		}
		if n != 1 {
			t.Errorf("yielded %d times", n)
		}
		m.hub.RequireRequests(t, "", 1)
	})
}

// req: PRE-01
func TestPresenceHasALastSeenUnlessItIsUnknown(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"agent_id":"a/b","state":"online","freshness_seconds":90,"last_seen":"2026-06-01T12:00:00Z"}`:  true,
		`{"agent_id":"a/b","state":"offline","freshness_seconds":90,"last_seen":"2026-06-01T12:00:00Z"}`: true,
		`{"agent_id":"a/b","state":"unknown","freshness_seconds":90}`:                                    true,
		`{"agent_id":"a/b","state":"unknown","freshness_seconds":90,"last_seen":"2026-06-01T12:00:00Z"}`: false,
		`{"agent_id":"a/b","state":"online","freshness_seconds":90}`:                                     false,
		`{"agent_id":"a/b","state":"online","last_seen":"2026-06-01T12:00:00Z"}`:                         false,
	} {
		s := always(200, text)
		p, err := connect(t, s.config()).Presence(t.Context(), "a/b")
		if ok != (err == nil) || ok != (p != nil) || !ok && !errors.Is(err, ma2h.ErrProtocol) {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
}

// req: HND-09 AMB-26
// report: B091
func TestAWebhookTakesDirectivesAndNoOtherKindOfEntry(t *testing.T) {
	r := newCallbackRig(t)
	for name, row := range map[string]struct {
		body   string
		status int
	}{
		"a directive":            {trustDirective, 200},
		"a message":              {strings.Replace(trustDirective, `"type":"directive"`, `"type":"message"`, 1), 400},
		"an entry of a mailbox":  {`{"directive":` + trustDirective + `}`, 400},
		"a batch of a mailbox":   {`{"messages":[{"directive":` + trustDirective + `}]}`, 400},
		"a directive with state": {strings.TrimSuffix(trustDirective, "}") + `,"state":{}}`, 400},
		"an action":              {strings.TrimSuffix(trustDirective, "}") + `,"action":null}`, 400},
	} {
		before := len(r.acts())
		w := r.post(hubSigner{}.header(t, "directive", row.body, trustUnix, "j-"+strings.ReplaceAll(name, " ", "-")), row.body)
		if acted := len(r.acts()) - before; w.Code != row.status || acted != btoi(row.status == 200) {
			t.Errorf("%s: answered %d, %d acts", name, w.Code, acted)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// req: SGD-03 RPL-06
func TestALoopYieldsADeliveryOnceHoweverOftenItsSignatureComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := mailOf(t, signedRow(t, trustDirective, "j"))
		var got []string
		for e, err := range in.All(t.Context()) {
			if err == nil {
				got = append(got, e.ID())
				continue
			}
			r, ok := errors.AsType[*ma2h.RejectedError](err)
			if !ok || e != nil || !errors.Is(r, ma2h.ErrReplay) {
				t.Fatal(e, err)
			}
			if got = append(got, "replay"); len(got) == 3 {
				break
			}
		}
		if !slices.Equal(got, []string{"dir_1", "replay", "replay"}) {
			t.Errorf("%q", got)
		}
	})
}

// report: B085
func TestALoopYieldsNothingWhoseWindowIsOver(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		ids := m.send("1", "2")
		for e, err := range m.inbox.All(t.Context()) {
			mustNot(t, err)
			if m.acted = append(m.acted, e.Title()); e.Title() == "2" {
				break
			}
			time.Sleep(time.Minute)
			mustNot(t, e.Ack(t.Context(), ""))
		}
		m.wantActed("1", "2")
		if n := m.deliveries(ids[1]); n != 2 {
			t.Errorf("the second was yielded at delivery %d", n)
		}
	})
}

// A Hub that does not hold is asked at a pace while it has nothing, and at once
// after each single entry.
func TestALoopPausesOnlyWhereThereIsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, drains := 20, 0
		wire := roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/ma2h") {
				return canned(200, `{"ma2h_version":"0.4","inbound":{"enabled":true}}`), nil
			}
			if drains++; drains > rows {
				return canned(200, `{"messages":[]}`), nil
			}
			return canned(200, `{"messages":[`+signedRow(t, trustDirective, fmt.Sprint(drains))+`]}`), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		begin, got := time.Now(), 0
		for _, err := range mailOver(t, wire, trustAgent).All(ctx) {
			if err != nil {
				wants(t, err, context.DeadlineExceeded)
				break
			}
			if got++; got == rows && time.Since(begin) != 0 {
				t.Errorf("%d entries took %s", rows, time.Since(begin))
			}
		}
		if idle := drains - rows; got != rows || idle < 15 || idle > 60 {
			t.Errorf("%d entries, then %d drains in five minutes", got, idle)
		}
	})
}

func TestALoopThatIsStoppedSaysSoAndSendsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 8 {
			in, s := mailOf(t)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel) // in the first pause
			n := 0
			for e, err := range in.All(ctx) {
				n++
				if e != nil {
					t.Error(e)
				}
				wants(t, err, context.Canceled)
			}
			if n != 1 || s.calls.Load() != 1 {
				t.Errorf("yielded %d times, %d drains", n, s.calls.Load())
			}
		}
	})
}

// A drain that does not wait has the time of any other call.
func TestADrainHasTheTimeOfACallOrOfItsHold(t *testing.T) {
	for name, row := range map[string]struct {
		wait time.Duration
		slow time.Duration
		ok   bool
	}{
		"at once":     {0, 29 * time.Second, true},
		"over a call": {0, 31 * time.Second, false},
		"a hold":      {time.Minute, 69 * time.Second, true},
		"over a hold": {time.Minute, 71 * time.Second, false},
	} {
		slow := mailSetup{
			wire: func(rt http.RoundTripper) http.RoundTripper {
				first := true
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if strings.HasSuffix(r.URL.Path, "/inbox") && first {
						first = false
						select {
						case <-time.After(row.slow):
						case <-r.Context().Done():
							return nil, r.Context().Err()
						}
					}
					return rt.RoundTrip(r)
				})
			},
		}
		withMail(t, slow, func(t *testing.T, m *mail) {
			m.send("pause deploys")
			begin := time.Now()
			entries, err := m.inbox.Drain(t.Context(), ma2h.DrainOptions{Wait: row.wait})
			if took := time.Since(begin); err != nil || len(entries) != 1 || (took == row.slow) != row.ok {
				t.Errorf("%s: %d entries, %v after %s", name, len(entries), err, took)
			}
		})
	}
}

func TestADrainAsksForNoLongerHoldThanTheClientMay(t *testing.T) {
	withMail(t, mailSetup{client: func(c *ma2h.Config) { c.MaxWait = 5 * time.Second }}, func(t *testing.T, m *mail) {
		_, err := m.inbox.Drain(t.Context(), ma2h.DrainOptions{Wait: 20 * time.Second})
		if got := m.queries(); err != nil || !slices.Equal(got, []string{"max=32&wait=5"}) {
			t.Errorf("asked %q, %v", got, err)
		}
	})
}

func TestAnInboxHasTheLoggerThatItIsGiven(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		own := &syncBuffer{}
		cfg := m.inbox.Config()
		cfg.Logger = slog.New(slog.NewTextHandler(own, nil))
		var err error
		m.inbox, err = ma2h.NewInbox(cfg)
		mustNot(t, err)
		m.send("pause deploys")
		m.consume(time.Minute)
		if !strings.Contains(own.String(), "directive acted on") || strings.Contains(m.log.String(), "directive acted on") {
			t.Errorf("its own: %s, the Client's: %s", own, m.log)
		}
	})
}

func TestALoopOverABurstDoesNotPause(t *testing.T) {
	withMail(t, mailSetup{hub: ma2htest.Options{Capability: func(c *types.Capability) { c.Inbound.MaxBatch = 2 }}}, func(t *testing.T, m *mail) {
		m.send("1", "2", "3", "4", "5", "6", "7", "8", "9")
		begin := time.Now()
		for e, err := range m.inbox.All(t.Context()) {
			mustNot(t, err)
			mustNot(t, e.Ack(t.Context(), ""))
			if m.acted = append(m.acted, e.Title()); len(m.acted) == 9 {
				break
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("nine directives took %s", took)
		}
	})
}

// req: INB-01 DISC-02 VER-05 DISC-05
func TestAHubThatOffersNoMailboxIsAskedForNothing(t *testing.T) {
	for name, edit := range map[string]func(*types.Capability){
		"none":         func(c *types.Capability) { c.Inbound = nil },
		"switched off": func(c *types.Capability) { c.Inbound.Enabled = false },
	} {
		withMail(t, mailSetup{hub: ma2htest.Options{Capability: edit}}, func(t *testing.T, m *mail) {
			_, err := m.inbox.Drain(t.Context(), ma2h.DrainOptions{})
			for _, err := range []error{err, m.inbox.Ack(t.Context(), []string{"dir_1"}, ""), m.inbox.Consume(t.Context(), m.handle, m.options())} {
				if !errors.Is(err, ma2h.ErrUnsupported) {
					t.Errorf("%s: %v", name, err)
				}
			}
			m.hub.RequireRequests(t, "", 1) // the document
		})
	}
}
