import { SluiceError } from "@sluice/core";
import {
  definedMembers,
  type DownloadUrlMeta,
  EXTENSION_ID,
  onAbort,
  parseEntityTag,
  parseReprDigest,
  STREAM_METHOD,
  systemClock,
} from "@sluice/core/internal";
import { acceptUrl, type AcceptedUrl, type UrlPolicy } from "../trust/accept-url.ts";
import { unanswered } from "../net/timeouts.ts";
import type { HopExchange } from "../net/exchange.ts";
import {
  type RequestingClient,
  beginCall,
  CALL_META,
  type CallAnswer,
  type StreamCall,
} from "../calls/stream-calls.ts";
import { createLoader } from "../net/load-code.ts";
import {
  isCount,
  isFlag,
  isNumber,
  isObject,
  isOneOf,
  isOptional,
  isShaped,
  isText,
  schemaOf,
  type ShapeOf,
} from "../calls/shape.ts";
import type { DownloadGrant, GrantFacts } from "./download-grant.ts";
import type { StreamSettings } from "./stream-options.ts";

/**
 * Calls `resources/stream` through an SDK client and sorts the response. Rejects with the codes of
 * the JSON-RPC error table, `untrusted` for an address that must not be fetched, `protocol`.
 */
export async function requestGrant(
  client: RequestingClient,
  uri: string,
  settings: StreamSettings,
  fallback: HopExchange,
): Promise<DownloadGrant> {
  const { signal, maxStreamBytes, prefer, timeouts } = settings;
  const call: StreamCall = {
    method: STREAM_METHOD,
    uri,
    streaming: definedMembers({ maxStreamBytes, prefer }),
    connectMs: timeouts.connectMs,
    headersMs: timeouts.headersMs,
    signal,
  };
  const result = await callStream(client, call, { uri });
  const { answer } = call;
  try {
    return await sortAnswer(uri, result, answer, settings, fallback);
  } catch (error) {
    answer?.direct?.body.cancel();
    throw error;
  }
}

/** Makes a call whose bytes are then in its answer. Rejects with the refusal as an error of ours. */
export async function requestBytes(
  client: RequestingClient,
  call: StreamCall,
  params: Readonly<Record<string, unknown>>,
): Promise<void> {
  await callStream(client, call, params);
}

async function callStream(
  client: RequestingClient,
  call: StreamCall,
  params: Readonly<Record<string, unknown>>,
): Promise<StreamResult> {
  const { method, signal, headersMs } = call;
  signal.throwIfAborted();
  const { id, end } = beginCall(call);
  const stop = new AbortController();
  const removeListener = onAbort(signal, (reason) => stop.abort(reason));
  const stopTimer = systemClock.schedule(() => {
    // over HTTP the middleware waits, with the same deadline for each response
    if (call.answer && call.answer.status === undefined) stop.abort(unanswered());
  }, headersMs);
  try {
    const request = { method, params: { ...params, _meta: { [CALL_META]: id } } };
    return await client.request(request, schemaOf(isResult), { signal: stop.signal });
  } catch (error) {
    call.answer?.direct?.body.cancel();
    stop.signal.throwIfAborted();
    throw call.answer?.failure ?? (await refusedBy(call, error));
  } finally {
    stopTimer();
    removeListener();
    end();
  }
}

/** Says what was refused; needed only then. */
const loadRefusals = createLoader(() => import("./refused-call.ts"), "the table of errors");

async function refusedBy(call: StreamCall, error: unknown): Promise<SluiceError> {
  const refusals = await loadRefusals().catch(() => undefined);
  const unknown = `client: ${JSON.stringify(call.uri)}: the call failed`;
  return (
    refusals?.refusalOf(call, error) ?? new SluiceError("unavailable", unknown, { cause: error })
  );
}

// unknown fields are ignored, fields of a wrong type are an error
const mayBeText = isOptional(isText);
const isResult = isShaped({
  uri: mayBeText,
  downloadUrl: mayBeText,
  mimeType: mayBeText,
  size: isOptional(isCount),
  _meta: isOptional(isObject),
});
const isMeta = isShaped({
  auth: isOptional(isOneOf("bound", "self")),
  etag: mayBeText,
  digest: mayBeText,
  name: mayBeText,
  sessionBound: isOptional(isFlag),
  ttlMs: isOptional(isNumber),
});

type StreamResult = ShapeOf<typeof isResult>;

async function sortAnswer(
  uri: string,
  result: StreamResult,
  answer: CallAnswer | undefined,
  settings: StreamSettings,
  fallback: HopExchange,
): Promise<DownloadGrant> {
  if (answer?.failure) throw answer.failure;
  const { trustedOrigins } = settings;
  const credentials = answer?.credentials;
  const policy = { endpoint: credentials?.endpoint, trustedOrigins };
  const base = {
    exchange: answer?.exchange ?? fallback,
    credentials,
    scope: credentials ? { endpoint: credentials.endpoint, address: answer?.address } : "public",
    policy,
    isLink: answer?.isLink === true,
  } as const;
  const { direct, redirect } = answer ?? {};
  if (direct || redirect) {
    const { sortDirect, sortRedirect } = await loadDirect();
    const sorted = direct
      ? sortDirect(uri, direct, policy)
      : sortRedirect(uri, redirect as Headers, policy);
    return { ...base, ...sorted };
  }
  return { ...base, ...sortResult(uri, result, policy) };
}

/** A page asks for download URLs, unless it is told to ask for more. */
const loadDirect = createLoader(() => import("./direct-grant.ts"), "the reader of direct answers");

function sortResult(uri: string, result: StreamResult, policy: UrlPolicy): GrantFacts {
  const { downloadUrl, mimeType, size, _meta } = result;
  if (downloadUrl === undefined)
    throw new SluiceError(
      "protocol",
      "client: the server sent neither bytes nor a download URL; give the transport createStreaming().fetch",
    );
  if (result.uri !== uri)
    throw new SluiceError("protocol", "client: the server answered for another resource");
  const extension = _meta?.[EXTENSION_ID] ?? {};
  if (!isMeta(extension) || (extension.ttlMs ?? 0) < 0)
    throw new SluiceError("protocol", "client: the server's streaming metadata are malformed");
  const meta: Partial<DownloadUrlMeta> = definedMembers({ ...extension });
  const tag = parseEntityTag(meta.etag);
  return {
    mode: "downloadUrl",
    target: acceptDownload(downloadUrl, policy),
    auth: meta.auth ?? "bound",
    sessionBound: meta.sessionBound ?? false,
    hopsLeft: 2,
    named: false,
    mimeType,
    size,
    etag: tag?.strong ? tag.tag : undefined,
    sha256: parseReprDigest(meta.digest),
    name: meta.name,
    ttlMs: meta.ttlMs,
  };
}

function acceptDownload(url: string, policy: UrlPolicy): AcceptedUrl {
  try {
    return acceptUrl(url, policy, { redirect: false });
  } catch (error) {
    if (policy.endpoint || !SluiceError.is(error)) throw error;
    throw new SluiceError(
      "untrusted",
      "client: the MCP server's origin is unknown; give the transport createStreaming().fetch, or name trustedOrigins",
      { cause: error },
    );
  }
}
