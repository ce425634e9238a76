import { SluiceError } from "@sluice/core";
import type { ObjectInfo } from "../contract/backend.ts";

/** What a call gives, or `undefined` where it rejects with `not_found`: a removal then has nothing left to do. */
export async function unlessMissing<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (SluiceError.is(error) && error.code === "not_found") return undefined;
    throw error;
  }
}

/** Throws `precondition_failed` unless a write may replace `current`, the object as it is now. */
export function ensureCondition(
  current: { readonly etag?: ObjectInfo["etag"] | undefined } | undefined,
  {
    ifMatch,
    ifAbsent,
  }: { readonly ifMatch?: string | undefined; readonly ifAbsent?: boolean | undefined },
  operation: string,
): void {
  if (ifAbsent && current !== undefined)
    throw new SluiceError("precondition_failed", `${operation}: the object exists already`);
  if (ifMatch !== undefined && current?.etag !== ifMatch)
    throw new SluiceError("precondition_failed", `${operation}: the object has changed`);
}
