import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { METHOD_HEADER } from "@sluice/core/wire";
import { endOnDrain } from "./open-answers.ts";
import type { OutflowOptions } from "./outflow.ts";
import { LISTEN_METHOD } from "./stream-call.ts";

/**
 * Sends a web response that is no reply of ours: JSON and event streams of MCP. A body that breaks,
 * or has another length than its header says, destroys the connection, and so does a reader that
 * takes nothing. An event stream may be silent for as long as it likes.
 */
export async function sendResponse(
  res: ServerResponse,
  response: Response,
  { stallTimeoutMs = 30_000 }: Pick<OutflowOptions, "stallTimeoutMs"> = {},
): Promise<void> {
  const { body, headers } = response;
  if (res.destroyed) return body?.cancel();
  const fields: OutgoingHttpHeaders = Object.fromEntries(headers);
  const cookies = headers.getSetCookie();
  if (cookies.length > 0) fields["set-cookie"] = cookies;
  res.writeHead(response.status, fields);
  if (!body) return void res.end();
  res.flushHeaders();

  const reader = body.getReader();
  const promised = headers.get("content-length");
  let wake: (() => void) | undefined;
  const onDrain = (): void => wake?.();
  const onClose = (): void => {
    wake?.();
    reader.cancel().catch(() => {});
  };
  const giveUp = (): void => void res.destroy();
  const idleMs = res.socket?.timeout ?? 0;
  res.on("timeout", giveUp);
  res.on("drain", onDrain);
  res.on("close", onClose);
  if (isEndless(res.req, headers)) endOnDrain(res, () => res.end());
  let sent = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (res.destroyed || res.writableEnded) return;
      if (done) break;
      sent += value.byteLength;
      if (promised !== null && sent > Number(promised)) return void res.destroy();
      if (res.write(value)) continue;
      res.setTimeout(stallTimeoutMs);
      await new Promise<void>((resolve) => void (wake = resolve));
      res.setTimeout(idleMs);
    }
    if (promised !== null && sent < Number(promised)) res.destroy();
    else res.end();
  } catch {
    // the stream's maker knows why it broke; the receiver must see that it did
    res.destroy();
  } finally {
    res.off("timeout", giveUp);
    res.off("drain", onDrain);
    res.off("close", onClose);
  }
}

/** Streams of events that tell what happens for as long as somebody listens, who opens them again when they end. */
function isEndless({ method, headers: asked }: IncomingMessage, headers: Headers): boolean {
  if (!headers.get("content-type")?.startsWith("text/event-stream")) return false;
  return method === "GET" || asked[METHOD_HEADER] === LISTEN_METHOD;
}
