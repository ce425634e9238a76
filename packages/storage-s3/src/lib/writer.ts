import { definedMembers } from "@sluice/core/internal";
import type { ObjectWriter, WriteOptions } from "@sluice/storage";
import {
  createPartDriver,
  createWriter,
  ensureWritable,
  toStrongEtag,
  type WriteDriver,
} from "@sluice/storage/plugin";
import type { Calls } from "./calls.ts";
import { describeObject } from "./open.ts";
import type { S3Root } from "./root.ts";
import { toSluiceError } from "./s3-error.ts";
import { createUpload, type MultipartUpload, putObject } from "./upload.ts";

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
