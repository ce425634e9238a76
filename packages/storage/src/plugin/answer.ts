import { type ByteRange, SluiceError } from "@sluice/core";
import { parseContentRange } from "@sluice/core/internal";
import type { ObjectInfo } from "../contract/backend.ts";

/** Statements of a response with bytes about itself. */
export interface BytesAnswer {
  readonly status: number | undefined;
  readonly contentLength: number | undefined;
  readonly contentRange?: string | undefined;
  readonly contentType: string | undefined;
  readonly etag: string | undefined;
}

/** The request. */
export interface BytesRequest {
  /** Start of messages. */
  readonly operation: string;
  /** The part that was asked for; the whole object when absent. */
  readonly range?: ByteRange | undefined;
  /** The object by another response; absent if this one describes it. */
  readonly described?: Pick<ObjectInfo, "size" | "contentType"> | undefined;
}

/** The bytes that a response brings. */
export interface Extent {
  /** Bytes of the whole object. */
  readonly size: number;
  readonly sent: Required<ByteRange>;
}

/**
 * Reads from a response which bytes it brings, and throws unless it proves that they are the object's: status 200
 * alone is also that of an error page. It needs a length, its own validator if it is a part, describes the object, or
 * has another length than described, and no type of a page that the object has not.
 *
 * A response that proves nothing is `unavailable`, so that it is retried; another range is `corrupt`. A 200 to a range
 * is the whole object.
 */
export function readExtent(answer: BytesAnswer, request: BytesRequest): Extent {
  const { operation, range, described } = request;
  const { status, contentLength: length, etag } = answer;
  const isPart = status === 206;
  if (status !== 200 && !isPart) throw doubtful(operation, "it is not an answer with bytes");
  // without a length, an interrupted answer would look like a whole one
  if (length === undefined || !Number.isSafeInteger(length) || length < 0)
    throw doubtful(operation, "it does not say how many bytes come");
  if (isOtherPage(answer.contentType, described))
    throw doubtful(operation, "it is a page of another type");
  const isDescribed = !isPart && described !== undefined && described.size === length;
  if (!isDescribed && !etag) throw doubtful(operation, "it names no version");
  if (!isPart) return { size: length, sent: { start: 0, end: length } };
  const { range: sent, size } = parseContentRange(answer.contentRange) ?? {};
  const isAsked =
    sent !== undefined &&
    size !== undefined &&
    sent.start === range?.start &&
    sent.end === Math.min(range.end ?? size, size) &&
    sent.end - sent.start === length;
  if (!isAsked)
    throw new SluiceError("corrupt", `${operation}: another range came than was asked for`);
  return { size, sent };
}

/** Pages in which services and what stands before them tell errors. */
const pageType = /^(?:text\/html|text\/xml|application\/(?:[\w.-]+\+)?(?:json|xml))$/;

/** True for the type of an error page where the object is known to have another one. */
export function isOtherPage(
  type: string | undefined,
  described: Pick<ObjectInfo, "contentType"> | undefined,
): boolean {
  const essence = essenceOf(type);
  const storedType = essenceOf(described?.contentType);
  return storedType !== undefined && essence !== storedType && pageType.test(essence ?? "");
}

function essenceOf(type: string | undefined): string | undefined {
  return type?.split(";", 1)[0]?.trim().toLowerCase() || undefined;
}

function doubtful(operation: string, finding: string): SluiceError {
  return new SluiceError(
    "unavailable",
    `${operation}: the answer cannot be the object: ${finding}; try again later`,
  );
}
