import { SluiceError, type Principal } from "@sluice/core";
import { definedMembers, discardSource } from "@sluice/core/internal";
import type { ClaimedBody } from "@sluice/state";
import { leaseCharge } from "@sluice/state/internal";
import type { OpenedObject } from "@sluice/storage";
import { tagOf, type Callers, type Caller } from "../access/principal.ts";
import type { AuditEntry, AuditTrail } from "../audit/audit.ts";
import { outcomeOf, reasonOf } from "../faults/rpc-fault.ts";
import { byteHeaders, unchangedHeaders, shieldHeaders } from "../http/byte-headers.ts";
import { changedText, problem, problemOf, type Reply } from "../http/reply.ts";
import type { FailedRedemptions } from "../limits/failed-redemptions.ts";
import type { UsageMeter } from "../limits/rate-limits.ts";
import type { Transfers } from "../limits/transfers.ts";
import type { AuthorizedStorage } from "../storage/authorized-storage.ts";
import type { Mounts } from "../storage/mounts.ts";
import {
  openVersion,
  ensurePinned,
  isOneVersion,
  isPlain,
  keptVersion,
  type ChosenVersion,
} from "./open-version.ts";
import type { Grants } from "./grants.ts";
import type { OpenGrant } from "./open-grant.ts";
import { targetOrRethrow, redirectReply } from "./redirect-reply.ts";

/** A request to the download route whose Host, Origin and method a transport has checked. */
export interface RedeemRequest extends Caller {
  readonly method: "GET" | "HEAD";
  /** Last path segment, as it was sent. */
  readonly token: string;
  /** Which kind of URL it was. Default: a download URL. */
  readonly kind?: "link" | undefined;
  /** Aborts when the client disconnects. */
  readonly signal?: AbortSignal | undefined;
}

/** Answers a GET or HEAD to a download URL or a link. Never rejects. */
export type Redeem = (request: RedeemRequest) => Promise<Reply>;

interface RedemptionParts {
  readonly callers: Callers;
  readonly usage: UsageMeter;
  readonly transfers: Transfers;
  readonly grants: Grants;
  readonly mounts: Mounts;
  readonly audit: AuditTrail;
  readonly failures: FailedRedemptions;
  /** Types that a browser may run, such as HTML, are sent under their name; otherwise as `application/octet-stream`. */
  readonly exactTypes: boolean;
  readonly resourceMetadataUrl: string | undefined;
  readonly onError: (error: unknown) => void;
}

/** The record of a redemption, and the address of its client. */
interface RedeemContext {
  readonly entry: AuditEntry;
  readonly address: string | undefined;
}

/** A chosen response, and what to release and record when it ends. */
interface Redemption {
  readonly chosen: ChosenVersion;
  readonly headers: readonly string[] | undefined;
  readonly grant: OpenGrant;
  readonly entry: AuditEntry;
  readonly release: () => void;
}

/**
 * Redeems the tokens of download URLs and links. The order is fixed: token and time (both in `grants.open`) → mount →
 * bearer → principal → session → rate → permit → access → version and source → audit record → claim. Checks that reveal
 * less come first, and the claim comes last: only a request that gets bytes uses the grant up. Every cause of a 404
 * gives the same bytes.
 */
export class Redemptions {
  readonly #parts: RedemptionParts;

  constructor(parts: RedemptionParts) {
    this.#parts = parts;
  }

