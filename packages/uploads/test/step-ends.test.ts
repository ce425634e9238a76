import { SluiceError } from "@sluice/core";
import type { StorageBackend } from "@sluice/storage";
import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { ChecksMemory } from "../src/checks/file-checks.ts";
import { beginFileInSteps, openFileInSteps } from "../src/resumable/file-in-steps.ts";
import type { PartialFile } from "../src/resumable/partial-file.ts";
import type { OpenSlot } from "../src/slots/slot-token.ts";
import { toUploadStorage } from "../src/store/upload-storage.ts";

const terms = { accept: [], maxBytes: 1_000 };
const slot = { uploadId: "upload", owner: "owner", expiresAt: 1_000, terms } as unknown as OpenSlot;
const address = { slot, fileId: "file", lease: { ensureOurs() {} } };
const content = Buffer.from("content");

/** Files of one storage, which notes the signal of every writer of steps. */
function createFiles(inner: StorageBackend = createMemoryBackend()) {
  const signals: AbortSignal[] = [];
  const backend: StorageBackend = wrapBackend(inner, {
    writeInSteps: (write) => (key, options) => {
      if (options?.signal) signals.push(options.signal);
      return write(key, options);
    },
  });
  const services = {
    storage: toUploadStorage(backend as Parameters<typeof toUploadStorage>[0]) as never,
    memory: new ChecksMemory(),
    onError(error: unknown): void {
      throw error;
    },
  };
  return {
    signals,
    begin: () => beginFileInSteps(services, address, {}),
    reopen: async ({ plan }: PartialFile) =>
      (await openFileInSteps(services, address, { ...plan, steps: plan.steps! }))!,
  };
}

/** How a request ends its work on a file, when no other one has it. */
const ends: readonly (readonly [string, (file: PartialFile) => Promise<unknown>])[] = [
  ["keeps a step", (file) => file.keep()],
  ["makes the file whole", (file) => file.finish(new AbortController().signal)],
  ["leaves a file that it refuses", (file) => file.leave()],
  ["discards the file", (file) => file.discard()],
];

test.each(ends)("a request that %s tells storage of no other request", async (_, end) => {
  const { signals, begin } = createFiles();
  const file = await begin();
  await file.write(Buffer.from(content));
  await end(file);
  await file.leave();
  expect(signals.map(({ reason }) => [reason.code, reason.message])).toEqual([
    ["interrupted", expect.stringContaining("the request is through with this file")],
  ]);
});

test("a request that another one overtook fails with that as its reason", async () => {
  const { begin, reopen } = createFiles();
  const stale = await begin();
  const newer = await reopen(stale);
  await newer.write(Buffer.from(content));
  await newer.keep();
  await stale.write(Buffer.from(content));
  await expect(stale.keep()).rejects.toMatchObject({
    code: expect.stringMatching(/^(already_exists|precondition_failed)$/),
  });
});

test("a step whose end fails is not ended again", async () => {
  const ended: string[] = [];
  const backend = wrapBackend(createMemoryBackend(), {
    writeInSteps: (write) => async (key, options) => ({
      ...(await write(key, options)),
      async suspend() {
        ended.push(key);
        throw new SluiceError("unavailable", "stub: suspend");
      },
    }),
  });
  const { begin } = createFiles(backend);
  const file = await begin();
  await expect(file.keep()).rejects.toMatchObject({ code: "unavailable" });
  await file.keep();
  expect(ended).toHaveLength(1);
});
