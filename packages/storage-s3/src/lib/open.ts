import type { Readable } from "node:stream";
import {
  GetObjectCommand,
  type GetObjectCommandOutput,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
} from "@aws-sdk/client-s3";
import { type ByteRange, SluiceError } from "@sluice/core";
import { createFlowBody, definedMembers, formatRange } from "@sluice/core/internal";
import { flowOfReadable } from "@sluice/core/node";
import type { Digests, ObjectInfo, OpenedObject, OpenOptions } from "@sluice/storage";
import {
  createBytesBody,
  ensureCondition,
  formatIfMatch,
  readExtent,
  resolveRange,
  toStrongEtag,
} from "@sluice/storage/plugin";
import type { Calls } from "./calls.ts";
import type { ObjectCall, S3Root } from "./root.ts";

/** Metadata of one object, by HEAD. */
export async function describeObject(
  calls: Calls,
  key: string,
  { operation, address }: ObjectCall,
  signal: AbortSignal | undefined,
): Promise<ObjectInfo & { readonly size: number }> {
  const command = new HeadObjectCommand({ ...address, ChecksumMode: "ENABLED" });
  const head = await calls.send(command, { operation, signal });
  ensureReadable(head, operation);
  const { size } = readExtent(
    {
      status: 200,
      contentLength: head.ContentLength,
      contentType: head.ContentType,
      etag: head.ETag,
    },
    { operation },
  );
  return { ...toObjectInfo(key, head, size, { whole: true }), size };
}

/** Opens an object, by one GET: its headers describe the bytes that follow. */
export async function openObject(
  calls: Calls,
  root: S3Root,
  key: string,
  options: OpenOptions,
): Promise<OpenedObject> {
  const { range, ifMatch, signal } = options;
  const call = root.begin("open", key, options);
  const { operation, address } = call;
  const IfMatch = formatIfMatch(ifMatch, operation);
  if (range !== undefined && range.start === range.end) {
    // HTTP cannot ask for a range without bytes
    const info = await describeObject(calls, key, call, signal);
    ensureCondition(info, { ifMatch }, operation);
    const resolved = resolveRange(range, info.size, operation);
    return { info, range: resolved, body: createBytesBody(new Uint8Array(), signal) };
  }
  const command = new GetObjectCommand({ ...address, IfMatch, Range: range && formatRange(range) });
  if (range === undefined) askForChecksums(command);
  const answer = await calls.send(command, { operation, signal }).catch(async (error: unknown) => {
    if (!isWithoutSize(error)) throw error;
    const { size } = await describeObject(calls, key, call, signal);
    throw new SluiceError(error.code, error.message, { cause: error.cause, size });
  });
  const stream = answer.Body as Readable;
  try {
    const { size, resolved } = readAnswer(answer, range, operation);
    const info = toObjectInfo(key, answer, size, { whole: range === undefined });
    // not every server looks at If-Match
    ensureCondition(info, { ifMatch }, operation);
    const body = createFlowBody(flowOfReadable(stream, { operation, signal }), signal);
    return { info, ...definedMembers({ range: resolved }), body };
  } catch (error) {
    stream.destroy();
    throw error;
  }
}

/** True for a 416 without the size of the object, which some servers leave out. */
function isWithoutSize(error: unknown): error is SluiceError {
  return (
    SluiceError.is(error) && error.code === "range_not_satisfiable" && error.size === undefined
  );
}

/** Asks for stored checksums, which become digests, without letting the SDK check them on the way: see docs/decisions/006. */
function askForChecksums(command: GetObjectCommand): void {
  command.middlewareStack.add(
    (next) => (args) => {
      (args.request as { headers: Record<string, string> }).headers["x-amz-checksum-mode"] =
        "ENABLED";
      return next(args);
    },
    { step: "build", name: "sluiceChecksumMode" },
  );
}

/** The size of the object, and the range whose bytes follow. */
function readAnswer(
  answer: GetObjectCommandOutput,
  range: ByteRange | undefined,
  operation: string,
): { readonly size: number; readonly resolved: Required<ByteRange> | undefined } {
  const { size, sent } = readExtent(
    {
      status: answer.$metadata.httpStatusCode,
      contentLength: answer.ContentLength,
      contentRange: answer.ContentRange,
      contentType: answer.ContentType,
      etag: answer.ETag,
    },
    { operation, range },
  );
  const resolved = range && resolveRange(range, size, operation);
  if (resolved !== undefined && (resolved.start !== sent.start || resolved.end !== sent.end))
    throw new SluiceError(
      "unsupported",
      `${operation}: the server ignores ranges and sent all ${size} bytes`,
    );
  return { size, resolved };
}

type ObjectHead = HeadObjectCommandOutput | GetObjectCommandOutput;

/** Metadata of an object of `size` bytes. Digests are taken only from answers about the whole object. */
function toObjectInfo(
  key: string,
  head: ObjectHead,
  size: number,
  { whole }: { readonly whole: boolean },
): ObjectInfo {
  return definedMembers({
    key,
    size,
    etag: toStrongEtag(head.ETag),
    lastModified: head.LastModified,
    contentType: head.ContentType,
    contentEncoding: toStoredCoding(head.ContentEncoding),
    digests: whole ? toDigests(head) : undefined,
  });
}

/** Throws `unsupported` for an object whose bytes lie in an archive and have not been restored. */
function ensureReadable(head: HeadObjectCommandOutput, operation: string): void {
  const archived =
    head.StorageClass === "GLACIER" ||
    head.StorageClass === "DEEP_ARCHIVE" ||
    head.ArchiveStatus !== undefined;
  if (archived && !head.Restore?.includes('ongoing-request="false"'))
    throw new SluiceError(
      "unsupported",
      `${operation}: it is in an archive and has to be restored first`,
    );
}

/** Without `aws-chunked`: some servers store this framing of an upload as a coding, although they have removed it. */
function toStoredCoding(header: string | undefined): string | undefined {
  const codings = (header ?? "").split(",").map((coding) => coding.trim());
  return (
    codings.filter((coding) => coding !== "" && coding !== "aws-chunked").join(", ") || undefined
  );
}

/**
 * The ETag does not count: it is an MD5 only sometimes. For an object of several parts, most
 * checksums are not digests of the whole.
 */
function toDigests(head: ObjectHead): Digests | undefined {
  if (head.ChecksumType !== "FULL_OBJECT") return undefined;
  const digests: Digests = definedMembers({
    sha256: toHex(head.ChecksumSHA256),
    sha1: toHex(head.ChecksumSHA1),
    crc32: head.ChecksumCRC32,
    crc32c: head.ChecksumCRC32C,
    crc64nvme: head.ChecksumCRC64NVME,
  });
  return Object.keys(digests).length === 0 ? undefined : digests;
}

function toHex(base64: string | undefined): string | undefined {
  return base64 === undefined ? undefined : Buffer.from(base64, "base64").toString("hex");
}
