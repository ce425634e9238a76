import { request } from "undici";
import type { SeenBody, SentCall } from "../evidence.ts";
import { answerMs, type Visit } from "./visit.ts";

/** What of a URL to read. */
export interface Reading {
  readonly range?: string;
  /** Bytes after which to stop. */
  readonly atMost: number;
  /** Sends no credentials to any origin. Default: they go to the endpoint's own. */
  readonly isBare?: boolean;
  /** A message to POST in place of the GET, with all of its headers. */
  readonly post?: SentCall;
}

/** Reads a URL as downloads do, with credentials at the endpoint's own origin only. Rejects only with the abort's reason. */
export async function getBytes(
  { dispatcher, evidence, headers, client, budget, signal }: Visit,
  url: URL,
  { range, atMost, isBare, post }: Reading,
): Promise<SeenBody> {
  const sent: Record<string, string> = {
    accept: "*/*",
    ...post?.headers,
    "accept-encoding": "identity",
  };
  if (range !== undefined) sent["range"] = range;
  if (!post && !isBare && url.origin === evidence.endpoint.origin) {
    Object.assign(sent, headers);
    const { sessionId } = (client.transport ?? {}) as { readonly sessionId?: string };
    if (sessionId !== undefined) sent["mcp-session-id"] = sessionId;
  }
  const limit = Math.max(1, Math.min(atMost, budget.left));
  const chunks: Uint8Array[] = [];
  let [status, received, isWhole, firstByteMs] = [0, 0, false, 0];
  let answered = new Headers();
  const begun = performance.now();
  try {
    const end = AbortSignal.any([signal, AbortSignal.timeout(answerMs)]);
    const method = post ? "POST" : "GET";
    const body = post?.body ?? null;
    const answer = await request(url, { dispatcher, method, headers: sent, body, signal: end });
    status = answer.statusCode;
    answered = new Headers();
    for (const [name, value] of Object.entries(answer.headers))
      if (value !== undefined) answered.set(name, [value].flat().join(", "));
    for await (const chunk of answer.body as AsyncIterable<Uint8Array>) {
      if (received === 0) firstByteMs = performance.now() - begun;
      const part = chunk.subarray(0, limit - received);
      chunks.push(part);
      received += part.length;
      budget.take(part.length);
      if (part.length < chunk.length || received === limit) break;
    }
    isWhole = answer.body.readableEnded || received < limit;
  } catch (fault) {
    signal.throwIfAborted();
    return { status, headers: answered, bytes: Buffer.concat(chunks), isWhole, firstByteMs, fault };
  }
  return { status, headers: answered, bytes: Buffer.concat(chunks), isWhole, firstByteMs };
}