  redeem(request: RedeemRequest): Promise<Reply> {
    const { callers, audit } = this.#parts;
    const address = callers.addressOf(request);
    const mode = request.kind ?? "downloadUrl";
    const facts = { action: "download", mode, address } as const;
    const entry = audit.begin(facts, (name) => request.header(name));
    const context = { entry, address };
    return entry.run(() =>
      this.#answer(request, context).catch((error: unknown) =>
        this.#refuse(request, context, error),
      ),
    );
  }

  async #answer(request: RedeemRequest, { entry, address }: RedeemContext): Promise<Reply> {
    const { usage, transfers, grants, mounts } = this.#parts;
    const opening = grants.open(request.kind ?? "download", request.token, Date.now());
    // awaits only promises throughout: an await of a plain value costs more than the rest of a small response
    const grant = opening instanceof Promise ? await opening : opening;
    entry.facts.grant = grant.id;
    const { place, uri } = grant.resourceIn(mounts);
    const { mount, key } = place;
    entry.facts.uri = uri;

    const principal = grant.link
      ? await this.#minterInSession(grant)
      : grant.auth === "bound"
        ? await this.#holderInSession(grant, request)
        : undefined;
    const tag = tagOf(principal);
    entry.facts.principal = tag;
    const admitted = usage.admit(tag, request.method === "HEAD" ? "request" : "transfer");
    if (admitted) await admitted;
    const release = transfers.take(tag, address, mount.limiter);
    let opened: OpenedObject | undefined;
    try {
      const authorized = mount.storageAccess.authorize({ principal, key, action: "stream", uri });
      const storage = authorized instanceof Promise ? await authorized : authorized;
      // after an abort take nothing from memory: `open` rejects, so a client that is gone does not use up the grant
      const inMemory =
        isPlain(request) && !request.signal?.aborted ? storage.findKept?.() : undefined;
      const chosen = inMemory
        ? keptVersion(grant, inMemory)
        : await openVersion(storage, { key, grant }, request);
      ({ opened } = chosen);
      // a version that stays in memory needs its headers made only once
      const headers =
        grant.memoryHeaders && grant.memoryHeaders.info === inMemory?.info
          ? grant.memoryHeaders.headers
          : await this.#headersOf(uri, storage, { chosen, grant }, request.signal);
      if (inMemory && headers)
        grant.memoryHeaders = { info: inMemory.info, headers: Object.freeze(headers) };
      const recorded = opened && entry.recordBegun();
      if (recorded) await recorded;
      const hasBytes = opened !== undefined;
      const claimed = grants.claim(grant, {
        principal: tag,
        body: claimedBodyOf(chosen),
        hasBytes,
      });
      if (claimed) await claimed;
      // nothing will be sent, so release the permit before the record is written
      if (!hasBytes) release();
      const redemption = { chosen, headers, grant, entry, release };
      return opened
        ? this.#replyWithBytes(redemption, opened)
        : await replyWithoutBytes(redemption);
    } catch (error) {
      if (opened) await discardSource(opened, error);
      release();
      // a provider gives its URL by throwing `RedirectError`
      return this.#redirectOrThrow(grant, entry, tag, error);
    }
  }

  async #refuse(
    request: RedeemRequest,
    { entry, address }: RedeemContext,
    error: unknown,
  ): Promise<Reply> {
    const { failures, resourceMetadataUrl, onError } = this.#parts;
    const { signal, kind } = request;
    if (signal?.aborted) {
      entry.end("aborted");
      return problem(503);
    }
    const outcome = outcomeOf(error);
    entry.end(outcome, { reason: reasonOf(error) });
    if (outcome === "failed") onError(error);
    const reportedError = await failures.errorToReport(error, address, signal);
    const refusal = problemOf(reportedError, resourceMetadataUrl);
    return kind === "link" ? linkRefusal(refusal, request.header("accept")) : refusal;
  }

  /** The principal that a link acts for. Rejects with `not_found` when its session has ended. */
  async #minterInSession(grant: OpenGrant): Promise<Principal | undefined> {
    await this.#parts.grants.ensureSession(grant);
    return grant.link?.minter;
  }

  /** The caller. Rejects with `unauthenticated` or `not_found` unless it is the principal of the bound grant. */
  async #holderInSession(grant: OpenGrant, request: RedeemRequest): Promise<Principal> {
    const { callers, grants } = this.#parts;
    const { principal } = await callers.identify(request);
    if (!principal)
      throw new SluiceError("unauthenticated", "sluice: redeem: a bound grant needs a principal");
    if (!grant.matchesPrincipal(principal))
      throw new SluiceError("not_found", "sluice: redeem: the grant is another principal's");
    if (grant.sessionTag !== undefined) {
      await grants.ensureSession(grant);
      return principal;
    }
    // the grant is not bound to a session, so the one that the request names is not trusted
    const { sessionId: _claimed, ...holder } = principal;
    return holder;
  }

  /** Headers of a response with bytes, or of the HEAD in its place; `undefined` if there is nothing to describe. */
  async #headersOf(
    uri: string,
    storage: AuthorizedStorage,
    { chosen: { status, info, range }, grant }: Pick<Redemption, "chosen" | "grant">,
    signal: AbortSignal | undefined,
  ): Promise<readonly string[] | undefined> {
    // neither response describes bytes
    if (status === 304 || status === 412) return undefined;
    const mimeType = await storage.typeOf(info, definedMembers({ signal }));
    return byteHeaders({
      uri,
      info,
      mimeType,
      range,
      rangeable: grant.use !== "once" && isOneVersion(grant, info),
      exactType: this.#parts.exactTypes,
      disposition: grant.link?.disposition,
    });
  }

  #replyWithBytes(
    { chosen, headers = [], grant, entry, release }: Redemption,
    opened: OpenedObject,
  ): Reply {
    const { transfers, grants, onError } = this.#parts;
    const { status } = chosen;
    const transferEnd = { entry, release };
    if (grant.use !== "lease")
      return { status, headers, transfer: transfers.open(opened, transferEnd) };
    const charged = leaseCharge(claimedBodyOf(chosen).bytes);
    const settle = (sentBytes: number): void => {
      const unsent = charged - leaseCharge(sentBytes);
      if (unsent > 0) grants.refund(grant, unsent).catch(onError);
    };
    return { status, headers, transfer: transfers.open(opened, { ...transferEnd, settle }) };
  }

  /** Sends the client to the URL that a provider gave in place of bytes; throws any other error. */
  async #redirectOrThrow(
    grant: OpenGrant,
    entry: AuditEntry,
    tag: string | undefined,
    error: unknown,
  ): Promise<Reply> {
    const { grants, mounts, transfers } = this.#parts;
    const { place, uri } = grant.resourceIn(mounts);
    const { url, info } = targetOrRethrow(place.mount, error);
    ensurePinned(grant, info);
    const { size = unknownSize } = info;
    entry.facts.mode = "redirect";
    await entry.recordBegun();
    await grants.claim(grant, { principal: tag, body: { bytes: size, size }, hasBytes: true });
    entry.end("issued");
    transfers.charge(tag, info.size ?? 0);
    return redirectReply(uri, url);
  }
}

