import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import {
  discardSource,
  formatContentDisposition,
  formatEntityTag,
  formatReprDigest,
  formatResourceUri,
  isProtocolType,
  parseMediaType,
  SluiceError,
} from "@sluice/core";
import {
  EXTENSION_ID,
  RESOURCE_URI_HEADER,
  type ClientStreaming,
  type DeliveryMode,
  type DownloadUrlMeta,
  type DownloadUrlResult,
  type Era,
} from "@sluice/core/wire";
import type { ObjectInfo } from "@sluice/storage";
import { reasonOf } from "../access/access.ts";
import type { AuditEntry } from "../audit/audit.ts";
import { byteHeaders } from "./byte-headers.ts";
import { clientStreaming, eraOf } from "./client-streaming.ts";
import { deliveryOrder } from "./delivery.ts";
import type { Identity } from "../access/principal.ts";
import type { IsElsewhere } from "../sdk/registered-elsewhere.ts";
import type { Reach } from "../access/reach.ts";
import { discardReply, type Reply } from "./reply.ts";
import { resourceName } from "../resources/resource-type.ts";
import { faultOf, rpcFault, type RpcFault } from "../sdk/rpc-fault.ts";
import { signInFault } from "../access/sign-in-fault.ts";
import { isRedirectTarget } from "../options/sluice-options.ts";
import {
  callerOf,
  carrierOf,
  outcomeOf,
  tagOf,
  type SluiceParts,
} from "../options/sluice-parts.ts";
import { storageFault } from "../resources/storage-fault.ts";
import { slotOf, type StreamSlot } from "./stream-slot.ts";
import { createTransfer } from "./transfer.ts";

/** Thrown with the exact fault, where the error table alone does not say it. */
class StreamRefusal extends Error {
  readonly fault: RpcFault;
  constructor(fault: RpcFault) {
    super(fault.message);
    this.fault = fault;
  }
}

/** What a `resources/stream` handler works on. */
export interface StreamCall {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
  readonly uri: string;
  /** True when `resources/read` of a URI would come to this Sluice, and is enabled. */
  readonly isOurs: (uri: string, ctx: ServerContext) => Promise<boolean>;
  readonly isElsewhere: IsElsewhere;
}

/** The result for the SDK to send, or a fault; bytes and redirects go to the request's slot. */
export type StreamOutcome =
  | { readonly result: Record<string, unknown>; readonly fault?: never }
  | { readonly fault: RpcFault; readonly result?: never };

/**
 * Answers `resources/stream`. Order: rate → key → access → scopes → describe → capability → size →
 * mode → grant → record. It never rejects.
 */
export function streamResource(parts: SluiceParts, call: StreamCall): Promise<StreamOutcome> {
  const { mcp, ctx, uri } = call;
  const era = eraOf(mcp);
  const slot = slotOf(ctx.http?.req);
  const address = parts.addressOf(callerOf(ctx, mcp));
  const entry = parts.beginAudit({ action: "stream", era, uri, address }, carrierOf(ctx));
  return entry.run(() => answerCall(parts, { ...call, era, slot, entry }));
}

async function answerCall(parts: SluiceParts, call: Answering): Promise<StreamOutcome> {
  const { ctx, uri, era, slot, entry } = call;
  try {
    const answer = await answerStream(parts, call);
    if (answer.result) return { result: answer.result };
    if (slot === undefined || slot.isClosed) discardReply(answer.reply);
    else slot.reply = answer.reply;
    // a placeholder for the SDK's own checks: the transport replaces the response
    return { result: { uri } };
  } catch (error) {
    const fault = error instanceof StreamRefusal ? error.fault : faultFor(parts, error, era, uri);
    const outcome = error instanceof StreamRefusal ? "denied" : outcomeOf(error);
    const reason = error instanceof StreamRefusal ? fault.data.reason : reasonOf(error);
    const isGone = ctx.http?.req?.signal.aborted === true;
    if (isGone) entry.end("aborted");
    else entry.end(outcome, { reason });
    if (outcome === "failed" && !isGone) parts.onError(error);
    if (slot) slot.fault = fault;
    return { fault };
  }
}

type Answer =
  | { readonly reply: Reply; readonly result?: never }
  | { readonly result: DownloadUrlResult & Record<string, unknown> };

interface Answering extends StreamCall {
  readonly era: Era;
  readonly slot: StreamSlot | undefined;
  readonly entry: AuditEntry;
}

