import { type CompletedPart, ListPartsCommand } from "@aws-sdk/client-s3";
import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type {
  ObjectInfo,
  ObjectWriter,
  StepOptions,
  StepWriter,
  WriteOptions,
} from "@sluice/storage";
import {
  createPartDriver,
  createStepPartDriver,
  createStepWriter,
  createWriter,
  ensureWritable,
  repeaterOf,
  type StepDriver,
  toPartGrid,
  toStrongEtag,
  type WriteDriver,
} from "@sluice/storage/plugin";
import type { Calls } from "./calls.ts";
import { describeObject } from "./open.ts";
import type { ObjectCall, S3Root } from "./root.ts";
import { isUploadGone, toSluiceError } from "./s3-error.ts";
import {
  createUpload,
  type MultipartUpload,
  putObject,
  resumeUpload,
  startUpload,
} from "./upload.ts";

const partBytes = 8 * 1024 * 1024;
/** Maximum parts of one object in S3. */
const maxParts = 10_000;

/**
 * Opens a writer over parts of 8 MiB, or as much as 10,000 parts need for the declared size. An
 * object of one part is a single PUT at `commit`, larger objects are a multipart upload that
 * `commit` completes.
 */
export async function writeObject(
  calls: Calls,
  root: S3Root,
  key: string,
  options: WriteOptions,
): Promise<ObjectWriter> {
  const { size, contentType, signal } = options;
  const call = root.begin("write", key, options);
  const { operation } = call;
  const target = { ...options, ...call };
  await ensureWritable(options, operation, () => describeObject(calls, key, call, signal));

  const openDriver = (ended: AbortSignal): WriteDriver => {
    let upload: MultipartUpload | undefined;
    return createPartDriver(
      {
        async send(part, sent) {
          upload ??= createUpload(calls, target, ended);
          await upload.send(sent + 1, part);
        },
        async publish(last, sent, written) {
          let etag: string | undefined;
          if (upload === undefined) etag = await putObject(calls, target, last, ended);
          else {
            await upload.send(sent + 1, last);
            etag = await upload.complete();
            // a complete upload has nothing to abort
            upload = undefined;
          }
          return definedMembers({ key, size: written, etag: toStrongEtag(etag), contentType });
        },
        release: async () => upload?.abort(),
      },
      { operation, size, partBytes, maxParts },
    );
  };
  return createWriter(openDriver, { operation, size, signal, toError: toSluiceError });
}

/** Parts of 8 MiB at first, which grow: all together hold more than the 5 TiB of the largest object in S3. */
const grid = toPartGrid(partBytes, maxParts);

/** Opens a writer of one step over a multipart upload, whose id names the object to the next step. */
export async function writeObjectInSteps(
  calls: Calls,
  root: S3Root,
  key: string,
  options: StepOptions,
): Promise<StepWriter> {
  const { id: givenId, contentType, signal } = options;
  const call = root.begin("write in steps", key, options);
  const { operation } = call;
  if (givenId !== undefined && !/^[\x21-\x7e]{1,1024}$/.test(givenId))
    throw new SluiceError("invalid_argument", `${operation}: the id is not one of S3`);
  const target = { ...options, ...call };
  const id = givenId ?? (await startUpload(calls, target, signal, signal));
  const keptParts = givenId === undefined ? [] : await findParts(calls, call, id, signal);

  const toInfo = (size: number, etag: string | undefined): ObjectInfo =>
    definedMembers({ key, size, etag: toStrongEtag(etag), contentType });
  const openDriver = (ended: AbortSignal): StepDriver => {
    const upload = resumeUpload(calls, target, { id, kept: keptParts, signal: ended });
    const repeat = repeaterOf(options, ended);
    return createStepPartDriver(
      {
        send: (number, part) => upload.send(number + 1, part).catch(asOvertaken(operation)),
        async publish(last, count) {
          const size = grid.startOf(count) + last.byteLength;
          if (size === 0) {
            // an empty object sends no part that would fail: only this shows that another writer has ended the upload
            await repeat(() => findParts(calls, call, id, ended));
            const etag = await putObject(calls, target, last, ended);
            await upload.abort();
            return toInfo(size, etag);
          }
          const complete = async (): Promise<string | undefined> => {
            if (last.byteLength > 0) await upload.send(count + 1, last);
            return upload.complete();
          };
          return toInfo(size, await complete().catch(asOvertaken(operation)));
        },
        discard: () => upload.abort(),
      },
      { operation, grid, count: keptParts.length },
    );
  };
  const offset = grid.startOf(keptParts.length);
  return createStepWriter(openDriver, { operation, id, offset, signal, toError: toSluiceError });
}

/** The kept parts before the first that is missing or not as long as the grid says: parts after it are sent again. */
async function findParts(
  calls: Calls,
  { operation, address }: ObjectCall,
  UploadId: string,
  signal: AbortSignal | undefined,
): Promise<CompletedPart[]> {
  const parts: CompletedPart[] = [];
  let PartNumberMarker: string | undefined;
  do {
    const command = new ListPartsCommand({ ...address, UploadId, PartNumberMarker });
    const page = await calls.send(command, { operation, signal }).catch((error: unknown) => {
      throw isUploadGone(error)
        ? new SluiceError("not_found", `${operation}: nothing of it is kept`, { cause: error })
        : error;
    });
    const listedParts = page.Parts ?? [];
    // an empty page that promises more would be requested forever
    if (listedParts.length === 0) return parts;
    for (const { PartNumber, ETag, Size } of listedParts) {
      const isNext = PartNumber === parts.length + 1 && Size === grid.sizeOf(parts.length);
      if (!isNext || ETag === undefined) return parts;
      parts.push({ PartNumber, ETag });
    }
    PartNumberMarker = page.IsTruncated ? page.NextPartNumberMarker : undefined;
  } while (PartNumberMarker !== undefined);
  return parts;
}

/** Turns the error of an upload that is gone into that of one which another writer has completed or aborted. */
function asOvertaken(operation: string): (error: unknown) => never {
  return (error) => {
    if (!isUploadGone(error)) throw error;
    throw new SluiceError("precondition_failed", `${operation}: another writer ended it`, {
      cause: error,
    });
  };
}
