import {
  discardSource,
  formatEntityTag,
  formatUnsatisfiedRange,
  leaseCharge,
  matchesIfRange,
  parseRange,
  SluiceError,
  type ByteRange,
  type ClaimedBody,
  type Principal,
} from "@sluice/core";
import type { ObjectInfo, OpenedObject } from "@sluice/storage";
import { reasonOf } from "../access/access.ts";
import { isTaggedSessionOver } from "../access/bound-sessions.ts";
import type { AuditEntry } from "../audit/audit.ts";
import { byteHeaders, unchangedHeaders } from "../delivery/byte-headers.ts";
import { conditionalStatus, isConditional } from "../delivery/conditions.ts";
import type { Caller } from "../access/principal.ts";
import { isUnversioned, type OpenGrant } from "./recent-grants.ts";
import { problem } from "../delivery/problem.ts";
import type { Reach } from "../access/reach.ts";
import type { Reply } from "../delivery/reply.ts";
import { outcomeOf, tagOf, type SluiceParts } from "../options/sluice-parts.ts";
import { storageFault } from "../resources/storage-fault.ts";
import { createTransfer } from "../delivery/transfer.ts";

/** A request to the download route whose Host, Origin and method a transport has checked. */
export interface RedeemRequest extends Caller {
  readonly method: "GET" | "HEAD";
  /** Last path segment, as it was sent. */
  readonly token: string;
  /** Ends what storage is doing for it. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Redeems a token. The order is fixed: token → time → bearer → principal → rate → access → open →
 * version → record → claim. What fails earlier tells less, and only what will get bytes uses the grant up.
 * Every cause of a 404 gives the same bytes. It never rejects.
 */
export function redeem(parts: SluiceParts, request: RedeemRequest): Promise<Reply> {
  const address = parts.addressOf(request);
  const facts = { action: "download", mode: "downloadUrl", address } as const;
  const entry = parts.beginAudit(facts, (name) => request.header(name));
  return entry.run(() => answerRedemption(parts, { request, entry, address }));
}

interface Asked {
  readonly request: RedeemRequest;
  readonly entry: AuditEntry;
  readonly address: string | undefined;
}

async function answerRedemption(parts: SluiceParts, asked: Asked): Promise<Reply> {
  const { request, entry } = asked;
  let release: (() => void) | undefined;
  try {
    const grant = await parts.grants.open(request.token, Date.now());
    const { key } = grant;
    entry.facts.grant = grant.id;
    entry.facts.uri = parts.mapper.toUri(key);

    const principal = grant.auth === "bound" ? await holderOf(parts, grant, request) : undefined;
    const tag = tagOf(principal);
    entry.facts.principal = tag;
    await parts.usage.admit(tag, request.method === "HEAD" ? "request" : "transfer");
    release = parts.slots.take(tag, request.address);

    const reach = await parts.reach({ principal, key, action: "stream" });
    const chosen = await choose(reach, grant, request).catch(rethrowStorageFault);
    try {
      const mimeType = await typeOf(reach, chosen, request).catch(rethrowStorageFault);
      if (chosen.opened) await entry.admit();
      // an answer without bytes needs a live grant and uses none up, as a window grant does
      if (parts.grants.asksStore(grant))
        await claim(
          parts,
          chosen.opened ? grant : { ...grant, use: "window" },
          tag,
          bodyOf(chosen),
        );
      return await replyWith(parts, { grant, entry, release, mimeType, ...chosen });
    } catch (error) {
      if (chosen.opened) await discardSource(chosen.opened, error);
      throw error;
    }
  } catch (error) {
    release?.();
    return refuse(parts, asked, error);
  }
}

/** The principal of a bound grant, if it is the caller. */
async function holderOf(
  parts: SluiceParts,
  grant: OpenGrant,
  request: RedeemRequest,
): Promise<Principal> {
  const { principal } = await parts.identify(request);
  if (!principal)
    throw new SluiceError("unauthenticated", "sluice: redeem: the grant is bound and nobody came");
  if (!grant.matchesPrincipal(principal))
    throw new SluiceError("not_found", "sluice: redeem: the grant is somebody else's");
  const { sessionTag } = grant;
  if (sessionTag === undefined) {
    // nobody vouches for a session that the grant says nothing of
    const { sessionId: _claimed, ...holder } = principal;
    return holder;
  }
  if (parts.grants.asksStore(grant) && (await isTaggedSessionOver(parts.state, sessionTag)))
    throw new SluiceError("not_found", "sluice: redeem: the session is over");
  return principal;
}

interface Chosen {
  readonly status: 200 | 206 | 304 | 412;
  readonly info: ObjectInfo;
  readonly range?: Required<ByteRange> | undefined;
  /** Absent when no bytes will be sent. */
  readonly opened?: OpenedObject;
}

/** What to answer with, opened where that is bytes. A plain GET costs storage one call. */
async function choose(
  storage: Reach,
  grant: OpenGrant,
  { method, header, signal }: RedeemRequest,
): Promise<Chosen> {
  const options = signal ? { signal } : {};
  const { key } = grant;
  const rangeHeader = header("range");
  if (method === "GET" && rangeHeader === undefined && !isConditional(header)) {
    const opened = await storage.open(key, options);
    try {
      return { status: 200, info: ensurePinned(grant, opened.info), opened };
    } catch (error) {
      await discardSource(opened, error);
      throw error;
    }
  }
  const info = ensurePinned(grant, await storage.describe(key, options));
  const tag = info.etag === undefined ? undefined : formatEntityTag(info.etag);
  const status = conditionalStatus(info, tag, header);
  if (status) return { status, info };
  // RFC 9110 §14.2: Range has a meaning for GET alone
  if (method === "HEAD") return { status: 200, info };
  const range =
    info.size !== undefined && isOneVersion(grant, info) && matchesIfRange(header("if-range"), tag)
      ? parseRange(rangeHeader, info.size)
      : undefined;
  if (range === "unsatisfiable")
    throw new SluiceError("range_not_satisfiable", "sluice: redeem: the range is beyond the end", {
      size: info.size!,
    });
  const opened = await storage.open(key, {
    ...options,
    ...(range && { range }),
    ...(info.etag !== undefined && { ifMatch: info.etag }),
  });
  return { status: range ? 206 : 200, info: opened.info, range, opened };
}

/** Media type of what is sent; a 304 has none. */
async function typeOf(
  reach: Reach,
  { status, info }: Chosen,
  { signal }: RedeemRequest,
): Promise<string | undefined> {
  return status === 304 ? undefined : reach.typeOf(info, signal ? { signal } : {});
}

/** Where storage names no version, parts could be of different ones: the answer is always the whole. */
function isOneVersion(grant: OpenGrant, { etag }: ObjectInfo): boolean {
  return etag !== undefined && !isUnversioned(grant);
}

function ensurePinned(grant: OpenGrant, info: ObjectInfo): ObjectInfo {
  if (isUnversioned(grant) || grant.matchesEtag(info.etag)) return info;
  throw new SluiceError("precondition_failed", "sluice: redeem: the object has changed");
}

function rethrowStorageFault(error: unknown): never {
  throw storageFault(error);
}

async function claim(
  parts: SluiceParts,
  grant: OpenGrant,
  principal: string | undefined,
  body: ClaimedBody,
): Promise<void> {
  const { id, use, issuedAt, expiresAt, resource } = grant;
  const { outcome } = await parts.state.claim(
    { id, use, issuedAt, expiresAt, principal: principal ?? "", resource },
    Date.now(),
    body,
  );
  if (outcome === "granted") return;
  if (outcome === "expired") throw new SluiceError("expired", "sluice: redeem: the grant is over");
  throw new SluiceError("not_found", `sluice: redeem: the grant is ${outcome}`);
}

/** What an answer counts for in a lease. An object of unknown size counts as one MiB. */
function bodyOf({ opened, info, range }: Chosen): ClaimedBody {
  const size = info.size ?? 1_048_576;
  if (!opened) return { bytes: 0, size };
  return { bytes: range ? range.end - range.start : size, size };
}

interface Redemption extends Chosen {
  readonly mimeType: string | undefined;
  readonly grant: OpenGrant;
  readonly entry: AuditEntry;
  readonly release: () => void;
}

async function replyWith(parts: SluiceParts, redemption: Redemption): Promise<Reply> {
  const { grant, entry, release, status, info, mimeType, range, opened } = redemption;
  if (mimeType === undefined) {
    release();
    await entry.conclude("complete", { reason: "not_modified" });
    return { status, headers: unchangedHeaders(info) };
  }
  if (status === 412) {
    release();
    await entry.conclude("denied", { reason: "precondition_failed" });
    return problem(412);
  }
  const headers = byteHeaders({
    uri: entry.facts.uri!,
    info,
    mimeType,
    range,
    rangeable: grant.use !== "once" && isOneVersion(grant, info),
    exactType: parts.options.exactTypes ?? false,
  });
  if (!opened) {
    release();
    await entry.conclude("complete");
    return { status, headers };
  }
  const charged = leaseCharge(bodyOf(redemption).bytes);
  const settle = (sentBytes: number): void => {
    const unsent = charged - leaseCharge(sentBytes);
    if (grant.use === "lease" && unsent > 0)
      parts.state.refund(grant.id, unsent, Date.now()).catch(parts.onError);
  };
  return { status, headers, transfer: createTransfer(parts, { opened, entry, release, settle }) };
}

async function refuse(
  parts: SluiceParts,
  { entry, request, address }: Asked,
  error: unknown,
): Promise<Reply> {
  if (request.signal?.aborted) {
    entry.end("aborted");
    return problem(503);
  }
  const outcome = outcomeOf(error);
  entry.end(outcome, { reason: reasonOf(error) });
  if (outcome === "failed") parts.onError(error);
  const told = await parts.failures.judge(error, address, request.signal);
  return problemOf(told, parts.options.resourceMetadataUrl);
}

/** The answer to a failed redemption. */
export function problemOf(error: unknown, resourceMetadataUrl?: string): Reply {
  if (!SluiceError.is(error)) return problem(500);
  const { retryAfterMs = 1_000 } = error;
  const retry = ["Retry-After", String(Math.max(1, Math.ceil(retryAfterMs / 1_000)))];
  switch (error.code) {
    case "not_found":
    case "permission_denied":
    case "unsupported":
    case "invalid_argument":
      return problem(404);
    case "unauthenticated":
      return problem(401, { headers: ["WWW-Authenticate", formatChallenge(resourceMetadataUrl)] });
    case "expired":
      return problem(410, { reason: "expired" });
    case "precondition_failed":
      return problem(410, { reason: "changed" });
    case "range_not_satisfiable":
      return problem(416, {
        headers: ["Content-Range", formatUnsatisfiedRange(error.size ?? 0)],
      });
    case "throttled":
      return problem(429, { reason: "rate", headers: retry });
    case "unavailable":
      return problem(503, { headers: retry });
    case "timeout":
      return problem(504);
    case "interrupted":
    case "corrupt":
      return problem(502);
    default:
      return problem(500);
  }
}

/** A bearer challenge (RFC 6750 §3, RFC 9728 §5.1). */
export function formatChallenge(resourceMetadataUrl: string | undefined): string {
  return resourceMetadataUrl === undefined
    ? "Bearer"
    : `Bearer resource_metadata="${encodeURI(resourceMetadataUrl)}"`;
}
