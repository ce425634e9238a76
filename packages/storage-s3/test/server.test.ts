import { CreateBucketCommand } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkServer, makeClient, type ServerCase, type ServerUnderTest } from "./server-bench.ts";
import { serverCases } from "./server-cases.ts";
import { type Deviation, type S3StandIn, startS3StandIn } from "./stand-in/stand-in.ts";

const named = serverCases.map((one) => [one.id, one.sentence, one] as const);
const corsOrigins = ["https://app.example"];

function outcomeOf(server: ServerUnderTest, one: ServerCase): Promise<string> {
  return checkServer(server, one).then(
    () => "kept",
    (error: unknown) => `differs: ${String(error)}`,
  );
}

describe("the stand-in does what an S3 server does", () => {
  let standIn: S3StandIn;
  beforeAll(async () => {
    standIn = await startS3StandIn({ corsOrigins });
  });
  afterAll(() => standIn[Symbol.asyncDispose]());

  test.each(named)("%s: %s", async (_id, _sentence, one) => {
    expect(await outcomeOf(standIn, one)).toBe("kept");
  });
});

describe("a stand-in that deviates is noticed", () => {
  const deviations = new Set(serverCases.flatMap(({ notices }) => notices ?? []));
  test.each([...deviations])("%s", async (deviation: Deviation) => {
    await using twin = await startS3StandIn({ corsOrigins, deviations: [deviation] });
    for (const one of serverCases.filter(({ notices }) => notices === deviation))
      expect(await outcomeOf(twin, one), one.id).toMatch(/^differs/);
  });
});

/** What OpenStack Swift does in another way, and how. Each of these is seen to differ, so that the list stays true. */
const differences: Readonly<Record<string, string>> = {
  "signature-unknown": "it calls an unknown key SignatureDoesNotMatch",
  "upload-crc32c": "it has no CRC32C without a library that is not packaged",
  "upload-crc64nvme": "it has no CRC64NVME without a library that is not packaged",
  "checksum-kept": "it checks checksums and does not keep them",
  "write-absent": "it answers conditional writes with NotImplemented",
  "write-match": "it answers conditional writes with NotImplemented",
  "parts-condition": "it answers conditional writes with NotImplemented",
  "list-token": "it answers a foreign token with InternalError",
  cors: "it has no CORS rules of buckets",
};

const url = process.env["SLUICE_S3_URL"];
if (url === undefined)
  console.info("skipped: the cases of a real S3 server (SLUICE_S3_URL, see tools/swift-s3.sh)");
describe.skipIf(url === undefined)("a real server does the same", () => {
  const server: ServerUnderTest = {
    endpoint: url ?? "",
    region: "us-east-1",
    bucket: `sluice-${crypto.randomUUID()}`,
    credentials: { accessKeyId: "test:tester", secretAccessKey: "testing" },
  };
  beforeAll(async () => {
    const client = makeClient(server);
    await client.send(new CreateBucketCommand({ Bucket: server.bucket }));
    client.destroy();
  });

  test.each(named)("%s: %s", async (_id, _sentence, one) => {
    const difference = differences[one.id];
    if (difference !== undefined) console.info(`differs: ${one.id}: ${difference}`);
    expect(await outcomeOf(server, one)).toMatch(difference === undefined ? /^kept/ : /^differs/);
  });
});
