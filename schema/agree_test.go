package schema_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/schema"
)

// row is one change to a document. An empty at says that it stays valid,
// another that it is refused and where; of a
// rule between two members either may be named.
type row struct {
	base    string
	changes []string
	at      string
	from    string // first version whose schema has the rule, where not 0.2
}

func ok(base string, changes ...string) row { return row{base: base, changes: changes} }

func no(at, base string, changes ...string) row { return row{base: base, changes: changes, at: at} }

func since(version string, r row) row { r.from = version; return r }

var (
	title200 = `title="` + strings.Repeat("😀", 200) + `"`
	title201 = `title="` + strings.Repeat("a", 201) + `"`
)

var rows = []row{
	// req: ENV-01
	no("ma2h_version", "notify", "-ma2h_version"),
	no("type", "notify", "-type"),
	no("created_at", "notify", "-created_at"),
	no("agent", "notify", "-agent"),
	no("title", "notify", "-title"),
	// req: ENV-02
	ok("notify", `ma2h_version="0.0"`),
	ok("notify", `ma2h_version="0.999999999"`),
	no("ma2h_version", "notify", `ma2h_version="0.03"`),
	no("ma2h_version", "notify", `ma2h_version="00.3"`),
	no("ma2h_version", "notify", `ma2h_version="0.3.1"`),
	no("ma2h_version", "notify", `ma2h_version="0"`),
	no("ma2h_version", "notify", `ma2h_version="1.0"`),
	no("ma2h_version", "notify", `ma2h_version=""`),
	no("ma2h_version", "notify", `ma2h_version="0.3\n"`),
	no("ma2h_version", "notify", `ma2h_version="0.٣"`),
	no("ma2h_version", "notify", `ma2h_version="0.1000000000"`),
	no("ma2h_version", "notify", `ma2h_version=0.3`),
	no("ma2h_version", "notify", `ma2h_version=null`),
	// req: ENV-03
	ok("notify", `ma2h_version="0.2"`),
	ok("ask", `ma2h_version="0.4"`, `request.allowed_resolvers=["agent:legacy#worker"]`),
	// req: ENV-04
	no("type", "notify", `type="directive"`),
	no("type", "notify", `type=""`),
	no("type", "notify", `type="Notify"`),
	no("type", "notify", `type=null`),
	// req: ENV-05
	ok("notify", `created_at="2026-06-04T15:48:30.123456789-11:30"`),
	ok("notify", `created_at="2024-02-29T00:00:00Z"`),
	no("created_at", "notify", `created_at="2026-06-04"`),
	no("created_at", "notify", `created_at="2026-02-29T00:00:00Z"`),
	no("created_at", "notify", `created_at="2026-06-04t15:48:30z"`),
	no("created_at", "notify", `created_at="2026-06-04T23:59:60Z"`),
	no("created_at", "notify", `created_at="2026-06-04T24:00:00Z"`),
	no("created_at", "notify", `created_at="2026-06-04T15:48:30"`),
	no("created_at", "notify", `created_at="2026-06-04T15:48:30.1234567890Z"`),
	no("created_at", "notify", `created_at=""`),
	no("created_at", "notify", `created_at=1`),
	no("expires_at", "ask", `expires_at=""`),
	no("expires_at", "ask", `expires_at="tomorrow"`),
	no("expires_at", "ask", `expires_at=null`),
	// req: ENV-06
	ok("notify", "-agent.project", "-agent.labels"),
	ok("notify", `agent.labels={}`),
	no("agent.id", "notify", `agent.id=""`),
	no("agent.id", "notify", "-agent.id"),
	no("agent.run_id", "notify", `agent.run_id=""`),
	no("agent.run_id", "notify", "-agent.run_id"),
	no("agent.runtime", "notify", `agent.runtime="docker"`),
	no("agent.runtime", "notify", `agent.runtime=""`),
	no("agent.runtime", "notify", "-agent.runtime"),
	no("agent.labels.*", "notify", `agent.labels.model=4`),
	no("agent.labels.*", "notify", `agent.labels.model=null`),
	no("agent.labels", "notify", `agent.labels=[]`),
	no("agent.project", "notify", `agent.project=null`),
	no("agent", "notify", `agent="bot"`),
	no("agent", "notify", `agent=null`),
	// req: ENV-08
	ok("notify", title200),
	no("title", "notify", title201),
	no("title", "notify", `title=""`),
	no("title", "notify", `title=["a"]`),
	// req: ENV-09
	ok("notify", `body=""`),
	ok("notify", "-body"),
	no("body", "notify", `body={}`),
	no("body", "notify", `body=null`),
	// req: ENV-10
	ok("notify", "-priority"),
	ok("notify", `priority="urgent"`),
	no("priority", "notify", `priority="medium"`),
	no("priority", "notify", `priority=""`),
	no("priority", "notify", `priority=null`),
	// req: ENV-11
	ok("notify", `tags=[]`),
	ok("notify", `tags=[""]`),
	no("tags[]", "notify", `tags=["a",1]`),
	no("tags[]", "notify", `tags=[null]`),
	no("tags", "notify", `tags="a"`),
	no("tags", "notify", `tags=null`),
	// req: ENV-12
	ok("parts"),
	ok("notify", `context=[]`),
	ok("parts", `context.0={"kind":"text","text":""}`),
	ok("parts", `context.1={"kind":"data","data":{}}`),
	no("context[].text", "parts", "-context.0.text"),
	no("context[].text", "parts", `context.0.text=1`),
	no("context[].text", "parts", `context.0.text=null`),
	no("context[].data", "parts", `context.0.data={}`),
	no("context[].file", "parts", `context.0.file={"uri":"https://x/"}`),
	no("context[].data", "parts", `context.1.data=[]`),
	no("context[].data", "parts", `context.1.data=null`),
	no("context[].data", "parts", "-context.1.data"),
	no("context[].text", "parts", `context.1.text=""`),
	no("context[].file", "parts", "-context.2.file"),
	no("context[].file", "parts", `context.2.file=null`),
	no("context[].file.uri", "parts", "-context.2.file.uri"),
	no("context[2].file.uri", "parts", `context.2.file.uri="diff.patch"`),
	no("context[2].file.uri", "parts", `context.2.file.uri=""`),
	no("context[].file.name", "parts", `context.2.file.name=1`),
	no("context[].kind", "parts", `context.0.kind="image"`),
	no("context[].kind", "parts", `context.0.kind=""`),
	no("context[].kind", "parts", "-context.0.kind"),
	no("context[].metadata", "parts", `context.0.metadata=[]`),
	no("context[].metadata", "parts", `context.0.metadata=null`),
	no("context[]", "parts", `context.0="text"`),
	no("context[]", "parts", `context.0=null`),
	no("context", "parts", `context={}`),
	// req: ENV-13
	ok("notify", `state={}`),
	no("state", "notify", `state="x"`),
	no("state", "notify", `state=[]`),
	no("state", "notify", `state=null`),
	// req: ENV-14
	ok("notify", `client_ref=""`),
	no("client_ref", "notify", `client_ref=1`),
	// req: ENV-15
	ok("notify", `idempotency_key="k"`),
	ok("notify", `idempotency_key=""`),
	no("idempotency_key", "ask", "-idempotency_key"),
	no("idempotency_key", "ask", `idempotency_key=""`),
	no("idempotency_key", "task", "-idempotency_key"),
	no("idempotency_key", "task", `idempotency_key=""`),
	no("idempotency_key", "task", `idempotency_key=7`),
	// req: ENV-17
	ok("notify", `id="msg_x"`, `status="open"`, `from=1`, `actor=null`),
	// req: ENV-16 ENV-18
	no("request", "notify", `request={"mode":"confirm"}`),
	no("action", "notify", `action={"instructions":"x"}`),
	no("request", "ask", "-request"),
	no("action", "ask", `action={"instructions":"x"}`),
	no("action", "task", "-action"),
	no("request", "task", `request={"mode":"confirm"}`),
	no("request", "notify", `request=null`),
	no("action", "ask", `action=null`),
	// req: ENV-19
	ok("notify", `sensitive=true`),
	ok("directive", "-sensitive"),
	no("sensitive", "notify", `sensitive="true"`),
	no("sensitive", "notify", `sensitive=null`),
	no("sensitive", "directive", `sensitive=1`),

	// req: ASK-01
	no("request.mode", "ask", `request.mode="choose"`),
	no("request.mode", "ask", `request.mode=""`),
	no("request.mode", "ask", "-request.mode"),
	no("request.mode", "ask", `request.mode=1`),
	// req: ASK-02
	ok("ask", `request.options=[{"value":"","label":""}]`, "-request.default_on_expire"),
	no("request.options", "ask", `request.options=[]`),
	no("request.options", "ask", "-request.options"),
	no("request.options", "ask", `request.options=null`),
	no("request.options[].label", "ask", "-request.options.0.label"),
	no("request.options[].value", "ask", "-request.options.1.value"),
	no("request.options[].value", "ask", `request.options.0.value=1`),
	no("request.options[].label", "ask", `request.options.0.label=null`),
	no("request.options[].description", "ask", `request.options.0.description=false`),
	no("request.options[]", "ask", `request.options.0="ship"`),
	// req: ASK-03
	no("request.schema", "input", "-request.schema"),
	no("request.schema", "input", `request.schema=[]`),
	no("request.schema", "input", `request.schema="{}"`),
	no("request.schema", "input", `request.schema=null`),
	no("request.schema", "ask", `request.schema=1`),
	// req: ASK-04
	ok("confirm", `request.options=[{"value":"a","label":"A"},{"value":"b","label":"B"}]`),
	no("request.options", "confirm", `request.options=[{"value":"a","label":"A"}]`),
	no("request.options", "confirm", `request.options=[]`),
	no("request.options", "confirm", `request.options=[{"value":"a","label":"A"},{"value":"b","label":"B"},{"value":"c","label":"C"}]`),
	// req: ASK-05
	ok("ask", `request.permissions={}`),
	no("request.permissions.allow_edit", "ask", `request.permissions.allow_edit="no"`),
	no("request.permissions.allow_ignore", "ask", `request.permissions.allow_ignore=null`),
	no("request.permissions", "ask", `request.permissions=true`),
	// req: ASK-06
	ok("ask", `request.default_on_expire=null`),
	no("request.default_on_expire", "ask", `request.default_on_expire=1`),
	no("request.default_on_expire", "ask", `request.default_on_expire=["hold"]`),
	no("request.default_on_expire", "input", `request.default_on_expire=true`),
	// req: ASK-07 ASK-08
	ok("ask", "-request.allowed_resolvers"),
	ok("ask", `request.allowed_resolvers=[]`),
	ok("ask", `request.allowed_resolvers=["human:a:b","system: "]`),
	no("request.allowed_resolvers[]", "ask", `request.allowed_resolvers=["alice"]`),
	no("request.allowed_resolvers[]", "ask", `request.allowed_resolvers=["human:"]`),
	no("request.allowed_resolvers[]", "ask", `request.allowed_resolvers=["human:a\u2028b"]`),
	no("request.allowed_resolvers[]", "ask", `request.allowed_resolvers=["human:a\n"]`),
	no("request.allowed_resolvers[]", "ask", `request.allowed_resolvers=["Human:a"]`),
	no("action.allowed_resolvers[]", "task", `action.allowed_resolvers=[" human:a"]`),
	no("request.allowed_resolvers", "ask", `request.allowed_resolvers="human:a"`),
	// req: ASK-09
	ok("input", `request.schema.properties.reason.x-ma2h-sensitive=true`),

	// req: TSK-01
	ok("task", "-action.checklist", "-action.verification", "-action.allowed_resolvers", "-action.callback"),
	ok("task", `action.checklist=[]`),
	no("action.instructions", "task", "-action.instructions"),
	no("action.instructions", "task", `action.instructions=null`),
	no("action.checklist[].text", "task", "-action.checklist.0.text"),
	no("action.checklist[].text", "task", `action.checklist.0.text=1`),
	no("action.checklist[].done", "task", `action.checklist.0.done="no"`),
	no("action.checklist[].done", "task", `action.checklist.0.done=null`),
	no("action.checklist", "task", `action.checklist={}`),
	no("action.verification", "task", `action.verification=1`),
	// req: TSK-02
	ok("task", `action.default_on_expire=7`),

	// req: CB-01
	ok("confirm", "-request.callback"),
	ok("confirm", `request.callback.url="https://bot.example/"`),
	no("request.callback.url", "push", "-request.callback.url"),
	no("request.callback.url", "push", `request.callback.url=""`),
	no("request.callback.url", "push", `request.callback.url="/resume"`),
	no("request.callback.url", "push", `request.callback.url="https://bot.example/a b"`),
	no("request.callback.url", "confirm", `request.callback.url=""`),
	no("request.callback.mode", "push", `request.callback.mode="poll"`),
	no("request.callback.mode", "push", "-request.callback.mode"),
	no("request.callback", "push", `request.callback=null`),
	no("action.callback.url", "task", "-action.callback.url"),
	// req: CB-02
	no("request.callback.auth.secret_ref", "push", "-request.callback.auth.secret_ref"),
	no("request.callback.auth.secret_ref", "push", `request.callback.auth.secret_ref=""`),
	no("request.callback.auth.token_ref", "push", `request.callback.auth.token_ref="env:T"`),
	no("request.callback.auth.secret_ref", "push", `request.callback.auth.secret_ref=null`),
	// req: CB-03
	ok("push", `request.callback.auth={"scheme":"apikey","token_ref":"env:T"}`),
	no("action.callback.auth.token_ref", "task", "-action.callback.auth.token_ref"),
	no("action.callback.auth.token_ref", "task", `action.callback.auth.token_ref=""`),
	no("action.callback.auth.secret_ref", "task", `action.callback.auth.secret_ref="env:S"`),
	no("action.callback.auth.scheme", "task", `action.callback.auth.scheme="basic"`),
	no("action.callback.auth.scheme", "task", "-action.callback.auth.scheme"),
	// req: CB-04
	ok("push", "-request.callback.auth"),
	no("request.callback.auth", "push", `request.callback.auth=null`),
	// req: CB-05 CB-06
	ok("push", `request.callback.auth.secret_ref="plain"`, `request.callback.url="http://bot.example/"`),
	// req: CB-07
	ok("confirm", `ma2h_version="0.2"`),
	since("0.3", no("request.callback.mode", "push", `ma2h_version="0.2"`)),
	since("0.3", no("action.callback.mode", "task", `ma2h_version="0.0"`)),

	// req: RES-01
	no("ma2h_version", "answered", "-ma2h_version"),
	no("ma2h_version", "answered", `ma2h_version="0.03"`),
	no("in_reply_to", "answered", "-in_reply_to"),
	no("in_reply_to", "answered", `in_reply_to=""`),
	no("resolution_id", "answered", "-resolution_id"),
	no("resolution_id", "answered", `resolution_id=""`),
	no("agent", "answered", "-agent"),
	no("agent.id", "answered", "-agent.id"),
	no("agent.run_id", "answered", `agent.run_id=""`),
	no("resolution", "answered", "-resolution"),
	ok("answered", "-defaulted", "-state"),
	ok("answered", `state=null`),
	no("state", "answered", `state="x"`),
	no("state", "answered", `state=[]`),
	// req: RES-02
	no("resolution", "answered", `resolution="ignored"`),
	no("resolution", "answered", `resolution=""`),
	no("resolution", "answered", `resolution=null`),
	// req: RES-03
	ok("completed"),
	ok("completed", "-response"),
	ok("completed", `resolution="expired"`),
	no("response", "completed", `resolution="declined"`),
	no("response", "answered", "-response"),
	no("response", "answered", `response=null`),
	no("response", "answered", `response="ship"`),
	no("response.value", "completed with checklist", `response.value="x"`),
	no("response.value", "completed with checklist", `resolution="completed"`, `response.value={}`),
	// req: RES-04
	no("response.actor", "answered", "-response.actor"),
	no("response.actor", "answered", `response.actor="alice"`),
	no("response.actor", "answered", `response.actor=""`),
	no("response.resolved_at", "answered", "-response.resolved_at"),
	no("response.resolved_at", "answered", `response.resolved_at="2026-06-04"`),
	no("response.resolved_at", "answered", `response.resolved_at=null`),
	// req: RES-05
	ok("answered object"),
	ok("answered", `response.value=""`),
	no("response.value", "answered", "-response.value"),
	no("response.value", "answered", `response.value=1`),
	no("response.value", "answered", `response.value=null`),
	no("response.value", "answered", `response.value=["ship"]`),
	no("response.value", "declined", `response.value="no"`),
	no("response.value", "declined", `resolution="cancelled"`, `response.value={}`),
	// req: RES-06
	ok("answered", "-response.edited", "-response.comment"),
	no("response.edited", "answered", `response.edited="no"`),
	no("response.comment", "answered", `response.comment=null`),
	no("response.checklist", "answered", `response.checklist=[]`),
	no("response.checklist", "declined", `response.checklist=[{"text":"a","done":true}]`),
	no("response.checklist[].text", "completed with checklist", "-response.checklist.0.text"),
	// req: RES-07
	ok("defaulted", "-defaulted"),
	ok("defaulted", `defaulted=false`),
	no("response.actor", "defaulted", `response.actor="human:alice"`),
	no("resolution|defaulted", "answered", `defaulted=true`, `response.actor="system:default_on_expire"`),
	no("response|defaulted", "defaulted", "-response"),
	no("response|defaulted", "defaulted", `response=null`),
	no("defaulted", "defaulted", `defaulted="true"`),
	no("defaulted", "defaulted", `defaulted=null`),

	// req: DISC-01
	ok("bare capability"),
	no("ma2h_version", "bare capability", "-ma2h_version"),
	no("ma2h_version", "bare capability", `ma2h_version="0.03"`),
	// req: DISC-02
	ok("capability", `inbound.enabled=false`, "-ack", "-presence"),
	// req: DISC-03
	ok("capability", `auth_schemes=["x"]`, `signature_algs=[]`, `inbound.signature_algs=["x"]`, `extra={"a":null}`, `inbound.extra=1`),
	// req: DISC-04
	ok("capability", `max_context_parts=16`, `max_body_bytes=9007199254740991`),
	no("max_body_bytes", "capability", `max_body_bytes=0`),
	no("max_body_bytes", "capability", `max_body_bytes="65536"`),
	no("max_body_bytes", "capability", `max_body_bytes=1.5`),
	no("max_body_bytes", "capability", `max_body_bytes=-1`),
	no("max_body_bytes", "capability", `max_body_bytes=9007199254740992`),
	no("max_part_bytes", "capability", `max_part_bytes=0`),
	no("max_context_parts", "capability", `max_context_parts=-1`),
	no("max_context_parts", "capability", `max_context_parts=null`),
	no("auth_schemes[]", "capability", `auth_schemes=[1]`),
	no("callback_auth_schemes", "capability", `callback_auth_schemes="hmac"`),
	no("signature_algs", "capability", `signature_algs=null`),
	no("rate_limit", "capability", `rate_limit=60`),
	no("rate_limit.requests_per_minute", "capability", `rate_limit.requests_per_minute=-1`),
	no("rate_limit.inbox_depth", "capability", `rate_limit.inbox_depth="x"`),
	no("retention_days", "capability", `retention_days=0`),
	no("replay_window_seconds", "capability", `replay_window_seconds=0`),
	// req: DISC-05
	since("0.4", no("inbound.enabled", "capability", "-inbound.enabled")),
	since("0.4", no("inbound.enabled", "capability", `inbound.enabled="yes"`)),
	since("0.4", no("inbound.poll_url", "capability", `inbound.poll_url="/v1/inbox"`)),
	since("0.4", no("inbound.poll_url", "capability", `inbound.poll_url=""`)),
	since("0.4", no("inbound.ack_url", "capability", `inbound.ack_url=""`)),
	since("0.4", no("inbound.max_batch", "capability", `inbound.max_batch=0`)),
	since("0.4", no("inbound.visibility_timeout_seconds", "capability", `inbound.visibility_timeout_seconds=0`)),
	since("0.4", no("inbound.retention_days", "capability", `inbound.retention_days=-2`)),
	since("0.4", no("inbound.signature_algs[]", "capability", `inbound.signature_algs=[null]`)),
	since("0.4", no("inbound.webhook_supported", "capability", `inbound.webhook_supported=1`)),
	since("0.4", no("inbound", "capability", `inbound=null`)),
	since("0.4", no("ack.enabled", "capability", "-ack.enabled")),
	since("0.4", no("ack.signature_algs", "capability", `ack.signature_algs={}`)),
	since("0.4", no("presence.enabled", "capability", "-presence.enabled")),
	since("0.4", no("presence.freshness_seconds", "capability", `presence.freshness_seconds=0`)),

	// req: SUB-02
	ok("submit ack", "-review_url", `destination={"later":1}`),
	ok("submit ack", `status="answered"`),
	no("id", "submit ack", "-id"),
	no("id", "submit ack", `id=""`),
	no("id", "submit ack", `id=7`),
	no("status", "submit ack", "-status"),
	no("status", "submit ack", `status="queued"`),
	no("poll_url", "submit ack", "-poll_url"),
	no("poll_url", "submit ack", `poll_url=""`),
	no("poll_url", "submit ack", `poll_url="/v1/messages/1"`),
	no("review_url", "submit ack", `review_url=""`),
	no("review_url", "submit ack", `review_url=null`),

	// req: PUL-01
	no("response", "get answered", "-response", "-delivery"),
	no("response", "get answered", `response=null`),
	no("response", "get task", "-response"),
	no("response", "get open", `response=`+askResponse),
	no("response", "get delivered", `response=`+askResponse),
	no("response.response", "get answered", "-response.response"),
	no("response.response", "get answered", `response.response=null`),
	ok("get task", `response.response={"actor":"human:a","resolved_at":"2026-06-04T15:48:30Z"}`),
	ok("get task", `response.response=null`),
	no("title", "get open", `title=""`),
	no("request", "get open", "-request"),
	// req: PUL-08
	no("id", "get open", "-id"),
	no("id", "get open", `id=""`),
	no("response.in_reply_to", "get answered", `response.in_reply_to=""`),
	no("response.resolution", "get answered", `response.resolution="done"`),
	// req: PUL-09
	no("status", "get open", "-status"),
	no("status", "get open", `status="queued"`),
	no("status", "get open", `status="delivered"`),
	no("status", "get delivered", `status="open"`),
	no("status", "get answered", `status="completed"`, `response.resolution="completed"`),
	no("status", "get task", `status="answered"`),
	no("status", "get task", `status="cancelled"`),
	ok("get task", `status="expired"`, `response.resolution="expired"`),
	// req: PUL-13
	ok("get answered", "-delivery"),
	ok("get answered", "-delivery.delivered_at"),
	ok("get acknowledged"),
	since("0.4", no("delivery.state", "get answered", `delivery.state="expired"`)),
	since("0.4", no("delivery.state", "get answered", "-delivery.state")),
	since("0.4", no("delivery.delivered_at", "get answered", `delivery.delivered_at=""`)),
	since("0.4", no("delivery.delivered_at", "get answered", `delivery.delivered_at="now"`)),
	since("0.4", no("delivery.acknowledged_at", "get answered", `delivery.acknowledged_at="2026-06-04T16:00:00Z"`)),
	since("0.4", no("delivery.acknowledged_at", "get answered", `delivery.acknowledged_at=""`)),
	since("0.4", no("delivery.ack", "get acknowledged", "-delivery.ack")),
	since("0.4", no("delivery.acknowledged_at", "get acknowledged", "-delivery.acknowledged_at")),
	since("0.4", no("delivery.ack", "get acknowledged", `delivery.state="delivered-to-agent"`)),
	since("0.4", no("delivery.ack.by", "get acknowledged", `delivery.ack.by="bot"`)),
	since("0.4", no("delivery.ack", "get acknowledged", `delivery.ack=null`)),
	since("0.4", no("response|delivery", "get open", `delivery={"state":"delivered-to-agent"}`)),
	since("0.4", no("response|delivery", "get delivered", `delivery={"state":"delivered-to-agent"}`)),

	// req: ACK-04
	ok("ack", "-note", "-resolution_id"),
	ok("ack", `ma2h_version="0.10"`),
	no("ma2h_version", "ack", `ma2h_version="0.3"`),
	no("ma2h_version", "ack", `ma2h_version="0.04"`),
	no("type", "ack", `type="receipt"`),
	no("type", "ack", "-type"),
	no("in_reply_to", "ack", `in_reply_to=""`),
	no("by", "ack", `by="bot"`),
	no("by", "ack", "-by"),
	no("acked_at", "ack", "-acked_at"),
	no("acked_at", "ack", `acked_at="x"`),
	no("note", "ack", `note=null`),
	no("resolution_id", "ack", `resolution_id=1`),

	// req: INB-05
	no("request", "directive", `request={"mode":"confirm"}`),
	no("action", "directive", `action={"instructions":"x"}`),
	no("state", "directive", `state={}`),
	no("state", "directive", `state=null`),
	ok("directive", `reply={"a":1}`, "-body", "-priority", "-tags", "-context", "-expires_at"),
	no("ma2h_version", "directive", `ma2h_version="0.3"`),
	no("type", "directive", `type="notify"`),
	no("id", "directive", "-id"),
	no("id", "directive", `id=""`),
	no("created_at", "directive", "-created_at"),
	no("title", "directive", title201),
	no("title", "directive", "-title"),
	no("priority", "directive", `priority=""`),
	no("expires_at", "directive", `expires_at=""`),
	no("context[].text", "directive", "-context.0.text"),
	no("tags", "directive", `tags=null`),
	// req: INB-24
	ok("directive", `from="system:hub"`),
	no("from", "directive", `from="agent:bot"`),
	no("from", "directive", `from="alice"`),
	no("from", "directive", `from="human:"`),
	no("from", "directive", "-from"),
	no("to", "directive", `to="human:alice"`),
	no("to", "directive", `to="agent:"`),
	no("to", "directive", "-to"),

	// req: PRE-01
	ok("presence", `state="offline"`),
	ok("unknown presence"),
	no("last_seen", "presence", "-last_seen"),
	no("last_seen", "presence", `last_seen=""`),
	no("last_seen", "presence", `last_seen="x"`),
	no("last_seen", "unknown presence", `last_seen="2026-06-04T16:01:00Z"`),
	no("last_seen", "unknown presence", `last_seen=""`),
	no("state", "presence", `state="away"`),
	no("state", "presence", "-state"),
	no("agent_id", "presence", `agent_id=""`),
	no("freshness_seconds", "presence", "-freshness_seconds"),
	no("freshness_seconds", "presence", `freshness_seconds=0`),
	no("freshness_seconds", "presence", `freshness_seconds=1.5`),

	// req: ERR-01
	ok("error", "-error.message", `id="msg_1"`),
	no("error", "error", "-error"),
	no("error", "error", `error="not_found"`),
	no("error", "error", `error=null`),
	no("error.code", "error", "-error.code"),
	no("error.code", "error", `error.code=404`),
	no("error.code", "error", `error.code=""`),
	no("error.message", "error", `error.message={}`),
}

