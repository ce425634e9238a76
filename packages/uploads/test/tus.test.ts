import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import {
  alice,
  bearer,
  bob,
  noise,
  png,
  startUploadServer,
  storageKinds,
  type UploadServer,
} from "./upload-server.ts";

const run = promisify(execFile);

type Fields = Record<string, string>;

const stepType = { "content-type": "application/offset+octet-stream" };
const base64 = (text: string): string => Buffer.from(text).toString("base64");

function ask(
  url: string,
  method: string,
  headers: Fields = {},
  body?: Uint8Array<ArrayBuffer>,
): Promise<Response> {
  const common = { ...bearer("alice"), "tus-resumable": "1.0.0" };
  return fetch(url, { method, headers: { ...common, ...headers }, ...(body && { body }) });
}

async function begin(url: string, length: number, headers: Fields = {}): Promise<string> {
  const answer = await ask(url, "POST", { "upload-length": String(length), ...headers });
  expect([answer.status, answer.headers.get("tus-resumable")]).toEqual([201, "1.0.0"]);
  return answer.headers.get("location")!;
}

function append(
  location: string,
  offset: number,
  body: Uint8Array<ArrayBuffer>,
  more: Fields = {},
) {
  return ask(location, "PATCH", { ...stepType, "upload-offset": String(offset), ...more }, body);
}

async function offsetOf(location: string): Promise<string | null> {
  return (await ask(location, "HEAD")).headers.get("upload-offset");
}

/** What the server has of an upload: nothing, or one whole file. */
async function receivedBy({ uploads }: UploadServer, uploadId: string) {
  const [file] = await uploads.received(alice, uploadId).catch(() => []);
  return file;
}

describe.each(storageKinds)("over $kind", ({ start }) => {
  test("a file comes in steps, with its name and type, and counts only when it is whole", async () => {
    const server = await start();
    const { url, uploadId, expiresAt } = await server.slot();
    const bytes = png(30_000);
    const location = await begin(url, bytes.length, {
      "upload-metadata": `filename ${base64("Übersicht.png")},filetype ${base64("image/png")},is_new`,
    });
    expect(location.startsWith(`${url}/`)).toBe(true);
    const empty = await ask(location, "HEAD");
    expect(Object.fromEntries(empty.headers)).toMatchObject({
      "tus-resumable": "1.0.0",
      "upload-offset": "0",
      "upload-length": String(bytes.length),
      "upload-expires": new Date(expiresAt).toUTCString(),
      "cache-control": expect.stringContaining("no-store"),
    });
    const first = await append(location, 0, bytes.subarray(0, 10_000));
    expect([first.status, first.headers.get("upload-offset")]).toEqual([204, "10000"]);
    expect(await receivedBy(server, uploadId)).toBeUndefined();
    expect((await append(location, 5, bytes.subarray(5))).status).toBe(409);
    const last = await append(location, 10_000, bytes.subarray(10_000));
    expect([last.status, last.headers.get("upload-offset"), await last.text()]).toEqual([
      204,
      "30000",
      "",
    ]);
    expect(await offsetOf(location)).toBe("30000");
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const file = { name: "Übersicht.png", size: 30_000, mimeType: "image/png", sha256 };
    expect(await receivedBy(server, uploadId)).toEqual(file);
    expect(await server.uploads.confirm(alice, uploadId, [file])).toHaveLength(1);
  });

  test("a file may come with its creation, wholly or in part, or be empty", async () => {
    const server = await start();
    const bytes = noise(1_000);
    for (const [size, taken] of [
      [1_000, 1_000],
      [1_000, 400],
      [0, 0],
    ] as const) {
      const { url, uploadId } = await server.slot();
      const body = taken > 0 ? bytes.subarray(0, taken) : undefined;
      const headers = { "upload-length": String(size), ...(body && stepType) };
      const answer = await ask(url, "POST", headers, body);
      expect([answer.status, answer.headers.get("upload-offset")]).toEqual([201, String(taken)]);
      const isWhole = size === taken;
      expect((await receivedBy(server, uploadId))?.size).toBe(isWhole ? size : undefined);
      if (isWhole) continue;
      const location = answer.headers.get("location")!;
      expect((await append(location, taken, bytes.subarray(taken))).status).toBe(204);
      expect((await receivedBy(server, uploadId))?.size).toBe(size);
    }
  });

  test("an upload that was given up is gone", async () => {
    const server = await start();
    const { url } = await server.slot();
    const location = await begin(url, 1_000);
    await append(location, 0, noise(10));
    const answer = await ask(location, "DELETE");
    expect([answer.status, answer.headers.get("tus-resumable")]).toEqual([204, "1.0.0"]);
    const gone = await ask(location, "HEAD");
    expect([gone.status, gone.headers.get("tus-resumable")]).toEqual([404, "1.0.0"]);
    expect(await server.files()).toEqual([]);
  });
});

