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

const overtaken = ["precondition_failed", "another writer ended it"] as const;

/** What S3 says to a part, to the list of parts or to the end of an object in steps, and what the writer reports. */
const answers: readonly (readonly [number, string, string, string])[] = [
  [404, "NoSuchUpload", ...overtaken],
  // of stores that name no code
  [404, "", ...overtaken],
  [404, "NoSuchBucket", "not_found", "there is no such bucket"],
  [400, "IncompleteBody", "interrupted", "not all bytes arrived"],
  [400, "BadDigest", "corrupt", "other bytes arrived than were sent"],
  [400, "RequestTimeout", "unavailable", "S3 timed out"],
  [400, "InvalidPart", "precondition_failed", "another writer sent the same parts"],
  [403, "AccessDenied", "permission_denied", "S3 does not allow it"],
  [403, "QuotaExceeded", "no_space", "the quota is used up"],
  [500, "InternalError", "unavailable", "S3 failed"],
  [503, "SlowDown", "throttled", "S3 asks to slow down"],
];

/** Answers every request to begin an upload, and those that `on` fits with the error. */
function refusing(on: RegExp, status: number, code: string) {
  return createBackend(({ method, url = "" }, response) => {
    if (on.test(`${method} ${url}`)) {
      response.writeHead(status, { "content-type": "application/xml" });
      response.end(code === "" ? "" : `<Error><Code>${code}</Code></Error>`);
      return;
    }
    response.setHeader("etag", '"0123456789abcdef0123456789abcdef"');
    response.end(url.includes("uploads") ? begun : "");
  });
}

test.each(answers)("%i %s to a part of a step is %s: %s", async (status, code, expected, text) => {
  const backend = await refusing(/^PUT .*partNumber/, status, code);
  const writer = await backend.writeInSteps!("a");
  const step = async () => {
    await writer.write(keptBytes.slice());
    await writer.suspend();
  };
  const error = await failureOf(step());
  expect([error["code"], error.message]).toEqual([expected, expect.stringContaining(text)]);
});

test.each(answers)(
  "%i %s to the end of the steps is %s: %s",
  async (status, code, expected, text) => {
    const backend = await refusing(/^POST .*uploadId/, status, code);
    const writer = await backend.writeInSteps!("a");
    await writer.write(keptBytes.slice());
    const error = await failureOf(writer.commit());
    expect([error["code"], error.message]).toEqual([expected, expect.stringContaining(text)]);
  },
);

test.each(answers)("%i %s to a look at the steps", async (status, code, expected, text) => {
  const backend = await refusing(/^GET .*uploadId/, status, code);
  const isGone = text === overtaken[1];
  const error = await failureOf(backend.writeInSteps!("a", { id: "one" }));
  expect([error["code"], error.message]).toEqual([
    isGone ? "not_found" : expected,
    expect.stringContaining(isGone ? "nothing of it is kept" : text),
  ]);
});
