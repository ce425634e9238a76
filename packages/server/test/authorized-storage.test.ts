import { SluiceError } from "@sluice/core";
import { createMemoryBackend, createUriMapper, type StorageBackend } from "@sluice/storage";
import { withKept } from "@sluice/storage/plugin";
import { expect, test } from "vitest";
import { createAccess, type AccessRule } from "../src/access/access.ts";
import { createStorageAccess } from "../src/storage/authorized-storage.ts";

const request = { principal: undefined, key: "a.txt", action: "stream" } as const;

function authorized(rule: AccessRule, storage: StorageBackend = createMemoryBackend(files)) {
  const mapper = createUriMapper("files://demo/");
  const access = createAccess(rule);
  return createStorageAccess({ storage, access, mapper }).authorize(request);
}

const files = { "a.txt": "mine", "b.txt": "another's" };

test("a backend authorized for one key asks the rules about every other key that it is used with", async () => {
  const storage = await authorized((_principal, uri) =>
    uri === "files://demo/a.txt" ? "allow" : "hide",
  );
  expect((await storage.open("a.txt")).info.key).toBe("a.txt");
  await expect(storage.open("b.txt")).rejects.toMatchObject({ code: "not_found" });
  await expect(storage.describe("b.txt")).rejects.toMatchObject({ code: "not_found" });
});

test("nothing is found in memory of what is hidden, and it is never looked for", async () => {
  const looked: string[] = [];
  const store = createMemoryBackend(files);
  const open = withKept(store.open.bind(store), (key) => (looked.push(key), undefined));
  for (const decision of ["hide", "unheard of" as "hide"] as const) {
    const storage = await authorized(() => decision, { ...store, open });
    expect(storage.findKept?.()).toBeUndefined();
    await expect(storage.open("a.txt")).rejects.toMatchObject({ code: "not_found" });
  }
  expect(looked).toEqual([]);
});

test.each(["describe", "open"] as const)(
  "errors of storage about the server's own credentials stay in the server: %s",
  async (operation) => {
    for (const [said, told] of [
      ["permission_denied", "not_found"],
      ["unauthenticated", "unavailable"],
    ] as const) {
      const fail = (): Promise<never> => Promise.reject(new SluiceError(said, "secret"));
      const storage = { ...createMemoryBackend(files), describe: fail, open: fail };
      const failing = await authorized(() => "allow", storage);
      await expect(failing[operation]("a.txt")).rejects.toMatchObject({ code: told });
    }
  },
);

test("`deny` is told from `hide`, whether the rule decides at once or later", async () => {
  for (const [decision, code] of [
    ["deny", "permission_denied"],
    ["hide", "not_found"],
  ] as const)
    for (const rule of [() => decision, () => Promise.resolve(decision)]) {
      const opened = (async () => (await authorized(rule)).open("a.txt"))();
      await expect(opened).rejects.toMatchObject({ code });
    }
});

test("a hidden object is not described, and a rule's answer to every key is discarded", async () => {
  const described: string[] = [];
  let cancelled = 0;
  const store = createMemoryBackend(files);
  const storage: StorageBackend = {
    ...store,
    describe: async (key) => (described.push(key), { key, size: 1 }),
    open: async (key) => ({
      info: { key },
      body: new ReadableStream<Uint8Array>({ cancel: () => void cancelled++ }),
    }),
  };
  const hidden = await authorized(() => "hide", storage);
  await expect(hidden.describe("a.txt")).rejects.toMatchObject({ code: "not_found" });
  await expect(hidden.open("a.txt")).rejects.toMatchObject({ code: "not_found" });
  expect([described.includes("a.txt"), described.length, cancelled]).toEqual([false, 1, 1]);
});

test("a folder is as missing as hidden objects if rules decide", async () => {
  const fail = (): Promise<never> => Promise.reject(new SluiceError("unsupported", "a folder"));
  const storage = { ...createMemoryBackend(files), describe: fail, open: fail };
  const allowed = await authorized(() => "allow", storage);
  await expect(allowed.describe("a.txt")).rejects.toMatchObject({ code: "not_found" });
  await expect(allowed.open("a.txt")).rejects.toMatchObject({ code: "not_found" });
});

test("a URL and a media type that storage denies tell nothing of the server's own credentials", async () => {
  const fail = (): Promise<never> => Promise.reject(new SluiceError("permission_denied", "secret"));
  const storage = { ...createMemoryBackend(files), open: fail, presign: fail };
  const allowed = await authorized(() => "allow", storage);
  const info = { key: "unknown", size: 3, etag: "v1" };
  for (const asked of [
    allowed.presign!("a.txt", { expiresInMs: 1_000 }),
    allowed.typeOf(info),
    allowed.isText(info),
  ])
    await expect(asked).rejects.toMatchObject({ code: "not_found" });
});
