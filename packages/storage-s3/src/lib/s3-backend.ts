import {
  DeleteObjectCommand,
  GetObjectCommand,
  S3Client,
  type S3ClientConfig,
} from "@aws-sdk/client-s3";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import { definedMembers } from "@sluice/core/internal";
import { createInletAgents } from "@sluice/core/node";
import type {
  CallOptions,
  PresignedUrl,
  PresignOptions,
  StorageBackend,
  WritableBackend,
} from "@sluice/storage";
import { unlessMissing } from "@sluice/storage/plugin";
import { Calls } from "./calls.ts";
import { createRoot, listObjects, type S3Root } from "./root.ts";
import { describeObject, openObject } from "./open.ts";
import { toSluiceError } from "./s3-error.ts";
import { writeObject, writeObjectInSteps } from "./writer.ts";
import { type S3EventSource, watchObjects } from "./watch.ts";

const connectionTimeoutMs = 10_000;
/** Bytes that a socket reads at once, and so the size of the chunks of a body. */
const chunkBytes = 128 * 1024;

/** Settings of {@link createS3Backend}. */
export interface S3BackendOptions {
  readonly bucket: string;
  /** Serve only what lies below this folder of the bucket: `reports` is `reports/…` and never `reports-old/…`. Default: the whole bucket. */
  readonly prefix?: string;
  /** Address of a store other than Amazon's (`https://minio.example:9000`), which gets path-style requests. */
  readonly endpoint?: string;
  /**
   * Region of the bucket, which requests are signed for. Default: as the SDK finds it (`AWS_REGION`, profile); with an
   * endpoint `us-east-1`.
   */
  readonly region?: string;
  /** Fixed credentials, or a provider of the SDK. Default: its chain (environment, profile, role). */
  readonly credentials?: S3ClientConfig["credentials"];
  /**
   * Your own client, in place of `endpoint`, `region` and `credentials`. It needs `maxAttempts: 1`, and
   * `requestChecksumCalculation` and `responseChecksumValidation` `"WHEN_REQUIRED"`: the first call
   * throws `invalid_argument` otherwise. Closing it remains yours.
   */
  readonly client?: S3Client;
  /** Whether the backend has `write`, `writeInSteps` and `remove`. Default: false. */
  readonly writable?: boolean;
  /** Where `watch` takes its changes from. Default: the backend has no `watch`. */
  readonly events?: S3EventSource;
}

/**
 * Creates a backend over a bucket of S3, or of a store that speaks its protocol. Nothing is sent
 * before the first call. An illegal prefix throws `invalid_argument`.
 */
export function createS3Backend(
  options: S3BackendOptions & { readonly writable: true },
): WritableBackend;
export function createS3Backend(options: S3BackendOptions): StorageBackend;
export function createS3Backend(options: S3BackendOptions): StorageBackend {
  if (!(options as Partial<S3BackendOptions> | undefined)?.bucket)
    throw new TypeError('createS3Backend: bucket must be the name of one: { bucket: "files" }');
  const { bucket, prefix = "", writable = false, events } = options;
  const root = createRoot(bucket, prefix);
  const client = options.client ?? createClient(options);
  const calls = new Calls(client);
  const watches = events && watchObjects(root, events);

  const backend = {
    name: "s3",

    describe: async (key, { signal } = {}) =>
      describeObject(calls, key, root.begin("describe", key, { signal }), signal),

    open: (key, openOptions = {}) => openObject(calls, root, key, openOptions),

    list: (listOptions = {}) => listObjects(calls, root, listOptions),

    presign: (key, presignOptions) => presignObject(calls, root, key, presignOptions),

    presignOrigins: (callOptions = {}) => presignOrigins(calls, root, callOptions),

    async close() {
      watches?.close();
      if (options.client === undefined) client.destroy();
    },
  } satisfies StorageBackend;
  return {
    ...backend,
    ...(watches && { watch: (watchOptions) => watches.watch(watchOptions) }),
    ...(writable && {
      write: (key, writeOptions = {}) => writeObject(calls, root, key, writeOptions),
      writeInSteps: (key, stepOptions = {}) => writeObjectInSteps(calls, root, key, stepOptions),
      // a bucket with versions keeps the old ones behind a marker
      async remove(key, { signal } = {}) {
        const { operation, address } = root.begin("remove", key, { signal });
        // S3 says 204 for a missing object, other stores also 404
        await unlessMissing(calls.send(new DeleteObjectCommand(address), { operation, signal }));
      },
    }),
  } satisfies StorageBackend;
}

/** Makes a client without retries and checksums: Sluice retries, resumes and verifies. */
function createClient({ endpoint, region, credentials }: S3BackendOptions): S3Client {
  // an open body holds its socket for as long as its reader likes: with a limit, some would wait for others
  const settings = { keepAlive: true, maxSockets: Infinity, highWaterMark: chunkBytes };
  const agents = createInletAgents(settings, chunkBytes);
  return new S3Client({
    // other stores than Amazon's are found by their paths, and take any region
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true, region: "us-east-1" }),
    ...definedMembers({ region, credentials }),
    maxAttempts: 1,
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    requestHandler: {
      httpAgent: agents.http,
      httpsAgent: agents.https,
      connectionTimeout: connectionTimeoutMs,
    },
  });
}

/** The longest that a signature of S3 is good for: seven days. */
const maxSeconds = 7 * 24 * 3600;

/**
 * Signs a GET, without `Range` and `If-Match`: if they were signed, every client would have to send the
 * same. A URL expires with the credentials that signed it, so it never promises more. `undefined` if
 * that is in less than a second, or for text that S3 cannot put into a header: anything but ASCII.
 */
async function presignObject(
  calls: Calls,
  root: S3Root,
  key: string,
  options: PresignOptions,
): Promise<PresignedUrl | undefined> {
  const { expiresInMs, contentType, contentDisposition, signal } = options;
  const { operation, address } = root.begin("presign", key, options);
  if (![contentType, contentDisposition].every(isHeaderText)) return undefined;
  try {
    const { expiration } = await calls.credentials({ operation, signal });
    // signatures count in whole seconds
    const now = Math.floor(Date.now() / 1000) * 1000;
    const leftMs = (expiration?.getTime() ?? Infinity) - now;
    const expiresIn = Math.min(Math.floor(Math.min(expiresInMs, leftMs) / 1000), maxSeconds);
    if (!(expiresIn >= 1)) return undefined;
    const { client } = calls;
    const command = new GetObjectCommand({
      ...address,
      ResponseContentType: contentType,
      ResponseContentDisposition: contentDisposition,
    });
    // the time of S3, if the SDK has found that our clock is wrong
    const signingDate = new Date(now + client.config.systemClockOffset);
    const url = await getSignedUrl(client, command, { expiresIn, signingDate });
    signal?.throwIfAborted();
    return { url, expiresAt: now + expiresIn * 1000 };
  } catch (error) {
    signal?.throwIfAborted();
    throw toSluiceError(error, operation);
  }
}

/**
 * The origin of all URLs, which depends on bucket, region and settings of the client: that of a URL for any object. None while
 * the credentials are about to expire.
 */
async function presignOrigins(
  calls: Calls,
  root: S3Root,
  options: CallOptions,
): Promise<readonly string[]> {
  const presigned = await presignObject(calls, root, "any", { ...options, expiresInMs: 60_000 });
  return presigned ? [new URL(presigned.url).origin] : [];
}

function isHeaderText(text: string | undefined): boolean {
  return text === undefined || /^[\x20-\x7e]+$/.test(text);
}
