import assert from "node:assert/strict";
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  type GetObjectCommandInput,
  ListObjectsV2Command,
  PutObjectCommand,
  type PutObjectCommandInput,
  S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import type { Deviation } from "./stand-in/stand-in.ts";

/** A server with an empty bucket. */
export interface ServerUnderTest {
  readonly endpoint: string;
  readonly region: string;
  readonly bucket: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/** One thing that an S3 server does. */
export interface ServerCase {
  readonly id: string;
  readonly sentence: string;
  /** The deviation of the stand-in that this case notices. */
  readonly notices?: Deviation;
  check(bench: Bench): Promise<void>;
}

/** The SDK as it comes, with its own folder in the bucket. */
export interface Bench {
  readonly client: S3Client;
  readonly server: ServerUnderTest;
  /** Starts every name. */
  readonly folder: string;
  /** Gives the ETag as it comes. */
  readonly put: (
    name: string,
    content: NonNullable<PutObjectCommandInput["Body"]>,
    more?: Partial<PutObjectCommandInput>,
  ) => Promise<string>;
  readonly get: (name: string, more?: Partial<GetObjectCommandInput>) => Promise<Buffer>;
  readonly at: (name: string) => { readonly Bucket: string; readonly Key: string };
}

/** The SDK's name for a failed answer, by status and code. */
export async function expectRefusal(work: () => Promise<unknown>, status: number, code?: string) {
  try {
    await work();
  } catch (error) {
    const { $metadata, name } = error as { $metadata?: { httpStatusCode?: number }; name: string };
    assert.equal($metadata?.httpStatusCode, status, `the status; the code was ${name}`);
    if (code !== undefined) assert.equal(name, code);
    return;
  }
  assert.fail(`it succeeded where ${status} is due`);
}

export function sign(
  bench: Bench,
  name: string,
  options: Parameters<typeof getSignedUrl>[2],
  more = {},
) {
  return getSignedUrl(bench.client, new GetObjectCommand({ ...bench.at(name), ...more }), options);
}

export async function listAll({ client, server, folder }: Bench, limit: number): Promise<string[]> {
  const names: string[] = [];
  let token: string | undefined;
  for (let page = 0; page < 100; page++) {
    const { Contents, IsTruncated, NextContinuationToken, EncodingType } = await client.send(
      new ListObjectsV2Command({
        Bucket: server.bucket,
        Prefix: folder,
        MaxKeys: limit,
        EncodingType: "url",
        ...(token !== undefined && { ContinuationToken: token }),
      }),
    );
    assert.equal(EncodingType, "url", "the encoding is named in the answer");
    assert.ok((Contents ?? []).length <= limit);
    for (const { Key = "" } of Contents ?? [])
      names.push(decodeURIComponent(Key.replaceAll("+", " ")).slice(folder.length));
    token = NextContinuationToken;
    assert.equal(token !== undefined, IsTruncated === true, "a token and IsTruncated go together");
    if (!IsTruncated) return names;
  }
  return assert.fail("the pages do not end");
}

export async function startUpload(bench: Bench, name: string) {
  const { client, at } = bench;
  const { UploadId } = await client.send(new CreateMultipartUploadCommand(at(name)));
  const upload = { ...at(name), UploadId };
  const parts: CompletedPart[] = [];
  return {
    upload,
    parts,
    send: async (number: number, bytes: Buffer) => {
      const command = new UploadPartCommand({ ...upload, PartNumber: number, Body: bytes });
      const { ETag, ChecksumCRC32 } = await client.send(command);
      parts.push({ PartNumber: number, ETag, ChecksumCRC32 });
    },
    complete: (more = {}) =>
      client.send(
        new CompleteMultipartUploadCommand({
          ...upload,
          ...more,
          MultipartUpload: { Parts: parts },
        }),
      ),
    abort: () => client.send(new AbortMultipartUploadCommand(upload)),
  };
}

/** The SDK as it comes: it adds checksums to requests and checks those of responses. */
export function makeClient(
  { endpoint, region, credentials: own }: Omit<ServerUnderTest, "bucket">,
  credentials: ServerUnderTest["credentials"] = own,
  systemClockOffset = 0,
): S3Client {
  return new S3Client({
    endpoint,
    region,
    credentials,
    systemClockOffset,
    forcePathStyle: true,
    maxAttempts: 1,
  });
}

/** Runs one case in its own folder. */
export async function checkServer(server: ServerUnderTest, one: ServerCase): Promise<void> {
  const client = makeClient(server);
  const folder = `${one.id}/`;
  const at = (name: string) => ({ Bucket: server.bucket, Key: folder + name });
  try {
    await one.check({
      client,
      server,
      folder,
      at,
      async put(name, body, more) {
        const command = new PutObjectCommand({ ...at(name), Body: body, ...more });
        return (await client.send(command)).ETag ?? "";
      },
      async get(name, more) {
        const { Body } = await client.send(new GetObjectCommand({ ...at(name), ...more }));
        return Buffer.from((await Body?.transformToByteArray()) ?? []);
      },
    });
  } finally {
    client.destroy();
  }
}
