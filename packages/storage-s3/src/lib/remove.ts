import { DeleteObjectCommand } from "@aws-sdk/client-s3";
import type { CallOptions } from "@sluice/storage";
import { quoteKey, unlessMissing } from "@sluice/storage/plugin";
import type { Calls } from "./calls.ts";
import type { S3Root } from "./root.ts";

/** Removes an object, by DELETE. A bucket with versions keeps the old ones behind a marker. */
export async function removeObject(
  calls: Calls,
  root: S3Root,
  key: string,
  { signal }: CallOptions,
): Promise<void> {
  signal?.throwIfAborted();
  const command = new DeleteObjectCommand({ Bucket: root.bucket, Key: root.toName(key, "remove") });
  // S3 says 204 for what is not there, the stores of others also 404
  await unlessMissing(calls.send(command, { operation: `s3: remove ${quoteKey(key)}`, signal }));
}
