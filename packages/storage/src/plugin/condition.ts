import { SluiceError } from "@sluice/core";
import type { ObjectInfo } from "../contract/backend.ts";

/** The conditions of a call, as `open` and `write` get them. */
export interface Conditions {
  readonly ifMatch?: string | undefined;
  readonly ifAbsent?: boolean | undefined;
}

/** Throws `precondition_failed` unless `current`, the object as it is now, is what the conditions ask for. */
export function ensureCondition(
  current: { readonly etag?: ObjectInfo["etag"] | undefined } | undefined,
  { ifMatch, ifAbsent }: Conditions,
  operation: string,
): void {
  if (ifAbsent && current !== undefined)
    throw new SluiceError("precondition_failed", `${operation}: the object exists already`);
  if (ifMatch !== undefined && current?.etag !== ifMatch)
    throw new SluiceError("precondition_failed", `${operation}: the object has changed`);
}

/**
 * The early check of a write: a stale condition costs no transfer. Describes the object when there is a condition, and
 * throws as {@link ensureCondition} does. The service decides again when the object is published.
 */
export async function ensureWritable(
  conditions: Conditions,
  operation: string,
  describe: () => Promise<{ readonly etag?: ObjectInfo["etag"] | undefined }>,
): Promise<void> {
  if (!conditions.ifAbsent && conditions.ifMatch === undefined) return;
  ensureCondition(await unlessMissing(describe()), conditions, operation);
}

/**
 * An `If-Match` header of one etag; `undefined` without one. Throws `precondition_failed` for a
 * text that is not a strong etag, because in a header it would mean something else.
 */
export function formatIfMatch(etag: string | undefined, operation: string): string | undefined {
  if (etag === undefined) return undefined;
  const header = `"${etag}"`;
  if (etag === "*" || toStrongEtag(header) !== etag)
    throw new SluiceError("precondition_failed", `${operation}: the object has another etag`);
  return header;
}

/** A strong etag without its quotes, which some services leave out; `undefined` when it is weak or malformed. */
export function toStrongEtag(tag: string | undefined): string | undefined {
  return /^("?)((?!W\/)[\x21\x23-\x7e]+)\1$/.exec(tag ?? "")?.[2];
}

/** The result of a call; `undefined` if it rejects with `not_found`. */
export async function unlessMissing<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/**
 * The result of a conditional publication. A missing object is not the requested version: with
 * `ifMatch`, `not_found` becomes `precondition_failed`.
 */
export async function asPrecondition<T>(
  { ifMatch }: Conditions,
  operation: string,
  publication: Promise<T>,
): Promise<T> {
  try {
    return await publication;
  } catch (error) {
    if (ifMatch === undefined || !isMissing(error)) throw error;
    throw new SluiceError("precondition_failed", `${operation}: the object is gone`, {
      cause: error.cause,
    });
  }
}

function isMissing(error: unknown): error is SluiceError {
  return SluiceError.is(error) && error.code === "not_found";
}
