import { SluiceError, type ByteRange } from "@sluice/core";
import {
  contentCodings,
  isSameResource,
  parseContentDisposition,
  parseContentRange,
  parseEntityTag,
  parseMediaType,
  parseReprDigest,
  parseResourceUri,
  RESOURCE_URI_HEADER,
  unpromisedFormat,
} from "@sluice/core/internal";
import type { AcceptedUrl } from "../trust/accept-url.ts";
import type { HopAnswer } from "../net/exchange.ts";
import { errorText } from "./download-faults.ts";
import type { DownloadGrant } from "./download-grant.ts";

/** A response whose headers are in order, and what they say. */
export interface CheckedAnswer {
  readonly answer: HopAnswer;
  /** Offset of the first byte of the body. */
  readonly start: number;
  /** Offset one past the last byte, if the headers tell. */
  readonly end?: number | undefined;
  /** Bytes of the whole object. */
  readonly size?: number | undefined;
  /** Strong, with quotes. */
  readonly etag?: string | undefined;
  /** SHA-256 of the whole object in hex. */
  readonly sha256?: string | undefined;
  readonly mimeType?: string | undefined;
  /** Content coding that the storage keeps the bytes in. */
  readonly contentEncoding?: string | undefined;
  /** As the server wrote them, best first. */
  readonly fileNames: readonly string[];
  /** The MCP server said with the bytes, or on the way to them, that they are this resource. */
  readonly named: boolean;
  /** Where it came from; absent for bytes on the call's own response. */
  readonly origin?: string | undefined;
  /** Milliseconds from the request to these headers, if it was a separate request. */
  readonly latencyMs?: number;
  /** Its headers contradict the grant: its bytes are not the resource's. */
  readonly contradiction?: SluiceError | undefined;
}

/** A range to ask for, and the version it must belong to. */
export interface RangeDemand {
  readonly range: ByteRange;
  readonly etag?: string | undefined;
}

interface Expectation {
  readonly uri: string;
  readonly grant: DownloadGrant;
  /** Where it came from; absent for bytes on the call's own response. */
  readonly target?: AcceptedUrl;
  readonly demand?: RangeDemand | undefined;
  /** A redirect on the way here had said which resource this is (SEP-2532 §3, redirect mode). */
  readonly redirected?: boolean;
}

/**
 * Checks a response against what was requested and promised. Rejects with `protocol`: a status other than 200 and 206,
 * another resource, a coding that was added on the way, a body whose end only the connection tells, a 206 that was not
 * asked for or another range, or lengths that contradict each other. What contradicts the grant is told with the
 * answer: another request may bring the right one.
 */
export function checkAnswer(answer: HopAnswer, expectation: Expectation): CheckedAnswer {
  const { status, headers, framing } = answer;
  const { uri, grant, target, demand, redirected = false } = expectation;
  const isOwn = target === undefined || target.standing === "own";
  // the draft asks the header of the response or of the redirect, not of the redirect's target
  const isNamed = !grant.isLink && headers.has(RESOURCE_URI_HEADER);
  if (isNamed || (isOwn && !redirected && !grant.isLink)) ensureNamed(uri, headers);
  if (status !== 200 && status !== 206) throw broken(`sent bytes with HTTP ${status}`);
  if (framing === "close") throw broken("does not tell where the bytes end");
  const length = contentLength(headers);
  const part = status === 206 ? checkPart(headers, length, demand) : undefined;
  const size = part ? part.size : length;
  const sha256 = parseReprDigest(headers.get("repr-digest"));
  const tag = parseEntityTag(headers.get("etag"));
  const mimeType = parseMediaType(headers.get("content-type"))?.essence;
  const codings = contentCodings(headers.get("content-encoding"));
  // a coding of the stored bytes has their length and validator; one added on the way can have neither
  const isCoded = codings.length > 0;
  const isStored = !answer.decodes && tag?.strong && length !== undefined;
  if (isCoded && !(isStored && codings.every((coding) => storedCodings.has(coding))))
    throw broken("sent the bytes compressed, which was not asked for");
  const etag = tag?.strong ? tag.tag : undefined;
  // storage behind a redirect may name a version in its own way
  const ownTag = isOwn ? etag : undefined;
  return {
    answer,
    start: part?.start ?? 0,
    end: part?.end ?? length,
    size: size ?? grant.size,
    etag,
    sha256: sha256 ?? grant.sha256,
    mimeType,
    contradiction: contradictionOf(grant, { size, sha256, etag: ownTag, mimeType }),
    // left by uploads to S3: the stored bytes are without it
    contentEncoding: codings.filter((coding) => coding !== "aws-chunked").join(", ") || undefined,
    origin: target?.url.origin,
    fileNames: parseContentDisposition(headers.get("content-disposition"))?.fileNames ?? [],
    named: grant.named || redirected || (isOwn && isNamed),
  };
}

/** Facts of a resource that both a grant and a response state. */
type ItemFacts = Pick<DownloadGrant, "size" | "sha256" | "etag" | "mimeType">;

/** The facts in which a response contradicts its grant. */
function contradictionOf(promised: ItemFacts, found: ItemFacts): SluiceError | undefined {
  let isVouched = false;
  for (const [fact, code] of facts) {
    const [due, sent] = [promised[fact], found[fact]];
    if (due === undefined || sent === undefined) continue;
    if (due !== sent)
      return new SluiceError(
        code,
        `client: the server promised the ${fact} ${due} and sends ${sent}`,
      );
    isVouched = true;
  }
  // a storage may label the same bytes in another way
  const format = unpromisedFormat(found.mimeType, promised.mimeType);
  return isVouched || !format ? undefined : errorText(`${format} in place of the file`);
}

const facts = [
  ["size", "corrupt"],
  ["sha256", "corrupt"],
  ["etag", "precondition_failed"],
] as const;

/**
 * Throws `protocol` unless the headers name this resource. A download URL does not keep the spelling of the call, so
 * its server uses the canonical one.
 */
export function ensureNamed(uri: string, headers: Headers): void {
  const namedUri = parseResourceUri(headers.get(RESOURCE_URI_HEADER));
  if (namedUri === undefined || !isSameResource(namedUri, uri))
    throw new SluiceError("protocol", "client: the server answered for another resource");
}

const storedCodings: ReadonlySet<string> = new Set([
  "aws-chunked",
  "br",
  "compress",
  "deflate",
  "gzip",
  "x-compress",
  "x-gzip",
  "zstd",
]);

interface AnswerPart {
  readonly start: number;
  readonly end: number;
  readonly size?: number | undefined;
}

function checkPart(
  headers: Headers,
  length: number | undefined,
  demand: RangeDemand | undefined,
): AnswerPart {
  const { range, size } = parseContentRange(headers.get("content-range")) ?? {};
  if (!demand || !range) throw broken("sent a part that was not asked for");
  const { start, end } = range;
  const askedEnd = demand.range.end ?? Number.POSITIVE_INFINITY;
  const last = Math.min(askedEnd, size ?? Number.POSITIVE_INFINITY);
  if (start !== demand.range.start || (Number.isFinite(last) && end !== last))
    throw broken("sent another part than was asked for");
  if (length !== undefined && length !== end - start)
    throw broken("contradicts itself about the length of the part");
  return { start, end, size };
}

function contentLength(headers: Headers): number | undefined {
  const text = headers.get("content-length");
  if (text === null) return undefined;
  const length = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(length)) throw broken("sent an invalid length");
  return length;
}

function broken(what: string): SluiceError {
  return new SluiceError("protocol", `client: the server ${what}`);
}
