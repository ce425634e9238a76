import { closeSync, openSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { startS3StandIn } from "../../../../packages/storage-s3/test/stand-in/stand-in.ts";

/** An object store on an origin of its own, which wants each request signed. */
export interface StorageService {
  /** For `SLUICE_STORAGE`. */
  readonly setting: string;
  /** Credentials and the origin that redirects may lead to, as environment variables. */
  readonly environment: Readonly<Record<string, string>>;
  /** `http://127.0.0.1:<port>` */
  readonly origin: string;
  /** Requests so far whose signature was in their URL. */
  countSignedUrls(): number;
  close(): Promise<void>;
}

/** Starts a store that speaks the protocol of S3 and checks its signatures, with one file of a folder in its bucket. */
export async function startStorageService(folder: string, key: string): Promise<StorageService> {
  const s3 = await startS3StandIn();
  const path = join(folder, key);
  const file = openSync(path, "r");
  s3.put(key, {
    size: statSync(path).size,
    read(start, end) {
      const bytes = Buffer.alloc(end - start);
      return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, start));
    },
  });
  return {
    setting: `s3://${s3.bucket}?region=${s3.region}&endpoint=${s3.endpoint}`,
    environment: {
      AWS_ACCESS_KEY_ID: s3.credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: s3.credentials.secretAccessKey,
      SLUICE_REDIRECT_ORIGINS: s3.endpoint,
      // the SDK would print that it wants a newer Node than this repository promises
      AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: "true",
    },
    origin: s3.endpoint,
    countSignedUrls: () => s3.requests.filter(({ url }) => url.includes("X-Amz-Signature=")).length,
    async close() {
      await s3[Symbol.asyncDispose]();
      closeSync(file);
    },
  };
}
