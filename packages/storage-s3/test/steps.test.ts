import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createS3Backend } from "@sluice/storage-s3";
import { expect, onTestFinished, test } from "vitest";
import { createBucket, failureOf } from "./bucket.ts";

const partBytes = 8 * 1024 * 1024;
const keptBytes = new Uint8Array(partBytes + 1);

/** A backend over a service that answers as `answer` does. */
async function createBackend(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const server = createServer((request, response) => {
    request.resume().on("end", () => answer(request, response));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const backend = createS3Backend({
    bucket: "bucket",
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    credentials: { accessKeyId: "KEY", secretAccessKey: "secret" },
    writable: true,
  });
  onTestFinished(() => backend.close?.());
  return backend;
}

const begun =
  "<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>";

test(
  "a part of an earlier step that arrives after the abort is also removed",
  { tags: "slow" },
  async () => {
    await using bucket = await createBucket({}, { keepUploads: false });
    const writer = await bucket.backend.writeInSteps("a");
    await writer.write(keptBytes.slice());
    await writer.suspend();
    const last = await bucket.backend.writeInSteps("a", { id: writer.id });
    // S3 takes the abort, and then a part that another process sent before it
    bucket.standIn.faults.push({ on: /^DELETE .*uploadId/, status: 204 });
    await last.abort();
    expect(bucket.standIn.countUploads()).toBe(0);
  },
);

test("a part without an ETag does not count: S3 would put together another writer's parts", async () => {
  const calls: string[] = [];
  const backend = await createBackend(({ method, url = "" }, response) => {
    calls.push(`${method} ${url}`);
    response.end(url.includes("uploads") ? begun : "");
  });
  const writer = await backend.writeInSteps!("a");
  await writer.write(keptBytes.slice());
  expect(await failureOf(writer.commit())).toMatchObject({ code: "protocol" });
  expect(calls.filter((call) => call.startsWith("POST") && call.includes("uploadId"))).toEqual([]);
});

test("a kept part without an ETag is sent again", async () => {
  const part = `<Part><PartNumber>1</PartNumber><Size>${partBytes}</Size></Part>`;
  const backend = await createBackend((_request, response) =>
    response.end(`<ListPartsResult><IsTruncated>false</IsTruncated>${part}</ListPartsResult>`),
  );
  const writer = await backend.writeInSteps!("a", { id: "one" });
  expect(writer.offset).toBe(0);
});

test("a list of parts that promises more and never gives any ends", async () => {
  let pages = 0;
  const more = "<IsTruncated>true</IsTruncated><NextPartNumberMarker>0</NextPartNumberMarker>";
  const backend = await createBackend((_request, response) => {
    pages += 1;
    // without the check it continues for as long as it is answered
    if (pages > 3) response.statusCode = 500;
    response.end(`<ListPartsResult>${more}</ListPartsResult>`);
  });
  const writer = await backend.writeInSteps!("a", { id: "one" });
  expect([writer.offset, pages]).toEqual([0, 1]);
});
