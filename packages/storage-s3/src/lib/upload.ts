import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  ListPartsCommand,
  PutObjectCommand,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import { SluiceError } from "@sluice/core";
import { within } from "@sluice/core/async";
import type { WriteOptions } from "@sluice/storage";
import { formatIfMatch, publishIf } from "@sluice/storage/plugin";
import type { Calls } from "./calls.ts";
import type { ObjectCall } from "./root.ts";

/** Longest time to send one part, or to have all of them put together, which S3 may take minutes for. */
const longMs = 600_000;
const mostAborts = 3;

/** Where an object goes, and under which conditions. */
export type S3UploadTarget = ObjectCall &
  Pick<WriteOptions, "contentType" | "ifMatch" | "ifAbsent">;

/** A multipart upload. Nothing is visible before `complete`. */
export interface MultipartUpload {
  /** Sends part `number`, from 1; its bytes must not change meanwhile. */
  send(number: number, part: Uint8Array): Promise<void>;
  /** Puts the parts together; gives the ETag. */
  complete(): Promise<string | undefined>;
  /** Leaves no part behind. Does not fail: what it could not remove is left to a lifecycle rule of the bucket. */
  abort(): Promise<void>;
}

/** Writes an object in one request; gives its ETag. S3 keeps its SHA-256, so that readers can check it. */
export async function putObject(
  calls: Calls,
  target: S3UploadTarget,
  bytes: Uint8Array,
  signal: AbortSignal,
): Promise<string | undefined> {
  const command = new PutObjectCommand({
    ...target.address,
    ...toConditions(target),
    ContentType: target.contentType,
    Body: bytes,
    ChecksumAlgorithm: "SHA256",
  });
  const call = { operation: target.operation, signal, timeoutMs: longMs };
  return (await publishIf(target, target.operation, calls.send(command, call))).ETag;
}

/** Starts an upload with its first part. `signal` ends everything but the start and the abort. */
export function createUpload(
  calls: Calls,
  target: S3UploadTarget,
  signal: AbortSignal,
): MultipartUpload {
  const { operation, address } = target;
  // an abort does not end it: without the id of the upload its parts would stay
  const starting = calls
    .send(new CreateMultipartUploadCommand({ ...address, ContentType: target.contentType }), {
      operation,
    })
    .then(({ UploadId }) => {
      if (UploadId === undefined)
        throw new SluiceError("protocol", `${operation}: the upload has no id`);
      return UploadId;
    });
  return driveUpload(calls, target, { starting, completed: [], cutOff: false, signal });
}

/** Goes on with an upload of which some parts are kept. `signal` ends everything but the abort. */
export function goOnWithUpload(
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
  return driveUpload(calls, target, { starting, completed: [...kept], cutOff: true, signal });
}

function driveUpload(
  calls: Calls,
  target: S3UploadTarget,
  {
    starting,
    completed,
    cutOff: mayBeCutOff,
    signal,
  }: {
    readonly starting: Promise<string>;
    readonly completed: CompletedPart[];
    /** A part was sent that may arrive yet. */
    readonly cutOff: boolean;
    readonly signal: AbortSignal;
  },
): MultipartUpload {
  const { operation, address } = target;
  let cutOff = mayBeCutOff;
  const started = (): Promise<string> =>
    within(starting, {
      timeoutMs: longMs,
      expired: () => new SluiceError("timeout", `${operation}: the upload did not start`),
      signal,
    });

  return {
    async send(number, part) {
      const UploadId = await started();
      const command = new UploadPartCommand({
        ...address,
        UploadId,
        PartNumber: number,
        Body: part,
      });
      try {
        const { ETag } = await calls.send(command, { operation, signal, timeoutMs: longMs });
        // without it S3 would complete with what another writer sent in this place
        if (ETag === undefined)
          throw new SluiceError("protocol", `${operation}: S3 names no ETag of part ${number}`);
        completed.push({ PartNumber: number, ETag });
      } catch (error) {
        cutOff = true;
        throw error;
      }
    },
    async complete() {
      const command = new CompleteMultipartUploadCommand({
        ...address,
        ...toConditions(target),
        UploadId: await started(),
        MultipartUpload: { Parts: completed },
      });
      const call = { operation, signal, timeoutMs: longMs };
      return (await publishIf(target, target.operation, calls.send(command, call))).ETag;
    },
    async abort() {
      const UploadId = await starting.catch(() => undefined);
      if (UploadId === undefined) return;
      // a part that was cut off may still arrive after the abort, and would stay
      for (let tries = 0; tries < mostAborts; tries++) {
        const command = new AbortMultipartUploadCommand({ ...address, UploadId });
        const gone = await calls.send(command, { operation }).then(() => true, isGone);
        if (gone && !cutOff) return;
        const parts = new ListPartsCommand({ ...address, UploadId, MaxParts: 1 });
        if (await calls.send(parts, { operation }).then(() => false, isGone)) return;
      }
    },
  };
}

function isGone(error: unknown): boolean {
  return SluiceError.is(error) && ["interrupted", "not_found"].includes(error.code);
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