func TestTypesAndSchemasAcceptAndRefuseTheSameBodies(t *testing.T) {
	for _, r := range rows {
		t.Run(r.base+" "+strings.Join(r.changes, " "), func(t *testing.T) {
			d, found := documents[r.base]
			if !found {
				t.Fatalf("no document %q", r.base)
			}
			text := edit(t, d.text, r.changes...)
			err := typed(d.body, text)
			if (err != nil) != (r.at != "") {
				t.Errorf("types: %v", err)
			}
			// What is not an object is refused by the item's own decoder, which does
			// not know where the item stands.
			item := len(r.changes) > 0 && strings.Contains(r.changes[0], ".0=\"")
			if err != nil && !item && !namesPart(err.Error(), r.at) {
				t.Errorf("types: %q does not name %s", err, r.at)
			}
			for _, version := range schema.Versions() {
				if !slices.Contains(schema.Names(version), d.body) || version < r.from {
					continue
				}
				err := schema.Validate(version, d.body, []byte(text))
				if (err != nil) != (r.at != "") {
					t.Errorf("schema of %s: %v", version, err)
				}
				if se, ok := errors.AsType[*schema.Error](err); ok && !slices.Contains(strings.Split(r.at, "|"), se.Path) {
					t.Errorf("schema of %s: refused at %q (%s), want %s", version, se.Path, se.Rule, r.at)
				}
			}
		})
	}
}

