import { describe, expect, test } from "vitest";
import { parseStorageUrl } from "../src/storages/storage-url.ts";

const parsed: readonly [string, object][] = [
  [".", { kind: "file", root: "." }],
  ["./a b", { kind: "file", root: "./a b" }],
  ["/srv/100%", { kind: "file", root: "/srv/100%" }],
  ["C:\\files", { kind: "file", root: "C:\\files" }],
  ["./notes:2026", { kind: "file", root: "./notes:2026" }],
  ["file:./files", { kind: "file", root: "./files" }],
  ["file:a%20b", { kind: "file", root: "a b" }],
  ["file:///srv/a%20b", { kind: "file", root: "/srv/a b" }],
  ["s3://bucket", { kind: "s3", bucket: "bucket" }],
  ["S3://bucket/", { kind: "s3", bucket: "bucket" }],
  [
    "s3://my.bucket/a/b%23/?region=eu-central-1&endpoint=http://127.0.0.1:9000",
    {
      kind: "s3",
      bucket: "my.bucket",
      prefix: "a/b#",
      region: "eu-central-1",
      endpoint: "http://127.0.0.1:9000",
    },
  ],
  ["azblob://files", { kind: "azblob", container: "files" }],
  ["azblob://files/2026/q1", { kind: "azblob", container: "files", prefix: "2026/q1" }],
  ["graph://b!AbC-_9/Reports/Q1", { kind: "graph", driveId: "b!AbC-_9", path: "Reports/Q1" }],
  ["graph://DRIVE%21123", { kind: "graph", driveId: "DRIVE!123" }],
];

test.each(parsed)("%s is understood", (text, setting) => {
  expect(parseStorageUrl(text)).toEqual(setting);
});

const refused: readonly [string, RegExp][] = [
  ["", /is empty/],
  ["gs://bucket", /unknown scheme "gs:".*s3:\/\/.*azblob:\/\/.*graph:\/\//],
  ["notes:2026", /unknown scheme "notes:".*write \.\/ before it/],
  ["file:", /names no folder/],
  ["file:./a?mode=x", /query/],
  ["file://server/share", /file URL of this machine/],
  ["file:///a%2Fb", /file URL of this machine/],
  ["file:./100%", /invalid percent escape/],
  ["s3:bucket", /names nothing/],
  ["s3:///prefix", /names nothing/],
  ["s3://bucket:9000/x", /port.*endpoint=/],
  ["s3://bucket#x", /fragment/],
  ["s3://bucket/%zz", /invalid percent escape/],
  ["s3://bucket?regoin=eu", /unknown parameter "regoin"; s3: takes region and endpoint/],
  ["s3://bucket?region=", /one value for "region"/],
  ["s3://bucket?region=a&region=b", /one value for "region"/],
  ["s3://bucket?endpoint=minio:9000", /endpoint such as/],
  ["s3://bucket?endpoint=http://host/path", /endpoint such as/],
  ["azblob://files?account=x", /unknown parameter "account"; azblob: takes none/],
  ["graph://", /no URL|names nothing/],
  ["graph://drive?select=id", /unknown parameter "select"; graph: takes none/],
];

test.each(refused)("%s is refused", (text, message) => {
  expect(() => parseStorageUrl(text)).toThrow(message);
  expect(() => parseStorageUrl(text)).toThrow(/^the storage URL /);
});

describe("credentials are refused with advice, and never repeated", () => {
  test.each([
    ["s3://AKIA:hunter2@bucket", /AWS_ACCESS_KEY_ID/],
    ["s3://bucket?endpoint=https://user:hunter2@host", /AWS_ACCESS_KEY_ID/],
    ["s3://bucket?secret_access_key=hunter2", /AWS_ACCESS_KEY_ID/],
    ["azblob://account:hunter2@files", /AZURE_STORAGE_KEY/],
    ["azblob://files?sig=hunter2", /AZURE_STORAGE_SAS_TOKEN/],
    ["azblob://files?AccountKey=hunter2", /AZURE_STORAGE_CONNECTION_STRING/],
    ["graph://drive?access_token=hunter2", /GRAPH_ACCESS_TOKEN/],
    ["file://user:hunter2@/srv", /file URL of this machine/],
  ])("%s", (text, advice) => {
    expect(() => parseStorageUrl(text)).toThrow(advice);
    expect(() => parseStorageUrl(text)).toThrow(/^(?!.*hunter2)/);
  });
});