async function answerStream(parts: SluiceParts, call: Answering): Promise<Answer> {
  const { mcp, ctx, uri, era, slot, entry, isOurs } = call;
  const caller = callerOf(ctx, mcp);
  const { address } = caller;
  const identity = await parts.identify(caller);
  const { principal } = identity;
  entry.facts.principal = tagOf(principal);
  await parts.usage.admit(entry.facts.principal, "transfer");
  const key = await keyOf(parts, call);
  const canonical = parts.mapper.toUri(key);
  const storage = await parts.reach({ principal, key, action: "stream" });
  // the SDK compares spellings: another one must not lead around what the author registered
  for (const spelling of new Set([canonical, uri])) {
    await ensureScopes(parts, { mcp, ctx, uri: spelling, era });
    if (!(await isOurs(spelling, ctx)))
      throw new SluiceError("unsupported", "sluice: stream: read of this URI is not ours");
  }

  const signal = ctx.http?.req?.signal;
  const info = await storage
    .describe(key, signal ? { signal } : {})
    .catch((error: unknown) => Promise.reject(storageFault(error)));
  const declared = clientStreaming(mcp, ctx, slot);
  if (!declared) throw new StreamRefusal(rpcFault("client_capability", era, { uri }));
  const isUntold = declared === "untold";
  const client = isUntold ? {} : declared;
  ensureFits(info, client);

  const mimeType = await storage
    .typeOf(info, signal ? { signal } : {})
    .catch((error: unknown) => Promise.reject(storageFault(error)));
  const subject: Subject = { uri, key, info, mimeType, identity, address, client, entry, signal };
  for (const mode of modesFor(parts, {
    subject,
    storage,
    hasSlot: slot !== undefined && !isUntold,
  })) {
    entry.facts.mode = mode;
    const answer = await attempt(parts, { mode, subject, storage });
    if (answer) return answer;
  }
  if (!identity.mayMint)
    throw new SluiceError(
      "unauthenticated",
      "sluice: stream: no download URL for the anonymous; authenticate, or set anonymous: true",
    );
  throw new SluiceError("unsupported", "sluice: stream: no way to deliver it");
}

/** The key of a URI; what the author serves outside of the base is there, and cannot stream. */
async function keyOf(
  { mapper }: SluiceParts,
  { uri, ctx, isElsewhere }: Answering,
): Promise<string> {
  try {
    return mapper.toKey(uri);
  } catch (error) {
    if (!SluiceError.is(error) || error.code !== "not_found") throw error;
    if (!(await isElsewhere(uri, ctx))) throw error;
    throw new SluiceError("unsupported", "sluice: stream: the author serves this URI");
  }
}

interface Subject {
  readonly uri: string;
  readonly key: string;
  readonly info: ObjectInfo;
  readonly mimeType: string;
  readonly identity: Identity;
  readonly address: string | undefined;
  readonly client: ClientStreaming;
  readonly entry: AuditEntry;
  readonly signal: AbortSignal | undefined;
}

function modesFor(
  parts: SluiceParts,
  { subject, storage, hasSlot }: { subject: Subject; storage: Reach; hasSlot: boolean },
): DeliveryMode[] {
  const { delivery = "auto", redirectOrigins = [] } = parts.options;
  const { uri, info, mimeType, client, identity } = subject;
  const policy =
    typeof delivery === "function"
      ? delivery({ uri, info, mimeType, principal: identity.principal, client })
      : delivery;
  return deliveryOrder(policy, client.prefer ?? [], {
    direct: hasSlot && !isProtocol(mimeType),
    redirect: hasSlot && storage.presign !== undefined && redirectOrigins.length > 0,
    downloadUrl: identity.mayMint,
  });
}

/** True for bytes that could pose as an answer of the protocol itself. */
function isProtocol(mimeType: string): boolean {
  return isProtocolType(parseMediaType(mimeType)?.essence ?? "");
}

interface Attempt {
  readonly mode: DeliveryMode;
  readonly subject: Subject;
  readonly storage: Reach;
}

function attempt(
  parts: SluiceParts,
  { mode, subject, storage }: Attempt,
): Promise<Answer | undefined> {
  if (mode === "direct") return direct(parts, storage, subject);
  if (mode === "redirect") return redirect(parts, storage, subject);
  return downloadUrl(parts, subject);
}

async function direct(
  parts: SluiceParts,
  storage: Reach,
  { uri, key, info, mimeType: described, client, identity, address, entry, signal }: Subject,
): Promise<Answer | undefined> {
  const release = parts.slots.take(tagOf(identity.principal), address);
  try {
    const opened = await storage
      .open(key, signal ? { signal } : {})
      .catch((error: unknown) => Promise.reject(storageFault(error)));
    const transfer = createTransfer(parts, { opened, entry, release });
    try {
      // it may have grown since it was described
      ensureFits(opened.info, client);
      const isDescribed = opened.info.etag === info.etag;
      const mimeType = isDescribed ? described : await storage.typeOf(opened.info);
      if (isProtocol(mimeType)) {
        await discardSource(opened);
        release();
        return undefined;
      }
      const headers = byteHeaders({
        uri,
        info: opened.info,
        mimeType,
        rangeable: opened.info.etag !== undefined,
        exactType: true,
      });
      const grant = await mintLink(parts, { identity, key }, opened.info.etag);
      if (grant) {
        entry.facts.grant = grant.id;
        headers.push("Link", `<${grant.url}>; rel="stream"`);
      }
      await entry.admit();
      return { reply: { status: 200, headers, transfer } };
    } catch (error) {
      await discardSource(opened, error);
      throw error;
    }
  } catch (error) {
    release();
    throw error;
  }
}