// namesPart reports whether text names one of the members on the path at.
func namesPart(text, at string) bool {
	for name := range strings.FieldsFuncSeq(at, func(r rune) bool { return r == '.' || r == '|' }) {
		if strings.Contains(text, strings.TrimRight(name, "[]0123456789")) {
			return true
		}
	}
	return false
}

// Rules that the types have and a schema cannot state, or must not.
var typesOnly = []struct {
	reason, body, text string
	at                 string
}{
	{"a schema cannot compare the items of a list by one member", schema.Message,
		change("ask", `request.options.1.value="ship"`), "request.options[1].value"},
	{"a schema cannot compare two members", schema.GetMessage,
		change("get answered", `response.in_reply_to="msg_2"`), "response.in_reply_to"},
	{"a schema cannot compare two members", schema.GetMessage,
		change("get answered", `response.resolution="expired"`), "response.resolution"},
	{"a bound of this library, in bytes; the protocol has none and a schema counts characters", schema.Response,
		change("answered", `in_reply_to="`+strings.Repeat("é", 257)+`"`), "in_reply_to"},
	{"a bound of this library, in bytes; the protocol has none and a schema counts characters", schema.Message,
		change("ask", `idempotency_key="`+strings.Repeat("k", 513)+`"`), "idempotency_key"},
	{"JSON Schema takes 32.0 for an integer, Go's integers do not", schema.Capability,
		strings.Replace(documents["capability"].text, `"max_batch":32`, `"max_batch":32.0`, 1), "max_batch"},
}

