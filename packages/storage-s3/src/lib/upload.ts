import { createHash, getFips } from "node:crypto";
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  ListPartsCommand,
  PutObjectCommand,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import { SluiceError } from "@sluice/core";
import { within } from "@sluice/core/internal";
import type { WriteOptions } from "@sluice/storage";
import {
  formatIfMatch,
  asPrecondition,
  publishOnce,
  repeaterOf,
  toStrongEtag,
  unlessMissing,
} from "@sluice/storage/plugin";
import type { Calls } from "./calls.ts";
import type { ObjectCall } from "./root.ts";
import { isUploadGone } from "./s3-error.ts";

/** Longest time to send one part, or to have all of them put together, which S3 may take minutes for. */
const longMs = 600_000;
const maxAborts = 3;

/** Where an object goes, and under which conditions. */
export type S3UploadTarget = ObjectCall &
  Pick<WriteOptions, "contentType" | "ifMatch" | "ifAbsent" | "repeat">;

/** Metadata key by which a retried conditional PUT finds that an earlier try made its object. */
const mark = "sluice-write";

/** A multipart upload. Nothing is visible before `complete`. */
export interface MultipartUpload {
  /** Sends part `number`, from 1; its bytes must not change until it settles. */
  send(number: number, part: Uint8Array): Promise<void>;
  /** Puts the parts together; gives the ETag. */
  complete(): Promise<string>;
  /**
   * Leaves no part behind. Does not fail: parts that it could not remove are left to a lifecycle
   * rule of the bucket.
   */
  abort(): Promise<void>;
}

/** Writes an object in one request; gives its ETag. S3 keeps its SHA-256, so that readers can check it. */
export async function putObject(
  calls: Calls,
  target: S3UploadTarget,
  bytes: Uint8Array,
  signal: AbortSignal,
): Promise<string> {
  const { operation, address, ifMatch, ifAbsent } = target;
  const isConditional = ifMatch !== undefined || ifAbsent === true;
  const writer = crypto.randomUUID();
  const send = async (): Promise<string> => {
    const command = new PutObjectCommand({
      ...address,
      ...toConditions(target),
      ...(isConditional && { Metadata: { [mark]: writer } }),
      ContentType: target.contentType,
      Body: bytes,
      ChecksumAlgorithm: "SHA256",
    });
    const call = { operation, signal, timeoutMs: longMs };
    return ensureTag(await asPrecondition(target, operation, calls.send(command, call)), operation);
  };
  const find = async (): Promise<string | undefined> => {
    const head = calls.send(new HeadObjectCommand(address), { operation, signal });
    const stored = await unlessMissing(head);
    return stored?.Metadata?.[mark] === writer ? stored.ETag : undefined;
  };
  const repeat = repeaterOf(target, signal);
  return isConditional ? publishOnce(repeat, send, find) : repeat(send);
}

/** Starts an upload in the background. `signal` ends everything but the start and the abort. */
export function createUpload(
  calls: Calls,
  target: S3UploadTarget,
  signal: AbortSignal,
): MultipartUpload {
  // the start is never aborted: without the id of the upload its parts could not be removed
  const starting = startUpload(calls, target, signal, undefined);
  return driveUpload(calls, target, { starting, completed: [], isResumed: false, signal });
}

/**
 * Starts an upload and gives its id. `retrySignal` ends the pauses between tries, `requestSignal` the request. An upload
 * whose response was lost has no parts; a lifecycle rule removes it.
 */
export function startUpload(
  calls: Calls,
  target: S3UploadTarget,
  retrySignal: AbortSignal | undefined,
  requestSignal: AbortSignal | undefined,
): Promise<string> {
  const { operation, address, contentType } = target;
  return repeaterOf(
    target,
    retrySignal,
  )(async () => {
    const command = new CreateMultipartUploadCommand({ ...address, ContentType: contentType });
    const { UploadId } = await calls.send(command, { operation, signal: requestSignal });
    if (UploadId === undefined)
      throw new SluiceError("protocol", `${operation}: the upload has no id`);
    return UploadId;
  });
}

/** Resumes an upload that has some parts. `signal` ends everything but the abort. */
export function resumeUpload(
  calls: Calls,
  target: S3UploadTarget,
  {
    id,
    kept,
    signal,
  }: {
    readonly id: string;
    /** From the first on. */
    readonly kept: readonly CompletedPart[];
    readonly signal: AbortSignal;
  },
): MultipartUpload {
  const starting = Promise.resolve(id);
  // a part of an earlier step may be on its way
  return driveUpload(calls, target, { starting, completed: [...kept], isResumed: true, signal });
}

