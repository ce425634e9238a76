import { streamingCapabilities } from "@sluice/client";
import { linkWith, parseReprDigest, readJson } from "@sluice/core";
import { RESOURCE_URI_HEADER, STREAM_METHOD } from "@sluice/core/wire";
import { CAPABILITIES_KEY } from "../../messages/envelope.ts";
import { membersOf } from "../../messages/messages.ts";
import { lateMs, type SeenBody, type SentCall } from "../evidence.ts";
import { getBytes } from "./get-bytes.ts";
import { acceptNamed } from "./probe-grant.ts";
import { answerMs, type Visit } from "./visit.ts";

/** Bytes of a direct answer to read from its beginning. */
const directBytes = 256 * 1024;

/** With less left of what may be downloaded, nothing is. */
const leastBytes = 4_096;

/** Asks for the bytes in the answer itself, as clients do. Its link stands in for a download URL that was not given. */
export async function probeDirect(visit: Visit): Promise<void> {
  const { evidence, budget, client, signal } = visit;
  const sent = evidence.exchanges.findLast(({ rpcMethod }) => rpcMethod === STREAM_METHOD)?.sent;
  if (!sent || budget.left < leastBytes) return;
  const direct = await postStream(visit, sent, Math.min(directBytes, Math.floor(budget.left / 3)));
  if (direct.status !== 200 || !direct.headers.has(RESOURCE_URI_HEADER)) return;
  evidence.direct = direct;
  const link = linkWith(direct.headers, "stream");
  if (!evidence.grant && link !== undefined)
    evidence.grant = {
      text: link,
      accepted: acceptNamed(link, visit),
      size: sizeIn(direct),
      sha256: parseReprDigest(direct.headers.get("repr-digest") ?? ""),
    };
  if (direct.firstByteMs < lateMs) return;
  const second = await postStream(visit, sent, 1);
  // what any request takes is not held back
  const begun = performance.now();
  await client.request({ method: "resources/list" }, { signal, timeout: answerMs }).catch(() => {});
  signal.throwIfAborted();
  const soonestMs = Math.min(direct.firstByteMs, second.firstByteMs);
  evidence.isDirectHeld = soonestMs > lateMs && soonestMs > 5 * (performance.now() - begun);
}

/** The call as it was made before, by a client that would rather have the bytes. */
function postStream(visit: Visit, { headers, body }: SentCall, atMost: number): Promise<SeenBody> {
  const message = membersOf(readJson(body).value);
  const params = membersOf(message["params"]);
  const meta = membersOf(params["_meta"]);
  const declared = membersOf(meta[CAPABILITIES_KEY]);
  const direct = streamingCapabilities({ prefer: ["direct"] });
  const extensions = { ...membersOf(declared["extensions"]), ...direct.extensions };
  const _meta = { ...meta, [CAPABILITIES_KEY]: { ...declared, ...direct, extensions } };
  return getBytes(visit, visit.evidence.endpoint, {
    atMost,
    post: {
      body: JSON.stringify({ ...message, id: "direct", params: { ...params, _meta } }),
      headers: { ...headers, accept: "application/json, text/event-stream, */*" },
    },
  });
}

function sizeIn({ headers }: SeenBody): number | undefined {
  const length = headers.get("content-length");
  return length === null ? undefined : Number(length);
}
