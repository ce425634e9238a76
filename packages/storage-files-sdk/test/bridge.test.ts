import { inspect } from "node:util";
import { createFilesSdkBackend } from "@sluice/storage-files-sdk";
import { type Adapter, createStoredFile, FilesError, type StoredFile } from "files-sdk";
import { memory } from "files-sdk/memory";
import { expect, test } from "vitest";

const content = "0123456789".repeat(1000);

/** The memory adapter with an object in it, changed as a test needs it. */
function createAdapter(changes: (adapter: Adapter) => Partial<Adapter> = () => ({})): Adapter {
  const adapter = memory({ initial: { "a.txt": content } });
  return { ...adapter, ...changes(adapter) };
}

async function read(adapter: Adapter, start?: number, end?: number): Promise<string> {
  const backend = createFilesSdkBackend({ adapter });
  const range = start === undefined ? undefined : { start, ...(end !== undefined && { end }) };
  const { body } = await backend.open("a.txt", { ...(range && { range }) });
  return new Response(body).text();
}

function withoutEtag(file: StoredFile): StoredFile {
  const { etag, ...rest } = file;
  return etag === undefined ? file : rest;
}

/** Replaces the object between the metadata and the bytes of one read. */
function replacing(adapter: Adapter): Pick<Adapter, "download"> {
  return {
    async download(key, options) {
      await adapter.upload(key, "9876543210".repeat(1000));
      return adapter.download(key, options);
    },
  };
}

test("an object that is replaced between its metadata and its bytes is not opened", async () => {
  await expect(read(createAdapter(replacing))).rejects.toMatchObject({
    code: "precondition_failed",
  });
});

test("an object without an etag that changes while it is read does not end well", async () => {
  const adapter = createAdapter((target) => ({
    head: async (key, options) => withoutEtag(await target.head(key, options)),
    async download(key, options) {
      const file = withoutEtag(await target.download(key, options));
      await target.upload(key, "shorter");
      return file;
    },
  }));
  await expect(read(adapter)).rejects.toMatchObject({ code: "precondition_failed" });
});

test("an adapter that reads exact versions is asked for that version, and not a second time", async () => {
  const asked: unknown[] = [];
  const adapter = createAdapter((target) => ({
    head: async (key, options) => {
      asked.push("head");
      return target.head(key, options);
    },
    conditional: {
      exactRead: async (key, etag, options) => {
        asked.push({ etag, range: options?.range });
        return target.download(key, options);
      },
    },
  }));
  const { etag } = await createFilesSdkBackend({ adapter }).describe("a.txt");
  expect(await read(adapter, 5, 15)).toBe("5678901234");
  expect(asked).toEqual(["head", "head", { etag, range: { start: 5, end: 14 } }]);
});

test("an adapter without ranges is read and cut", async () => {
  const ranges: unknown[] = [];
  const adapter = createAdapter((target) => ({
    supportsRange: false,
    download: async (key, options) => {
      ranges.push(options?.range);
      return target.download(key, options);
    },
  }));
  expect(await read(adapter, 9995)).toBe("56789");
  expect(await read(adapter, 0, 3)).toBe("012");
  expect(ranges).toEqual([undefined, undefined]);
});

test.for([
  ['"abc"', "abc"],
  ["abc", "abc"],
  ['W/"abc"', undefined],
  ['a"c', undefined],
  ["", undefined],
])("the etag %s is reported as %s", async ([etag, told]) => {
  const adapter = createAdapter((target) => ({
    head: async (key) => ({ ...(await target.head(key)), etag: etag ?? "" }),
  }));
  expect((await createFilesSdkBackend({ adapter }).describe("a.txt")).etag).toBe(told);
});

const secret = "https://storage.invalid/?token=hunter2";
const answered = (status: number): Error => Object.assign(new Error(secret), { status });
test.for([
  ["not_found", new FilesError("NotFound", secret)],
  ["permission_denied", new FilesError("Unauthorized", secret, answered(403))],
  ["unauthenticated", new FilesError("Unauthorized", secret, answered(401))],
  ["precondition_failed", new FilesError("Conflict", secret, answered(412))],
  ["precondition_failed", new FilesError("Provider", secret, answered(416))],
  ["unsupported", new FilesError("ReadOnly", secret)],
  ["unsupported", new FilesError("Provider", secret)],
  ["unsupported", new FilesError("Provider", secret, answered(200), { permanent: true })],
  ["throttled", new FilesError("Provider", secret, answered(429))],
  ["no_space", new FilesError("Provider", secret, answered(507))],
  [
    "no_space",
    new FilesError("Provider", secret, Object.assign(new Error(secret), { code: "ENOSPC" })),
  ],
  ["unavailable", new FilesError("Provider", secret, answered(503))],
  ["unavailable", new FilesError("Provider", secret, new TypeError("fetch failed"))],
  ["unavailable", new TypeError("fetch failed")],
] as const)("%s: an adapter's error keeps its text to itself (%#)", async ([code, error]) => {
  const adapter = createAdapter(() => ({ head: () => Promise.reject(error) }));
  const failure = createFilesSdkBackend({ adapter }).describe("a.txt");
  await expect(failure).rejects.toMatchObject({
    code,
    cause: { message: expect.stringContaining("Error") as string },
  });
  const printed = inspect(await failure.catch((thrown: unknown) => thrown), { showHidden: true });
  expect(printed).not.toMatch(/hunter2|storage\.invalid/);
});