/** Bytes that an object of unknown size counts for in a lease. */
const unknownSize = 1_048_576;

/** What a response counts for in a lease. */
function claimedBodyOf({ opened, info, range }: ChosenVersion): ClaimedBody {
  const size = info.size ?? unknownSize;
  if (!opened) return { bytes: 0, size };
  return { bytes: range ? range.end - range.start : size, size };
}

/** The reply to HEAD, or to a request whose condition decides. */
async function replyWithoutBytes({ chosen, headers, grant, entry }: Redemption): Promise<Reply> {
  const { status, info } = chosen;
  if (status === 304) {
    await entry.conclude("complete", { reason: "not_modified" });
    return { status, headers: unchangedHeaders(info, grant.link !== undefined) };
  }
  if (!headers) {
    await entry.conclude("denied", { reason: "precondition_failed" });
    return problem(412);
  }
  await entry.conclude("complete");
  return { status, headers };
}

/**
 * The refusal of a link as a page for browsers; any other client gets a problem. The same status gives the same bytes, whatever the cause.
 */
function linkRefusal(refusal: Reply, accept: string | undefined): Reply {
  const sentence = sentences[refusal.status];
  if (sentence === undefined) return refusal;
  if (!takesHtml(accept)) return refusal.status === 404 ? deadLink : refusal;
  const text = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Link</title><p>${sentence}</p></html>`;
  const headers = [
    "Content-Type",
    "text/html; charset=utf-8",
    "Content-Length",
    String(text.length),
  ];
  return { status: refusal.status, headers: [...headers, ...shieldHeaders], text };
}

const deadLinkText = "This link is invalid or has expired. Ask for a new one.";
const deadLink = problem(404, { detail: deadLinkText });

const sentences: Readonly<Record<number, string>> = {
  404: deadLinkText,
  410: changedText,
};

function takesHtml(accept: string | undefined): boolean {
  return accept?.toLowerCase().includes("text/html") ?? false;
}
