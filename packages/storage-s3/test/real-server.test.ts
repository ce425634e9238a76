import {
  CreateBucketCommand,
  DeleteObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import { checkBackend, formatReport, type Fixture } from "@sluice/storage/conformance";
import { createS3Backend } from "@sluice/storage-s3";
import { expect, test } from "vitest";
import { makeClient } from "./server-bench.ts";

/**
 * Rules that no backend can keep over OpenStack Swift. It answers conditional writes with NotImplemented, and lists the
 * parts of a completed upload, which can be completed again.
 */
const unkept = [
  "write-if-absent",
  "write-if-match",
  "write-race",
  "write-race-match",
  "steps-late",
  "steps-finished",
  "remove-again",
  "write-condition-exact",
];

const endpoint = process.env["SLUICE_S3_URL"];
if (endpoint === undefined)
  console.info("skipped: the kit over a real S3 server (SLUICE_S3_URL, see tools/swift-s3.sh)");

test.skipIf(endpoint === undefined)(
  "every rule that a real server allows is kept over it",
  { timeout: 300_000 },
  async () => {
    const credentials = { accessKeyId: "test:tester", secretAccessKey: "testing" };
    const server = { endpoint: endpoint ?? "", region: "us-east-1", credentials };
    const bucket = `sluice-${crypto.randomUUID()}`;
    const client = makeClient(server);
    await client.send(new CreateBucketCommand({ Bucket: bucket }));
    let fixtures = 0;

    const createFixture = (): Fixture => {
      const prefix = `fixture-${++fixtures}`;
      const settings = { bucket, prefix, endpoint: server.endpoint, credentials };
      const backend = createS3Backend({ ...settings, writable: true });
      const reopened: { close?(): Promise<void> }[] = [];
      const at = (key: string) => ({ Bucket: bucket, Key: `${prefix}/${key}` });
      const put: Fixture["put"] = async (key, Body) =>
        void (await client.send(new PutObjectCommand({ ...at(key), Body })));
      return {
        backend,
        put,
        traits: { maxKeyBytes: 1023 - prefix.length, partBytes: 8 * 1024 * 1024 },
        remove: async (key) => void (await client.send(new DeleteObjectCommand(at(key)))),
        async putTyped(key, Body, { contentType, contentEncoding }) {
          const type = { ContentType: contentType, ContentEncoding: contentEncoding };
          await client.send(new PutObjectCommand({ ...at(key), Body, ...type }));
        },
        putClutter: () => put("folder/", new Uint8Array()),
        async putOutside() {
          const Body = "outside";
          for (const Key of ["x.txt", `${prefix}-secret/x.txt`])
            await client.send(new PutObjectCommand({ Bucket: bucket, Key, Body }));
          return {
            sibling: [`../${prefix}-secret/x.txt`, "-secret/x.txt"],
            escapes: ["../x.txt", "%2e%2e/x.txt", "/x.txt", `/${bucket}/x.txt`],
          };
        },
        async reopen() {
          const another = createS3Backend(settings);
          reopened.push(another);
          return another;
        },
        async countLeftovers() {
          const command = new ListMultipartUploadsCommand({ Bucket: bucket, Prefix: prefix });
          return (await client.send(command)).Uploads?.length ?? 0;
        },
        secrets: Object.values(credentials),
        async dispose() {
          for (const one of [backend, ...reopened]) await one.close?.();
        },
      };
    };
    const findings = await checkBackend(createFixture, { deadlineMs: 60_000 });
    client.destroy();
    console.info(formatReport(findings));
    const broken = findings.filter(({ outcome }) => outcome === "broken");
    expect(broken.map(({ rule }) => rule.id)).toEqual(unkept);
  },
);
