import {
  isSameResource,
  linkWith,
  parseEntityTag,
  parseReprDigest,
  parseResourceUri,
  SluiceError,
} from "@sluice/core";
import {
  EXTENSION_ID,
  RESOURCE_URI_HEADER,
  STREAM_METHOD,
  type DeliveryMode,
  type DownloadUrlMeta,
} from "@sluice/core/wire";
import * as z from "zod/mini";
import { acceptUrl, type AcceptedUrl, type UrlPolicy } from "../trust/accept-url.ts";
import { classifyAddress } from "../trust/classify-address.ts";
import type { Exchange, HopAnswer, Reach } from "../net/exchange.ts";
import type { Credentials } from "../net/hop-headers.ts";
import { rpcError } from "../calls/rpc-error.ts";
import { beginCall, CALL_META, type CallAnswer, type StreamCall } from "../calls/stream-calls.ts";
import type { StreamSettings } from "./stream-options.ts";

/** What both versions of the SDK's `Client` have. */
export interface StreamingClient {
  // the two SDKs agree on the call and differ in its types
  // oxlint-disable-next-line typescript/no-explicit-any
  request(request: any, resultSchema: any, options?: any): Promise<any>;
}

/** What `resources/stream` granted: bytes on the spot, a URL to fetch them from, or both. */
export interface Permit {
  readonly mode: DeliveryMode;
  /** Bytes on the answer itself; they can be taken once. */
  readonly direct?: HopAnswer;
  /** Where to fetch the bytes, whole or in ranges, while the permission lasts. */
  readonly target?: AcceptedUrl;
  readonly auth: "bound" | "self";
  readonly sessionBound: boolean;
  /** Redirects that may still follow the target. */
  readonly hopsLeft: number;
  /** The MCP server itself said that the target is this resource. */
  readonly named: boolean;
  readonly mimeType?: string;
  readonly size?: number;
  /** Strong, with quotes. */
  readonly etag?: string;
  /** SHA-256 in hex. */
  readonly digest?: string;
  readonly name?: string;
  readonly ttlMs?: number;
  readonly credentials?: Credentials;
  readonly exchange: Exchange;
  readonly reach: Reach;
  readonly policy: UrlPolicy;
}

/**
 * Calls `resources/stream` through an SDK client and sorts the answer. Rejects with the codes of
 * the JSON-RPC error table, `untrusted` for an address that must not be fetched, `protocol`.
 */
export async function requestPermit(
  client: StreamingClient,
  uri: string,
  settings: StreamSettings,
  fallback: Exchange,
): Promise<Permit> {
  const { signal, maxStreamSize, prefer, timeouts } = settings;
  const call: StreamCall = {
    uri,
    streaming: { maxStreamSize, ...(prefer && { prefer }) },
    connectMs: timeouts.connectMs,
    headersMs: timeouts.headersMs,
    signal,
  };
  const result = await callStream(client, call);
  const { answer } = call;
  try {
    return sortAnswer(uri, result, answer, settings, fallback);
  } catch (error) {
    answer?.direct?.body.cancel();
    throw error;
  }
}

async function callStream(client: StreamingClient, call: StreamCall): Promise<StreamResult> {
  const { signal, uri, headersMs } = call;
  signal.throwIfAborted();
  const { id, end } = beginCall(call);
  const late = new AbortController();
  const timer = setTimeout(() => {
    // over HTTP the middleware waits, with the same deadline for each answer
    if (call.answer && call.answer.status === undefined)
      late.abort(new SluiceError("timeout", "client: the server did not answer in time"));
  }, headersMs);
  try {
    const params = { uri, _meta: { [CALL_META]: id } };
    return await client.request({ method: STREAM_METHOD, params }, resultSchema, {
      signal: AbortSignal.any([signal, late.signal]),
    });
  } catch (error) {
    call.answer?.direct?.body.cancel();
    signal.throwIfAborted();
    late.signal.throwIfAborted();
    throw call.answer?.failure ?? refusedBy(call, error);
  } finally {
    clearTimeout(timer);
    end();
  }
}

function refusedBy({ uri, answer }: StreamCall, error: unknown): SluiceError {
  const what = `${STREAM_METHOD} ${JSON.stringify(uri)}`;
  if (answer?.status === 401)
    return new SluiceError("unauthenticated", `client: ${what}: sign in again`, { cause: error });
  if (answer?.status === 403)
    return new SluiceError("permission_denied", `client: ${what}: ask for access`, {
      cause: error,
    });
  // SDK version 1 has a number for it, version 2 a word
  const { code } = (error ?? {}) as { code?: unknown };
  if (!answer && (code === -1 || code === "CLIENT_HTTP_UNEXPECTED_CONTENT"))
    throw new SluiceError(
      "protocol",
      `client: ${what}: the server sent bytes that the SDK cannot read; give the transport the fetch of withStreaming(): { fetch: withStreaming() }`,
      { cause: error },
    );
  return rpcError(what, error);
}

// unknown fields are ignored, fields of a wrong type are an error
const text = z.optional(z.string());
const resultSchema = z.looseObject({
  uri: text,
  downloadUrl: text,
  mimeType: text,
  size: z.optional(z.int().check(z.nonnegative())),
  _meta: z.optional(z.looseObject({})),
});
const metaSchema = z.looseObject({
  auth: z.optional(z.enum(["bound", "self"])),
  etag: text,
  digest: text,
  name: text,
  sessionBound: z.optional(z.boolean()),
  ttlMs: z.optional(z.number().check(z.nonnegative())),
});

