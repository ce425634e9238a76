import type { StorageBackend } from "@sluice/storage";
import { createS3Backend, type S3BackendOptions } from "@sluice/storage-s3";
import { type S3StandIn, type S3StandInOptions, startS3StandIn } from "./stand-in/stand-in.ts";

/** A bucket of the stand-in with a backend that can do everything. */
export interface Bucket extends AsyncDisposable {
  readonly standIn: S3StandIn;
  readonly backend: Required<Omit<StorageBackend, "watch">> & StorageBackend;
}

export async function createBucket(
  options: Partial<S3BackendOptions> = {},
  standInOptions: S3StandInOptions = {},
): Promise<Bucket> {
  const standIn = await startS3StandIn(standInOptions);
  const { bucket, endpoint, credentials } = standIn;
  const backend = createS3Backend({ bucket, endpoint, credentials, writable: true, ...options });
  return {
    standIn,
    backend: backend as Bucket["backend"],
    async [Symbol.asyncDispose]() {
      await backend.close?.();
      await standIn[Symbol.asyncDispose]();
    },
  };
}

export async function readAll(body: ReadableStream<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Zeros that cost no memory. */
export function sparse(size: number): {
  size: number;
  read(start: number, end: number): Uint8Array;
} {
  const zeros = new Uint8Array(1024 * 1024);
  return { size, read: (start, end) => zeros.subarray(0, end - start) };
}

/** The error of the work. */
export async function failureOf(work: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  try {
    await work;
  } catch (error) {
    return error as Error & Record<string, unknown>;
  }
  throw new Error("it succeeded where it has to fail");
}