test("OPTIONS says what is spoken", async () => {
  const { url } = await (await startUploadServer()).slot();
  const { status, headers } = await fetch(url, { method: "OPTIONS" });
  expect(status).toBe(204);
  expect(Object.fromEntries(headers)).toMatchObject({
    "tus-resumable": "1.0.0",
    "tus-version": "1.0.0",
    "tus-extension": "creation,creation-with-upload,termination,expiration",
  });
});

test("a page of another origin may use tus at a slot whose URL is the permission", async () => {
  const { uploads } = await startUploadServer();
  const terms = { accept: [], maxBytes: 1_000, maxFiles: 1 };
  const { url } = await uploads.reserve(alice, terms, { selfAuthenticating: true });
  const asked = {
    origin: "https://app.example",
    "access-control-request-method": "POST",
    "access-control-request-headers": "tus-resumable,upload-length,upload-metadata",
  };
  const preflight = await fetch(url, { method: "OPTIONS", headers: asked });
  const allowed = preflight.headers.get("access-control-allow-headers")!.toLowerCase().split(", ");
  expect(allowed).toEqual(
    expect.arrayContaining(["tus-resumable", "upload-length", "upload-metadata", "upload-offset"]),
  );
  const answer = await fetch(url, {
    method: "POST",
    headers: { origin: "https://app.example", "tus-resumable": "1.0.0", "upload-length": "5" },
  });
  expect(answer.status).toBe(201);
  expect(answer.headers.get("access-control-expose-headers")!.toLowerCase().split(", ")).toEqual(
    expect.arrayContaining(["location", "upload-offset", "tus-resumable", "upload-expires"]),
  );
});

type Refusal = readonly [
  what: string,
  status: number,
  method: string,
  headers: Fields,
  body?: Uint8Array<ArrayBuffer>,
];

describe("a request that cannot be is refused, and leaves nothing:", () => {
  test.for<Refusal>([
    ["another version", 412, "POST", { "tus-resumable": "0.2.2", "upload-length": "5" }],
    ["no length", 400, "POST", {}],
    ["a length that comes later", 400, "POST", { "upload-defer-length": "1" }],
    ["a malformed length", 400, "POST", { "upload-length": "-1" }],
    ["a file of several", 400, "POST", { "upload-length": "5", "upload-concat": "partial" }],
    ["malformed metadata", 400, "POST", { "upload-length": "5", "upload-metadata": "filename %" }],
    ["a creation by PUT", 400, "PUT", { "upload-length": "5" }],
    ["more than the slot takes", 413, "POST", { "upload-length": "50000001" }],
    ["bytes of another type", 415, "POST", { "upload-length": "5" }, noise(5)],
    ["more than was announced", 413, "POST", { "upload-length": "5", ...stepType }, noise(6)],
  ])("%s", async ([, status, method, headers, body]) => {
    const server = await startUploadServer();
    const { url } = await server.slot();
    const answer = await ask(url, method, headers, body);
    expect([answer.status, answer.headers.get("tus-resumable")]).toEqual([status, "1.0.0"]);
    expect(answer.headers.get("tus-version")).toBe(status === 412 ? "1.0.0" : null);
    expect(await server.files()).toEqual([]);
  });
});

