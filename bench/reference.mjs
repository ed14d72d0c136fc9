// Verifies pushes with the TypeScript reference of the protocol, in the folder
// of which this runs, and says how long it took. Each line of the input is one
// of {"pushes": {...}}, which is answered with 0, and {"n": 100}, which is
// answered with the nanoseconds of 100 verifications.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { buildSignedContext, computePayloadSha256, verifyResponse } = await import(pathToFileURL("src/signing.ts"));

let pushes;
const seen = new Set();

function verify(body, header) {
  const items = {};
  for (const item of header.split(",")) {
    const i = item.indexOf("=");
    items[item.slice(0, i)] = item.slice(i + 1);
  }
  const r = JSON.parse(body);
  const context = buildSignedContext({
    ma2h_version: r.ma2h_version,
    callback_url: pushes.callback_url,
    id: r.in_reply_to,
    in_reply_to: r.in_reply_to,
    jti: items.jti,
    payload_sha256: computePayloadSha256(r.response, r.state),
    resolution: r.resolution,
    resolution_id: r.resolution_id,
    resolved_at: r.response.resolved_at,
    t: items.t,
  });
  const verdict = verifyResponse(context, items.v1, { key: pushes.key });
  if (!verdict.ok) throw new Error(verdict.reason);
  if (seen.has(items.jti)) throw new Error("replayed");
  seen.add(items.jti);
  return r;
}

console.log(process.version);
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  if (order.pushes) {
    pushes = order.pushes;
    console.log("0");
    continue;
  }
  const begin = process.hrtime.bigint();
  for (let i = 0; i < order.n; i++) {
    const k = i % pushes.headers.length;
    if (k === 0) seen.clear();
    verify(pushes.body, pushes.headers[k]);
  }
  console.log(String(process.hrtime.bigint() - begin));
}
