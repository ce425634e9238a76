import { SluiceError, type ByteRange } from "@sluice/core";
import {
  definedMembers,
  discardSource,
  formatEntityTag,
  matchesIfMatch,
  matchesIfNoneMatch,
  matchesIfRange,
  parseHttpDate,
  parseRange,
} from "@sluice/core/internal";
import type { ObjectInfo, OpenedObject } from "@sluice/storage";
import type { KeptObject } from "@sluice/storage/plugin";
import { OpenedKept, type AuthorizedStorage } from "../storage/authorized-storage.ts";
import type { OpenGrant } from "./open-grant.ts";

interface DownloadRequest {
  readonly method: "GET" | "HEAD";
  readonly header: (name: string) => string | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface GrantedObject {
  readonly key: string;
  readonly grant: OpenGrant;
}

/** The version that a grant is for, and what of it to answer with. */
export interface ChosenVersion {
  readonly status: 200 | 206 | 304 | 412;
  readonly info: ObjectInfo;
  readonly range?: Required<ByteRange> | undefined;
  /** Absent when no bytes will be sent. */
  readonly opened?: OpenedObject;
}

/**
 * Evaluates the conditions and the range, checks the version, and opens the bytes if any are to be sent. A plain GET
 * costs storage one call.
 */
export async function openVersion(
  storage: AuthorizedStorage,
  { key, grant }: GrantedObject,
  { method, header, signal }: DownloadRequest,
): Promise<ChosenVersion> {
  const options = definedMembers({ signal });
  if (isPlain({ method, header })) {
    const opened = await storage.open(key, options);
    if (isPinned(grant, opened.info)) return { status: 200, info: opened.info, opened };
    const error = changedError();
    await discardSource(opened, error);
    throw error;
  }
  const info = await storage.describe(key, options);
  ensurePinned(grant, info);
  const tag = info.etag === undefined ? undefined : formatEntityTag(info.etag);
  const status = conditionalStatus(info, tag, header);
  if (status) return { status, info };
  // RFC 9110 §14.2: Range has a meaning only for GET
  if (method === "HEAD") return { status: 200, info };
  const rangeHeader = header("range");
  const range =
    info.size !== undefined && isOneVersion(grant, info) && matchesIfRange(header("if-range"), tag)
      ? parseRange(rangeHeader, info.size)
      : undefined;
  if (range === "unsatisfiable")
    throw new SluiceError("range_not_satisfiable", "sluice: redeem: the range is beyond the end", {
      size: info.size!,
    });
  const opened = await storage.open(key, definedMembers({ signal, range, ifMatch: info.etag }));
  return { status: range ? 206 : 200, info: opened.info, range, opened };
}

/** A whole object from memory. Throws `precondition_failed` if it is not the version that a grant is for. */
export function keptVersion(grant: OpenGrant, kept: KeptObject): ChosenVersion {
  ensurePinned(grant, kept.info);
  return { status: 200, info: kept.info, opened: new OpenedKept(kept) };
}

/** True for a GET of the whole object, whatever its version. */
export function isPlain({ method, header }: Pick<DownloadRequest, "method" | "header">): boolean {
  return method === "GET" && header("range") === undefined && !isConditional(header);
}

/**
 * True if all ranges are certain to come from one version. Without an etag they are not, and only the whole object is
 * sent.
 */
export function isOneVersion(grant: OpenGrant, { etag }: ObjectInfo): boolean {
  return etag !== undefined && !grant.isUnversioned();
}

/** Throws `precondition_failed` for an object of another version than the one that a grant is for. */
export function ensurePinned(grant: OpenGrant, info: ObjectInfo): void {
  if (!isPinned(grant, info)) throw changedError();
}

/** Whether an object is still the version that a grant is for. */
function isPinned(grant: OpenGrant, info: ObjectInfo): boolean {
  return grant.isUnversioned() || grant.matchesEtag(info.etag);
}

function changedError(): SluiceError {
  return new SluiceError("precondition_failed", "sluice: redeem: the object has changed");
}

/** The conditions that a download looks at (RFC 9110 §13.1). */
export const conditionFields: readonly string[] = [
  "If-Match",
  "If-Unmodified-Since",
  "If-None-Match",
  "If-Modified-Since",
];

/** Whether a request has a condition that a download looks at. */
function isConditional(header: DownloadRequest["header"]): boolean {
  return conditionFields.some((name) => header(name.toLowerCase()) !== undefined);
}

/**
 * The status that the conditions lead to, in the order of RFC 9110 §13.2.2; `undefined` if they let the request pass.
 */
function conditionalStatus(
  { lastModified }: ObjectInfo,
  tag: string | undefined,
  header: DownloadRequest["header"],
): 304 | 412 | undefined {
  const ifMatch = header("if-match");
  const unmodifiedSince = parseHttpDate(header("if-unmodified-since"), Date.now()) ?? Infinity;
  // HTTP dates have whole seconds
  const modifiedAt = Math.floor((lastModified?.getTime() ?? 0) / 1_000) * 1_000;
  if (ifMatch === undefined ? modifiedAt > unmodifiedSince : !matchesIfMatch(ifMatch, tag))
    return 412;
  const ifNoneMatch = header("if-none-match");
  const modifiedSince = parseHttpDate(header("if-modified-since"), Date.now()) ?? -Infinity;
  const isUnchanged =
    ifNoneMatch === undefined
      ? lastModified !== undefined && modifiedAt <= modifiedSince
      : matchesIfNoneMatch(ifNoneMatch, tag);
  return isUnchanged ? 304 : undefined;
}