type StreamResult = z.infer<typeof resultSchema>;

function sortAnswer(
  uri: string,
  result: StreamResult,
  answer: CallAnswer | undefined,
  settings: StreamSettings,
  fallback: Exchange,
): Permit {
  if (answer?.failure) throw answer.failure;
  const endpoint = answer?.credentials.endpoint;
  const policy = { ...settings, ...(endpoint && { endpoint }) };
  const base = {
    exchange: answer?.exchange ?? fallback,
    ...(answer && { credentials: answer.credentials }),
    reach: reachOf(answer),
    policy,
  };
  if (answer?.direct) return { ...base, ...sortDirect(uri, answer.direct, policy) };
  if (answer?.redirect) return { ...base, ...sortRedirect(uri, answer.redirect, policy) };
  return { ...base, ...sortResult(uri, result, policy) };
}

/** Nothing that the server names may lie deeper inside than the server itself. */
function reachOf(answer: CallAnswer | undefined): Reach {
  if (!answer) return "public";
  const { hostname } = answer.credentials.endpoint;
  const kind =
    classifyAddress(answer.address ?? hostname) ??
    (hostname === "localhost" ? "loopback" : "public");
  return kind === "public" ? "public" : "any";
}

type Sorted = Omit<Permit, "exchange" | "credentials" | "reach" | "policy">;

function sortDirect(uri: string, direct: HopAnswer, policy: UrlPolicy): Sorted {
  ensureNamed(uri, direct.headers);
  const link = linkWith(direct.headers, "stream");
  // a link that may not be followed only costs the way back in
  const target = link === undefined ? undefined : tryAccept(link, policy);
  return {
    mode: "direct",
    direct,
    ...(target && { target }),
    auth: "bound",
    sessionBound: true,
    hopsLeft: 2,
    named: true,
  };
}

function sortRedirect(uri: string, headers: Headers, policy: UrlPolicy): Sorted {
  ensureNamed(uri, headers);
  const { endpoint } = policy;
  const target = acceptUrl(headers.get("location") ?? "", policy, {
    ...(endpoint && { base: endpoint }),
    redirect: true,
  });
  return { mode: "redirect", target, auth: "bound", sessionBound: false, hopsLeft: 2, named: true };
}

function sortResult(uri: string, result: StreamResult, policy: UrlPolicy): Sorted {
  const { downloadUrl, mimeType, size, _meta } = result;
  if (downloadUrl === undefined)
    throw new SluiceError(
      "protocol",
      "client: the server sent neither bytes nor a download URL; give the transport the withStreaming() fetch",
    );
  if (result.uri !== uri)
    throw new SluiceError("protocol", "client: the server answered for another resource");
  const extension = metaSchema.safeParse(_meta?.[EXTENSION_ID] ?? {});
  if (!extension.success)
    throw new SluiceError("protocol", "client: the server's streaming metadata are malformed");
  const meta: Partial<DownloadUrlMeta> = withoutUndefined(extension.data);
  const tag = parseEntityTag(meta.etag);
  const digest = parseReprDigest(meta.digest);
  return {
    mode: "downloadUrl",
    target: acceptDownload(downloadUrl, policy),
    auth: meta.auth ?? "bound",
    sessionBound: meta.sessionBound ?? false,
    hopsLeft: 2,
    named: false,
    ...(mimeType !== undefined && { mimeType }),
    ...(size !== undefined && { size }),
    ...(tag?.strong && { etag: tag.tag }),
    ...(digest !== undefined && { digest }),
    ...(meta.name !== undefined && { name: meta.name }),
    ...(meta.ttlMs !== undefined && { ttlMs: meta.ttlMs }),
  };
}

/**
 * Throws `protocol` unless the headers name this resource. A download URL knows no more how it was
 * spelled in the call, so its server names it in the canonical way.
 */
export function ensureNamed(uri: string, headers: Headers): void {
  const named = parseResourceUri(headers.get(RESOURCE_URI_HEADER));
  if (named === undefined || !isSameResource(named, uri))
    throw new SluiceError("protocol", "client: the server answered for another resource");
}

function acceptDownload(url: string, policy: UrlPolicy): AcceptedUrl {
  try {
    return acceptUrl(url, policy, { redirect: false });
  } catch (error) {
    if (policy.endpoint || !SluiceError.is(error)) throw error;
    throw new SluiceError(
      "untrusted",
      "client: nobody knows which origin is the MCP server's own; give its transport the withStreaming() fetch, or name the download's in trustedOrigins",
      { cause: error },
    );
  }
}

function tryAccept(url: string, policy: UrlPolicy): AcceptedUrl | undefined {
  try {
    const { endpoint } = policy;
    return acceptUrl(url, policy, { ...(endpoint && { base: endpoint }), redirect: false });
  } catch (error) {
    if (SluiceError.is(error)) return undefined;
    throw error;
  }
}

function withoutUndefined(data: object): object {
  return Object.fromEntries(Object.entries(data).filter(([, value]) => value !== undefined));
}