func change(base string, changes ...string) string {
	return edit(nopTB{}, documents[base].text, changes...)
}

// nopTB serves edit outside a test, where only a broken table can fail it.
type nopTB struct{ testing.TB }

func (nopTB) Helper()               {}
func (nopTB) Fatal(args ...any)     { panic(args) }
func (nopTB) Fatalf(string, ...any) { panic("broken table") }

// req: ASK-02 PUL-08
func TestRulesThatASchemaCannotStateAreHeldByTheTypes(t *testing.T) {
	for _, r := range typesOnly {
		if r.reason == "" {
			t.Errorf("%s has no reason", r.at)
		}
		if err := typed(r.body, r.text); err == nil || !strings.Contains(err.Error(), r.at) {
			t.Errorf("types on %s (%s): %v", r.at, r.reason, err)
		}
		if err := schema.Validate("0.4", r.body, []byte(r.text)); err != nil {
			t.Errorf("the schema has the rule, so it is no exception: %v", err)
		}
	}
}

// The schema of a minor does not know what a later one defines; the types read
// one shape for all minors, so they are stricter there.
var laterMembers = []row{
	since("0.4", no("inbound", "capability", `inbound=1`)),
	since("0.4", no("ack", "capability", `ack="x"`)),
	since("0.4", no("presence", "capability", `presence=[]`)),
	since("0.4", no("delivery", "get answered", `delivery=1`)),
	// 0.2 itself pushes at 0.2; this library never does.
	since("0.3", no("ma2h_version", "push", `ma2h_version="0.2"`)),
}