function driveUpload(
  calls: Calls,
  target: S3UploadTarget,
  {
    starting,
    completed,
    isResumed,
    signal,
  }: {
    readonly starting: Promise<string>;
    readonly completed: CompletedPart[];
    /** A part of an earlier step may still arrive. */
    readonly isResumed: boolean;
    readonly signal: AbortSignal;
  },
): MultipartUpload {
  const { operation, address } = target;
  const repeat = repeaterOf(target, signal);
  let mayArriveLate = isResumed;
  const uploadId = (): Promise<string> =>
    within(starting, {
      timeoutMs: longMs,
      expired: () => new SluiceError("timeout", `${operation}: the upload did not start`),
      signal,
    });
  /** True if the upload is gone: it was completed or aborted. */
  const hasEnded = (UploadId: string): Promise<boolean> => {
    const parts = new ListPartsCommand({ ...address, UploadId, MaxParts: 1 });
    return calls.send(parts, { operation }).then(() => false, isUploadGone);
  };
  const sendPart = async (number: number, part: Uint8Array): Promise<void> => {
    const UploadId = await uploadId();
    const command = new UploadPartCommand({
      ...address,
      UploadId,
      PartNumber: number,
      Body: part,
    });
    try {
      const { ETag } = await calls.send(command, { operation, signal, timeoutMs: longMs });
      // without it S3 would complete with the part that another writer sent in this place
      if (ETag === undefined)
        throw new SluiceError("protocol", `${operation}: S3 names no ETag of part ${number}`);
      completed.push({ PartNumber: number, ETag });
    } catch (error) {
      mayArriveLate = true;
      throw error;
    }
  };

  return {
    send: (number, part) => repeat(() => sendPart(number, part)),
    async complete() {
      const UploadId = await uploadId();
      const complete = async (): Promise<string> => {
        const command = new CompleteMultipartUploadCommand({
          ...address,
          ...toConditions(target),
          UploadId,
          MultipartUpload: { Parts: completed },
        });
        const call = { operation, signal, timeoutMs: longMs };
        return ensureTag(
          await asPrecondition(target, operation, calls.send(command, call)),
          operation,
        );
      };
      // an upload that has ended and an object of its parts: an earlier try completed it, or a writer of the same bytes
      const find = async (): Promise<string | undefined> => {
        if (!(await hasEnded(UploadId))) return undefined;
        const head = calls.send(new HeadObjectCommand(address), { operation, signal });
        const tag = (await unlessMissing(head))?.ETag;
        return toStrongEtag(tag) === tagOfParts(completed) ? tag : undefined;
      };
      return publishOnce(repeat, complete, find);
    },
    async abort() {
      const UploadId = await starting.catch(() => undefined);
      if (UploadId === undefined) return;
      // a part that was cut off may still arrive after the abort, and would stay
      for (let tries = 0; tries < maxAborts; tries++) {
        const command = new AbortMultipartUploadCommand({ ...address, UploadId });
        const isRemoved = await calls.send(command, { operation }).then(() => true, isUploadGone);
        if (isRemoved && !mayArriveLate) return;
        if (await hasEnded(UploadId).catch(() => false)) return;
      }
    },
  };
}

/** A response without an ETag is not from S3, but from something in between: nothing was written. */
function ensureTag({ ETag }: { readonly ETag?: string | undefined }, operation: string): string {
  if (ETag !== undefined) return ETag;
  throw new SluiceError("unavailable", `${operation}: the answer does not name the object`);
}

/** The tag that S3 gives an object of these parts; empty if their tags are not MD5s, as under some encryption. */
function tagOfParts(parts: readonly CompletedPart[]): string {
  const digests = parts.map(({ ETag }) => toStrongEtag(ETag) ?? "");
  if (getFips() !== 0 || !digests.every((digest) => /^[0-9a-f]{32}$/.test(digest))) return "";
  const hash = createHash("md5");
  for (const digest of digests) hash.update(digest, "hex");
  return `${hash.digest("hex")}-${parts.length}`;
}

function toConditions({ ifMatch, ifAbsent, operation }: S3UploadTarget): {
  readonly IfMatch: string | undefined;
  readonly IfNoneMatch: string | undefined;
} {
  return {
    IfMatch: formatIfMatch(ifMatch, operation),
    IfNoneMatch: ifAbsent ? "*" : undefined,
  };
}
