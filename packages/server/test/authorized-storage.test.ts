import { SluiceError } from "@sluice/core";
import { createMemoryBackend, createUriMapper, type StorageBackend } from "@sluice/storage";
import { withKept } from "@sluice/storage/plugin";
import { expect, test } from "vitest";
import { createAccess, type AccessRule } from "../src/access/access.ts";
import { createStorageAccess } from "../src/access/authorized-storage.ts";

const request = { principal: undefined, key: "a.txt", action: "stream" } as const;

function authorized(rule: AccessRule, storage: StorageBackend = createMemoryBackend(files)) {
  const mapper = createUriMapper("files://demo/");
  const access = createAccess(rule);
  return createStorageAccess({ storage, access, mapper }).authorize(request);
}

const files = { "a.txt": "mine", "b.txt": "another's" };

test("what is authorized for one key asks the rules about any other that it is used with", async () => {
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
  "what storage says of the server's own credentials stays in the server: %s",
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