// req: DISC-02 CB-07
func TestAnEarlierSchemaIgnoresWhatALaterMinorDefines(t *testing.T) {
	for _, r := range laterMembers {
		d := documents[r.base]
		text := []byte(edit(t, d.text, r.changes...))
		if err := typed(d.body, string(text)); err == nil {
			t.Errorf("types accept %s %v", r.base, r.changes)
		}
		for _, version := range schema.Versions() {
			err := schema.Validate(version, d.body, text)
			if (err != nil) != (version >= r.from) {
				t.Errorf("schema of %s on %s %v: %v", version, r.base, r.changes, err)
			}
		}
	}
}

func TestEveryDocumentIsValid(t *testing.T) {
	if len(documentNames) != len(documents) {
		t.Fatalf("%d names for %d documents", len(documentNames), len(documents))
	}
	for _, name := range documentNames {
		d := documents[name]
		if err := typed(d.body, d.text); err != nil {
			t.Errorf("%s: types: %v", name, err)
		}
		for _, version := range schema.Versions() {
			if !slices.Contains(schema.Names(version), d.body) {
				continue
			}
			if err := schema.Validate(version, d.body, []byte(d.text)); err != nil {
				t.Errorf("%s: schema of %s: %v", name, version, err)
			}
		}
	}
}
