import type { SenderAnswer, SenderRequest } from "./sender.ts";
import type { SendSettings } from "./outgoing-file.ts";
import { headersFor, type UploadTarget } from "../upload-target.ts";

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
