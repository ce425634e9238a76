import type { Readable } from "node:stream";
import {
  GetObjectCommand,
  type GetObjectCommandOutput,
  HeadObjectCommand,
} from "@aws-sdk/client-s3";
import { type ByteRange, formatRange, parseContentRange, SluiceError } from "@sluice/core";
import type { ObjectInfo, OpenedObject, OpenOptions } from "@sluice/storage";
import { createBody, ensureRange, quoteKey, resolveRange } from "@sluice/storage/plugin";
import { createS3Body } from "./body.ts";
import type { Calls } from "./calls.ts";
import { ensureReadable, toEtag, toObjectInfo } from "./object-info.ts";
import type { S3Root } from "./root.ts";

/** Metadata of one object, by HEAD. */
export async function describeObject(
  calls: Calls,
  root: S3Root,
  key: string,
  { method, signal }: { readonly method: string; readonly signal?: AbortSignal | undefined },
): Promise<ObjectInfo & { readonly size: number }> {
  const operation = `s3: ${method} ${quoteKey(key)}`;
  signal?.throwIfAborted();
  const command = new HeadObjectCommand({
    Bucket: root.bucket,
    Key: root.toName(key, method),
    ChecksumMode: "ENABLED",
  });
  const head = await calls.send(command, { operation, signal });
  ensureReadable(head, operation);
  const size = ensureSize(head.ContentLength, operation);
  return { ...toObjectInfo(key, head, size, { whole: true }), size };
}

/** Opens an object, by one GET: its headers describe the bytes that follow. */
export async function openObject(
  calls: Calls,
  root: S3Root,
  key: string,
  { range, ifMatch, signal }: OpenOptions,
): Promise<OpenedObject> {
  const operation = `s3: open ${quoteKey(key)}`;
  signal?.throwIfAborted();
  const name = root.toName(key, "open");
  if (range !== undefined) ensureRange(range, operation);
  if (ifMatch !== undefined && toEtag(`"${ifMatch}"`) !== ifMatch) throw changed(operation);
  if (range !== undefined && range.start === range.end)
    return openNothing(calls, root, key, { range, ifMatch, signal });

  const command = new GetObjectCommand({
    Bucket: root.bucket,
    Key: name,
    Range: range && formatRange(range),
    IfMatch: ifMatch === undefined ? undefined : `"${ifMatch}"`,
  });
  if (range === undefined) askForChecksums(command);
  const answer = await calls.send(command, { operation, signal }).catch(async (error: unknown) => {
    if (!isWithoutSize(error)) throw error;
    const { size } = await describeObject(calls, root, key, { method: "open", signal });
    throw new SluiceError(error.code, error.message, { cause: error.cause, size });
  });
  const message = answer.Body as Readable;
  try {
    const { size, resolved } = readExtent(answer, range, operation);
    const info = toObjectInfo(key, answer, size, { whole: range === undefined });
    // not every server looks at If-Match
    if (ifMatch !== undefined && info.etag !== ifMatch) throw changed(operation);
    const body = createS3Body(message, { operation, signal });
    return resolved === undefined ? { info, body } : { info, range: resolved, body };
  } catch (error) {
    message.destroy();
    throw error;
  }
}

interface NothingOptions {
  readonly range: ByteRange;
  readonly ifMatch: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/** A range without bytes, which HTTP cannot ask for. */
async function openNothing(
  calls: Calls,
  root: S3Root,
  key: string,
  { range, ifMatch, signal }: NothingOptions,
): Promise<OpenedObject> {
  const operation = `s3: open ${quoteKey(key)}`;
  const info = await describeObject(calls, root, key, { method: "open", signal });
  if (ifMatch !== undefined && info.etag !== ifMatch) throw changed(operation);
  return {
    info,
    range: resolveRange(range, info.size, operation),
    body: createBody({ next: async () => undefined }),
  };
}

/** Not every server says with its 416 how long the object is. */
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

/** The size of the object and the range that follows, from the headers, held against what was asked for. */
function readExtent(
  answer: GetObjectCommandOutput,
  range: ByteRange | undefined,
  operation: string,
): { readonly size: number; readonly resolved: Required<ByteRange> | undefined } {
  const length = ensureSize(answer.ContentLength, operation);
  if (answer.$metadata.httpStatusCode !== 206) {
    const resolved = range && resolveRange(range, length, operation);
    if (resolved !== undefined && (resolved.start > 0 || resolved.end < length))
      throw new SluiceError(
        "unsupported",
        `${operation}: the server ignores ranges and sent all ${length} bytes`,
      );
    return { size: length, resolved };
  }
  const { range: got, size } = parseContentRange(answer.ContentRange) ?? {};
  const asked = range && size !== undefined ? resolveRange(range, size, operation) : undefined;
  if (
    size === undefined ||
    asked === undefined ||
    got?.start !== asked.start ||
    got.end !== asked.end ||
    length !== asked.end - asked.start
  )
    throw new SluiceError("corrupt", `${operation}: another range came than was asked for`);
  return { size, resolved: asked };
}

/** Without a length, an answer that breaks off would look like a whole one. */
function ensureSize(length: number | undefined, operation: string): number {
  if (length !== undefined && Number.isSafeInteger(length)) return length;
  throw new SluiceError("protocol", `${operation}: S3 did not say how long the object is`);
}

function changed(operation: string): SluiceError {
  return new SluiceError("precondition_failed", `${operation}: the object has changed`);
}