test("a body that breaks tells only names and statuses of the adapter's error", async () => {
  const broken = new FilesError("Provider", secret, Object.assign(answered(502), { secret }));
  const adapter = createAdapter((target) => ({
    async download(key, options) {
      const stream = new ReadableStream<Uint8Array>({ pull: (body) => body.error(broken) });
      return createStoredFile(await target.download(key, options), {
        kind: "stream",
        factory: () => stream,
      });
    },
  }));
  const failure: unknown = await read(adapter).catch((error: unknown) => error);
  expect(failure).toMatchObject({ code: "interrupted" });
  expect((failure as Error).cause).toEqual(new Error("FilesError Provider: Error HTTP 502"));
  expect(inspect(failure, { showHidden: true, depth: 9 })).not.toMatch(/hunter2/);
});

test("an adapter that ignores signals delays no call, and its late answer is freed", async () => {
  const late: (() => void)[] = [];
  const reason = new Error("the caller's reason");
  const waitFor = <T>(value: T) => new Promise<T>((resolve) => late.push(() => resolve(value)));
  let cancelled = 0;
  const stream = new ReadableStream<Uint8Array>({ cancel: () => void cancelled++ });
  const adapter = createAdapter((target) => ({
    head: async (key) => (late.length === 3 ? target.head(key) : waitFor(await target.head(key))),
    list: () => waitFor({ items: [] }),
    async download(key) {
      const file = await target.download(key);
      return waitFor(createStoredFile(file, { kind: "stream", factory: () => stream }));
    },
  }));
  const backend = createFilesSdkBackend({ adapter });
  for (const call of [
    (signal: AbortSignal) => backend.describe("a.txt", { signal }),
    (signal: AbortSignal) => backend.open("a.txt", { signal }),
    (signal: AbortSignal) => backend.list({ signal }),
    (signal: AbortSignal) => backend.open("a.txt", { signal }),
  ]) {
    const caller = new AbortController();
    const before = late.length;
    const calling = call(caller.signal);
    await expect.poll(() => late.length).toBe(before + 1);
    caller.abort(reason);
    await expect(calling).rejects.toBe(reason);
  }
  for (const bring of late) bring();
  await expect.poll(() => cancelled).toBe(1);
});

test("there is no presign unless it is asked for, and none at all without signatures", () => {
  expect(createFilesSdkBackend({ adapter: createAdapter() })).not.toHaveProperty("presign");
  expect(() => createFilesSdkBackend({ adapter: createAdapter(), presign: true })).toThrow(
    TypeError,
  );
});

test("a URL honours everything that was asked, or there is none", async () => {
  const asked: unknown[] = [];
  const adapter = createAdapter(() => ({
    signedUrl: { supported: true, maxExpiresIn: 600 },
    url: async (_key, options) => {
      asked.push(options);
      return "https://storage.invalid/a.txt?signature=1";
    },
  }));
  const backend = createFilesSdkBackend({ adapter, presign: true });
  const contentType = "text/plain; charset=utf-8";
  const contentDisposition = "attachment";
  const signed = await backend.presign?.("a.txt", {
    expiresInMs: 3_600_000,
    contentType,
    contentDisposition,
  });
  expect(asked).toEqual([{ expiresIn: 600, responseContentDisposition: contentDisposition }]);
  expect(signed?.expiresAt).toBeLessThanOrEqual(Date.now() + 600_000);
  expect(await backend.presign?.("a.txt", { expiresInMs: 999 })).toBeUndefined();
  const another = { expiresInMs: 60_000, contentType: "application/pdf" };
  expect(await backend.presign?.("a.txt", another)).toBeUndefined();
  await expect(backend.presign?.("missing", { expiresInMs: 60_000 })).rejects.toMatchObject({
    code: "not_found",
  });
  expect(asked).toHaveLength(1);
});

test("a wish that an adapter refuses gives no URL, a failing service is an error", async () => {
  let refusal = new FilesError("Provider", "this service signs no disposition");
  const adapter = createAdapter(() => ({
    signedUrl: { supported: true },
    url: () => Promise.reject(refusal),
  }));
  const backend = createFilesSdkBackend({ adapter, presign: true });
  const options = { expiresInMs: 60_000, contentDisposition: "attachment" };
  expect(await backend.presign?.("a.txt", options)).toBeUndefined();
  refusal = new FilesError("Provider", "503", answered(503));
  await expect(backend.presign?.("a.txt", options)).rejects.toMatchObject({ code: "unavailable" });
});

test("objects whose names cannot be keys are counted, and markers of folders are not", async () => {
  const adapter = memory({ initial: { "a.txt": "x", "a//b": "x", "a\tb": "x", "folder/": "" } });
  const { objects, unlisted } = await createFilesSdkBackend({ adapter }).list();
  expect(objects.map(({ key }) => key)).toEqual(["a.txt"]);
  expect(unlisted).toEqual({ segment: 1, control: 1 });
});
