import { S3Client, type S3ClientConfig } from "@aws-sdk/client-s3";
import { definedMembers } from "@sluice/core";
import { createInletAgents } from "@sluice/core/node";

const connectionTimeoutMs = 10_000;
/** Bytes that a socket reads at once, and so the size of the chunks of a body. */
const chunkBytes = 128 * 1024;

/** Address and credentials of a client that is made here. */
export interface ClientSettings {
  readonly endpoint?: string;
  readonly region?: string;
  readonly credentials?: S3ClientConfig["credentials"];
}

/** Makes a client that does each thing once: waits and repeats, resumes and digests are Sluice's. */
export function createClient({ endpoint, region, credentials }: ClientSettings): S3Client {
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