/** A URL to go on from, for bytes that are here: without a store to keep it in, they go without one. */
async function mintLink(
  { grants, onError }: SluiceParts,
  { identity, key }: Pick<Subject, "identity" | "key">,
  etag: string | undefined,
): ReturnType<SluiceParts["mint"]> {
  try {
    return await grants.mint(identity, key, etag);
  } catch (error) {
    if (!SluiceError.is(error)) throw error;
    if (error.code === "unavailable") onError(error);
    else if (error.code !== "throttled") throw error;
    return undefined;
  }
}

async function redirect(
  parts: SluiceParts,
  storage: Reach,
  { uri, key, info, mimeType, identity, entry, signal }: Subject,
): Promise<Answer | undefined> {
  const wanted = { expiresInMs: 300_000, ...(signal && { signal }) };
  const named = {
    contentType: mimeType,
    contentDisposition: formatContentDisposition(resourceName(key)),
  };
  // some services, such as Graph, sign URLs but let nobody choose the headers of their answers
  const presigned =
    (await storage.presign?.(key, { ...wanted, ...named })) ??
    (await storage.presign?.(key, wanted));
  if (!presigned || !isRedirectTarget(presigned.url, parts.options.redirectOrigins ?? []))
    return undefined;
  await entry.conclude("issued");
  // nobody here will see the bytes: what may be fetched counts as fetched
  parts.usage.charge(tagOf(identity.principal), info.size ?? 0);
  const headers = [
    "Location",
    presigned.url,
    RESOURCE_URI_HEADER,
    formatResourceUri(uri),
    "Cache-Control",
    "no-store",
    "Referrer-Policy",
    "no-referrer",
    "Content-Length",
    "0",
  ];
  return { reply: { status: 302, headers } };
}

async function downloadUrl(
  parts: SluiceParts,
  { uri, key, info, mimeType, identity, entry }: Subject,
): Promise<Answer | undefined> {
  const grant = await parts.grants.mint(identity, key, info.etag);
  if (!grant) return undefined;
  entry.facts.grant = grant.id;
  await entry.conclude("issued");
  const { principal } = identity;
  const sha256 = info.digests?.sha256;
  const meta: DownloadUrlMeta = {
    auth: principal ? "bound" : "self",
    expiresAt: new Date(grant.expiresAt).toISOString(),
    name: resourceName(key),
    ...(info.etag !== undefined && { etag: formatEntityTag(info.etag) }),
    ...(sha256 !== undefined && { digest: formatReprDigest(sha256) }),
    ...(principal?.sessionId !== undefined && { sessionBound: true }),
    ...(parts.options.cacheTtlMs !== undefined && { ttlMs: parts.options.cacheTtlMs }),
  };
  return {
    result: {
      uri,
      mimeType,
      ...(info.size !== undefined && { size: info.size }),
      downloadUrl: grant.url,
      _meta: { [EXTENSION_ID]: meta },
    },
  };
}

function ensureFits({ size }: ObjectInfo, { maxStreamSize }: ClientStreaming): void {
  if (size !== undefined && maxStreamSize !== undefined && size > maxStreamSize)
    throw new SluiceError("too_large", "sluice: stream: larger than the client takes", { size });
}

/** The SDK asks for scopes at `resources/read` only; without this, streaming would go around them. */
async function ensureScopes(
  parts: SluiceParts,
  { mcp, ctx, uri, era }: { mcp: McpServer; ctx: ServerContext; uri: string; era: Era },
): Promise<void> {
  const authInfo = ctx.http?.authInfo;
  const challenge = await mcp.resolveScopeChallenge({
    request: { jsonrpc: "2.0", id: ctx.mcpReq.id, method: "resources/read", params: { uri } },
    ...(authInfo && { authInfo }),
  });
  if (!challenge) return;
  const metadataUrl = authInfo?.resourceMetadataUrl ?? parts.options.resourceMetadataUrl;
  throw new StreamRefusal(
    rpcFault("forbidden", era, {
      uri,
      status: 403,
      challenge: [
        'Bearer error="insufficient_scope"',
        `scope="${challenge.scopes.join(" ")}"`,
        ...(metadataUrl === undefined ? [] : [`resource_metadata="${encodeURI(metadataUrl)}"`]),
      ].join(", "),
    }),
  );
}

function faultFor(parts: SluiceParts, error: unknown, era: Era, uri: string): RpcFault {
  if (SluiceError.is(error) && error.code === "unauthenticated") return signInFault(parts, era);
  if (SluiceError.is(error) && error.code === "permission_denied")
    return rpcFault("forbidden", era, { uri, status: 403, challenge: "Bearer" });
  return faultOf(error, era, {
    uri,
    ...(SluiceError.is(error) &&
      error.code === "unsupported" && { suggestion: "Use resources/read for this resource" }),
  });
}
