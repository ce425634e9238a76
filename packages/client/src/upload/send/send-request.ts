import { hopHeaders } from "../../net/hop-headers.ts";
import type { ClientSession } from "../session.ts";
import type { UploadTarget } from "../upload-target.ts";
import type { SendSettings } from "./outgoing-file.ts";
import type { SenderAnswer, SenderRequest } from "./sender.ts";

/** A request to a target, without what the target and the session add to it. */
export type TargetRequest = Pick<
  SenderRequest,
  "method" | "url" | "headers" | "body" | "signal" | "onSent"
>;

/**
 * Sends a request with the headers that its address may have. When its credentials are refused and
 * there are others by now, it is sent once more with those.
 */
export async function sendRequest(
  request: TargetRequest,
  target: UploadTarget,
  { sender, trust, timeouts }: SendSettings,
): Promise<SenderAnswer> {
  const send = (added: Record<string, string>): Promise<SenderAnswer> =>
    sender.send({
      ...request,
      headers: { ...added, ...request.headers },
      scope: target.scope,
      timeouts,
    });
  const before = await headersFor(request.url, target, trust.session);
  const answer = await send(before);
  if (answer.status !== 401) return answer;
  const now = await headersFor(request.url, target, trust.session);
  return now["authorization"] === before["authorization"] ? answer : send(now);
}

/** What {@link hopHeaders} allows, and what the server wants to see again. */
async function headersFor(
  url: URL,
  target: UploadTarget,
  session: ClientSession,
): Promise<Record<string, string>> {
  // credentials are asked for where they may go, and nowhere else
  const isOwn = target.auth === "bound" && url.origin === session.endpoint.origin;
  const headers = hopHeaders(url, target, isOwn ? await session.credentials() : undefined);
  for (const [name, value] of Object.entries(target.headers ?? {}))
    if (!ownHeaders.test(name)) headers[name.toLowerCase()] = value;
  return headers;
}

/** What a server may not choose: credentials, framing, routing, and what these files set themselves. */
const ownHeaders =
  /^(?:authorization|proxy-.*|cookie|host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-(?:length|type|encoding|disposition)|upload-.*|repr-digest|mcp-.*|origin|referer|forwarded|x-forwarded-.*)$/i;
