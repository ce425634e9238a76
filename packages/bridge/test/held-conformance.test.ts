import { createMemoryHold, createStorageHold } from "@sluice/bridge";
import { createMemoryBackend } from "@sluice/storage";
import { createLargeContent, defineBackendTests, type Fixture } from "@sluice/storage/conformance";
import { describe, expect, test } from "vitest";
import { boundedMemory } from "../src/links/bounded-memory.ts";
import { heldView } from "../src/links/held-part.ts";

/** What a store in memory does not have. */
const why: NonNullable<Fixture["why"]> = {
  faults: "no network lies in between",
  deny: "there are no permissions",
  reopen: "another process has other memory",
  putFolder: "there are no folders",
  putOutside: "a view of one folder of a storage",
  putClutter: "all that there is are objects",
  touch: "a change of metadata is a new version",
  alias: "an object has one name",
  overwrite: "content is replaced, never changed",
  putTyped: "results have no type",
  putLarge: "the bytes lie in memory",
};

/** A result in the storage of a hold, past it. */
function createStorageFixture(): Fixture {
  const storage = createMemoryBackend();
  const hold = createStorageHold({ storage });
  return {
    backend: hold.storage,
    put: async (key, content) => void storage.put(`held/${key}`, content),
    remove: (key) => storage.remove(`held/${key}`),
    putTyped: async (key, content, type) => void storage.put(`held/${key}`, content, type),
    putLarge: async (key, size, tail) =>
      void storage.put(`held/${key}`, createLargeContent(size, tail)),
    async putOutside() {
      storage.put("x.txt", "outside");
      storage.put("held-evil/x.txt", "outside");
      return {
        sibling: ["../held-evil/x.txt", "-evil/x.txt"],
        escapes: ["../x.txt", "%2e%2e/x.txt"],
      };
    },
    traits: { maxKeyBytes: 1_024 - "held/".length },
    why,
    dispose: () => hold.close(),
  };
}

/** The memory that a hold stands on, behind the view that it gives. */
function createMemoryFixture(): Fixture {
  const memory = boundedMemory(2 ** 30);
  return {
    backend: heldView(memory, { open() {}, read: () => () => {} }),
    async put(key, content) {
      const writer = await memory.write(`held/${key}`);
      await writer.write(content.slice());
      await writer.commit();
    },
    remove: (key) => memory.remove(`held/${key}`),
    traits: { maxKeyBytes: 1_024 - "held/".length },
    why,
    dispose: async () => memory.close?.(),
  };
}

/** The same memory as a backend that writes. */
function createWritingFixture(): Fixture {
  const backend = boundedMemory(2 ** 30);
  const { put, remove } = createMemoryFixtureOver(backend);
  return { backend, put, remove, why, dispose: async () => backend.close?.() };
}

function createMemoryFixtureOver(
  memory: ReturnType<typeof boundedMemory>,
): Pick<Fixture, "put" | "remove"> {
  return {
    async put(key, content) {
      const writer = await memory.write(key);
      await writer.write(content.slice());
      await writer.commit();
    },
    remove: (key) => memory.remove(key),
  };
}

describe("the storage of a storage hold", () => {
  defineBackendTests(test, createStorageFixture);
});
describe("the storage of a memory hold", () => {
  defineBackendTests(test, createMemoryFixture);
});
describe("the memory behind it", () => {
  defineBackendTests(test, createWritingFixture);
});

test("a hold's storage reads alone", async () => {
  for (const hold of [createMemoryHold(), createStorageHold({ storage: createMemoryBackend() })]) {
    expect(Object.keys(hold.storage).toSorted()).toEqual(["describe", "list", "name", "open"]);
    await hold.close();
  }
});
