import { SluiceError } from "@sluice/core";
import { progressBytes, retryDelayMs, sleep } from "@sluice/core/internal";
import { hopHeaders } from "../../net/request-headers.ts";
import type { ClientSession, UploadTarget } from "../upload-target.ts";
import type { SendSettings } from "./outgoing-file.ts";
import type { SenderAnswer, SenderRequest } from "./sender.ts";
import { isNumber, isOptional, isShaped, isText } from "../../calls/shape.ts";
import { isSuccess } from "../../net/http-status.ts";
import { uploadError } from "./upload-error.ts";

/** A request to a target, without what the target and the session add to it. */
export type TargetRequest = Pick<
  SenderRequest,
  "method" | "url" | "headers" | "body" | "signal" | "onSent"
>;

/**
 * Sends a request with the headers that its address may have. If its credentials are refused and there are newer ones,
 * it is sent once more with those.
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

/** The headers that {@link hopHeaders} allows, and those that the server wants back. */
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

/** Headers that a server may not choose: credentials, framing, routing, and what these files set themselves. */
const ownHeaders =
  /^(?:authorization|proxy-.*|cookie|host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-(?:length|type|encoding|disposition)|upload-.*|repr-digest|mcp-.*|origin|referer|forwarded|x-forwarded-.*)$/i;

/** Tries left before an upload is given up; renewed with every 64 KiB of progress. */
interface Tries {
  /** The server has this many bytes for good. */
  progressed(bytes: number): void;
  /** Waits before a retry, or throws the error if there were too many or it cannot be mended. */
  again(error: unknown): Promise<void>;
}

/** Counts tries, with the pauses of a download. */
export function countTries(signal: AbortSignal, pauseScale: number): Tries {
  let tries = 0;
  let mark = 0;
  return {
    progressed(bytes) {
      if (bytes - mark < progressBytes) return;
      mark = bytes;
      tries = 0;
    },
    async again(error) {
      signal.throwIfAborted();
      if (!SluiceError.is(error) || !error.retryable) throw error;
      const delayMs = retryDelayMs(tries, error.retryAfterMs, Math.random());
      if (delayMs === undefined) throw error;
      tries += 1;
      await sleep(delayMs * pauseScale, signal);
    },
  };
}

/** Our endpoint's facts about a file it has. Others may say anything, or nothing. */
const isAnswer = isShaped({
  size: isOptional(isNumber),
  sha256: isOptional((value): value is string => isText(value) && /^[0-9a-f]{64}$/i.test(value)),
});

/** Throws unless all was sent and taken: the fault for the status, `protocol` for a success before the last byte. */
export function ensureTaken(answer: SenderAnswer): void {
  if (!isSuccess(answer.status)) throw uploadError(answer);
  if (!answer.sentAll)
    throw new SluiceError(
      "protocol",
      "client: the server claims to have the whole file before it was sent",
    );
}

/** The same for one file. Also throws `corrupt` if the response has another size or digest. */
export function ensureReceived(
  answer: SenderAnswer,
  file: { readonly size: number; readonly sha256?: string },
): void {
  ensureTaken(answer);
  if (!isAnswer(answer.json)) return;
  const { size, sha256 } = answer.json;
  const isOther =
    (size !== undefined && size !== file.size) ||
    (sha256 !== undefined && file.sha256 !== undefined && sha256.toLowerCase() !== file.sha256);
  if (isOther)
    throw new SluiceError(
      "corrupt",
      "client: the file did not arrive as it was sent; send it again",
    );
}
