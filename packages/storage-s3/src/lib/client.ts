import { Agent as HttpAgent, type AgentOptions } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { Socket } from "node:net";
import { S3Client, type S3ClientConfig } from "@aws-sdk/client-s3";
import { definedMembers } from "@sluice/core";

const connectionTimeoutMs = 10_000;
/** What a socket reads at once, and with that the size of the chunks of a body. */
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
  const agents = createWideAgents(settings, chunkBytes);
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

type CreateConnection = (options: object, callback?: unknown) => Socket;

/**
 * Agents whose sockets read up to `readBytes` at once into one buffer of their own, instead of 64 KiB
 * into a new one each time: a body comes in fewer chunks, at about half the processor time.
 */
function createWideAgents(
  options: AgentOptions,
  readBytes: number,
): { readonly http: HttpAgent; readonly https: HttpsAgent } {
  const widen = <A extends HttpAgent>(agent: A): A => {
    const own = agent as unknown as { createConnection: CreateConnection };
    const connect = own.createConnection.bind(agent);
    own.createConnection = (to, callback) => {
      const buffer = Buffer.allocUnsafeSlow(readBytes);
      // Node's HTTP parser copies what it keeps, so the buffer can be filled again
      const onread = {
        buffer,
        callback: (count: number) => socket.emit("data", buffer.subarray(0, count)),
      };
      const socket = connect({ ...to, onread }, callback);
      return socket;
    };
    return agent;
  };
  return { http: widen(new HttpAgent(options)), https: widen(new HttpsAgent(options)) };
}
