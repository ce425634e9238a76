import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Fixture } from "@sluice/storage/conformance";
import { createFilesSdkBackend } from "@sluice/storage-files-sdk";
import type { Adapter } from "files-sdk";
import { fs } from "files-sdk/fs";
import { memory } from "files-sdk/memory";
import { createFaultyAdapter } from "./faulty-adapter.ts";

/** Features that no adapter has, so that the bridge cannot be held to them. */
export const noSuchThing = {
  touch: "adapters cannot change only metadata",
  alias: "adapters have one spelling of a key",
  putFolder: "adapters show no folders",
  overwrite: "adapters replace objects, they do not change them",
  putOutside: "an adapter has no path above its root",
  expireCredentials: "credentials are the adapter's business",
} satisfies Fixture["why"];

/** The memory adapter of files-sdk, with faults between it and the bridge. */
export function createFixture(): Fixture {
  const adapter = memory();
  return {
    ...createFixtureOver(adapter),
    async putClutter() {
      // consoles of services mark folders like this; the other name has no legal key
      await adapter.upload("b/", "");
      await adapter.upload("back\\slash", "x");
    },
  };
}

/** The folder adapter of files-sdk. */
export async function createFolderFixture(): Promise<Fixture> {
  const root = await mkdtemp(join(tmpdir(), "sluice-files-sdk-"));
  return {
    ...createFixtureOver(fs({ root })),
    traits: { withoutCoding: true, describesFolders: true },
    async putLarge(key, size, tail) {
      const file = await open(join(root, key), "w");
      await file.write(tail, 0, tail.byteLength, size - tail.byteLength);
      await file.close();
    },
    secrets: [root],
    dispose: () => rm(root, { recursive: true }),
  };
}

/** A store behind any adapter, for the conformance kit. */
function createFixtureOver(adapter: Adapter): Fixture {
  const { adapter: faulty, faults, ...counts } = createFaultyAdapter(adapter);
  const put = async (key: string, content: Uint8Array, contentType?: string): Promise<void> => {
    await adapter.upload(key, content, { ...(contentType && { contentType }) });
  };
  return {
    backend: createFilesSdkBackend({ adapter: faulty }),
    put,
    remove: (key) => adapter.delete(key),
    putTyped: (key, content, { contentType }) => put(key, content, contentType),
    traits: { withoutCoding: true },
    reopen: async () => createFilesSdkBackend({ adapter }),
    why: noSuchThing,
    faults,
    ...counts,
    secrets: ["hunter2", "storage.invalid"],
  };
}