test("a step without its offset or its type, or to a whole file, changes nothing", async () => {
  const server = await startUploadServer();
  const { url, uploadId } = await server.slot();
  const location = await begin(url, 10);
  const statuses = [
    await ask(location, "PATCH", stepType, noise(10)),
    await append(location, 0, noise(10), { "content-type": "application/partial-upload" }),
    await append(location, 0, noise(10), { "tus-resumable": "2.0.0" }),
  ].map(({ status }) => status);
  expect(statuses).toEqual([400, 415, 412]);
  expect(await offsetOf(location)).toBe("0");
  expect((await append(location, 0, noise(10))).status).toBe(204);
  expect((await append(location, 10, noise(1))).status).toBe(409);
  expect((await receivedBy(server, uploadId))?.size).toBe(10);
});

test("a file of a type that the slot does not take is refused as it comes", async () => {
  const server = await startUploadServer();
  const { url } = await server.slot({ accept: ["image/png"] });
  const metadata = `filename ${base64("a.png")},filetype ${base64("image/png")}`;
  const location = await begin(url, 5_000, { "upload-metadata": metadata });
  expect((await append(location, 0, noise(5_000))).status).toBe(415);
  expect(await server.files()).toEqual([]);
});

test("the bound slot of another principal does not exist", async () => {
  const server = await startUploadServer();
  const { url } = await server.uploads.reserve(bob, { accept: [], maxBytes: 9, maxFiles: 1 });
  expect((await ask(url, "POST", { "upload-length": "5" })).status).toBe(404);
});

describe("tus-js-client", { tags: "slow" }, () => {
  const program = fileURLToPath(new URL("./tus-upload.mjs", import.meta.url));
  const send = async (bytes: Buffer, url: string, options: object = {}): Promise<string> => {
    const headers = bearer("alice");
    const args = [program, bytes.toString("base64"), url, JSON.stringify({ headers, ...options })];
    return (await run(process.execPath, args)).stdout.trim();
  };

  test.each([
    ["in steps", {}],
    ["with data in the creation", { uploadDataDuringCreation: true }],
    ["at once", { uploadDataDuringCreation: true, chunkSize: undefined }],
    ["in the steps of draft-05", { protocol: "ietf-draft-05" }],
    [
      "in the steps of draft-05, with data in the creation",
      { protocol: "ietf-draft-05", uploadDataDuringCreation: true },
    ],
  ])("sends a file %s", async (_way, options) => {
    const server = await startUploadServer();
    const { url, uploadId } = await server.slot({ accept: ["image/png"] });
    const bytes = png(35_000);
    const metadata = { filename: "a.png", filetype: "image/png" };
    expect(await send(bytes, url, { metadata, ...options })).toMatch(/\/[\w-]{32}$/);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    expect(await receivedBy(server, uploadId)).toMatchObject({ sha256, mimeType: "image/png" });
  });

  test.each([
    ["tus 1.0", {}],
    ["tus 1.0, with data in the creation", { uploadDataDuringCreation: true }],
    ["draft-03", { protocol: "ietf-draft-03" }],
    [
      "draft-03, with data in the creation",
      { protocol: "ietf-draft-03", uploadDataDuringCreation: true },
    ],
    ["draft-05", { protocol: "ietf-draft-05" }],
    [
      "draft-05, with data in the creation",
      { protocol: "ietf-draft-05", uploadDataDuringCreation: true },
    ],
  ])("sends a file in one request, empty or not: %s", async (_protocol, options) => {
    const server = await startUploadServer();
    const isWhole = "uploadDataDuringCreation" in options;
    for (const bytes of isWhole ? [Buffer.alloc(0), noise(5_000)] : [Buffer.alloc(0)]) {
      const { url, uploadId } = await server.slot();
      expect(await send(bytes, url, options)).toMatch(/\/[\w-]{32}$/);
      expect((await receivedBy(server, uploadId))?.size).toBe(bytes.length);
    }
  });

  test("goes on with a file that another process began, and takes one back", async () => {
    const server = await startUploadServer();
    const { url, uploadId } = await server.slot();
    const bytes = noise(35_000);
    const location = await begin(url, bytes.length);
    await append(location, 0, bytes.subarray(0, 12_345));
    expect(await send(bytes, url, { uploadUrl: location })).toBe(location);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    expect(await receivedBy(server, uploadId)).toMatchObject({ sha256 });
    const other = await server.slot();
    expect(await send(bytes, other.url, { terminate: true })).toBe("terminated");
    expect(await receivedBy(server, other.uploadId)).toBeUndefined();
  });
});
