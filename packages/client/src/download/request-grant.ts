import {
  definedMembers,
  linkWith,
  parseEntityTag,
  parseReprDigest,
  SluiceError,
} from "@sluice/core";
import { systemClock } from "@sluice/core/async";
import { EXTENSION_ID, STREAM_METHOD, type DownloadUrlMeta } from "@sluice/core/wire";
import * as z from "zod/mini";
import { acceptUrl, type AcceptedUrl, type UrlPolicy } from "../trust/accept-url.ts";
import { scopeOfServer } from "../trust/classify-address.ts";
import { unanswered } from "../net/timeouts.ts";
import type { Exchange, HopAnswer } from "../net/exchange.ts";
import type { RequestingClient } from "../calls/requesting-client.ts";
import { rpcError } from "../calls/rpc-error.ts";
import { beginCall, CALL_META, type CallAnswer, type StreamCall } from "../calls/stream-calls.ts";
import { ensureNamed } from "./check-answer.ts";
import type { DownloadGrant } from "./download-grant.ts";
import type { StreamSettings } from "./stream-options.ts";

/**
 * Calls `resources/stream` through an SDK client and sorts the answer. Rejects with the codes of
 * the JSON-RPC error table, `untrusted` for an address that must not be fetched, `protocol`.
 */
export async function requestGrant(
  client: RequestingClient,
  uri: string,
  settings: StreamSettings,
  fallback: Exchange,
): Promise<DownloadGrant> {
  const { signal, maxStreamSize, prefer, timeouts } = settings;
  const call: StreamCall = {
    uri,
    streaming: definedMembers({ maxStreamSize, prefer }),
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

async function callStream(client: RequestingClient, call: StreamCall): Promise<StreamResult> {
  const { signal, uri, headersMs } = call;
  signal.throwIfAborted();
  const { id, end } = beginCall(call);
  const late = new AbortController();
  const stopTimer = systemClock.schedule(() => {
    // over HTTP the middleware waits, with the same deadline for each answer
    if (call.answer && call.answer.status === undefined) late.abort(unanswered());
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
    stopTimer();
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
): DownloadGrant {
  if (answer?.failure) throw answer.failure;
  const { trustedOrigins, redirects } = settings;
  const credentials = answer?.credentials;
  const policy = { endpoint: credentials?.endpoint, trustedOrigins, redirects };
  const base = {
    exchange: answer?.exchange ?? fallback,
    credentials,
    scope: answer ? scopeOfServer(answer.credentials.endpoint, answer.address) : "public",
    policy,
    isLink: answer?.isLink === true,
  } as const;
  if (answer?.direct) return { ...base, ...sortDirect(uri, answer.direct, policy) };
  if (answer?.redirect) return { ...base, ...sortRedirect(uri, answer.redirect, policy) };
  return { ...base, ...sortResult(uri, result, policy) };
}

type Sorted = Omit<DownloadGrant, "exchange" | "credentials" | "scope" | "policy" | "isLink">;

function sortDirect(uri: string, direct: HopAnswer, policy: UrlPolicy): Sorted {
  ensureNamed(uri, direct.headers);
  const link = linkWith(direct.headers, "stream");
  // a link that may not be followed only costs the way back in
  const target = link === undefined ? undefined : tryAccept(link, policy);
  return {
    mode: "direct",
    direct,
    target,
    auth: "bound",
    sessionBound: true,
    hopsLeft: 2,
    named: true,
  };
}

function sortRedirect(uri: string, headers: Headers, policy: UrlPolicy): Sorted {
  ensureNamed(uri, headers);
  const hop = { base: policy.endpoint, redirect: true };
  const target = acceptUrl(headers.get("location") ?? "", policy, hop);
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
  const meta: Partial<DownloadUrlMeta> = definedMembers(extension.data);
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
    digest: parseReprDigest(meta.digest),
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
      "client: the MCP server's own origin is unknown; give its transport the withStreaming() fetch, or name the download's in trustedOrigins",
      { cause: error },
    );
  }
}

function tryAccept(url: string, policy: UrlPolicy): AcceptedUrl | undefined {
  try {
    return acceptUrl(url, policy, { base: policy.endpoint, redirect: false });
  } catch (error) {
    if (SluiceError.is(error)) return undefined;
    throw error;
  }
}
