import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { createStepRecord } from "../src/resumable/file-in-steps.ts";
import type { OpenSlot } from "../src/slots/slot-token.ts";
import { toUploadStorage } from "../src/store/upload-storage.ts";

const slot = { uploadId: "upload", owner: "owner", expiresAt: 1_000 } as OpenSlot;
const lease = { ensureOurs() {} };

/** Records of one file, each as a request of its own has it. */
function createRecords() {
  const storage = toUploadStorage(createMemoryBackend());
  const onError = (error: unknown): void => {
    throw error;
  };
  return () => createStepRecord({ storage, onError }, { slot, fileId: "file", lease }, {});
}

test("a request that comes late takes no rest away from the one that went on, with a rest or without", async () => {
  for (const late of ["", "late"]) {
    const open = createRecords();
    const stale = open();
    expect((await stale.find(8)).byteLength).toBe(0);
    const newer = open();
    await newer.find(8);
    await newer.keep({ offset: 8, rest: Buffer.from("newer") });
    await expect(stale.keep({ offset: 8, rest: Buffer.from(late) })).rejects.toMatchObject({
      code: "already_exists",
    });
    expect(new TextDecoder().decode(await open().find(8))).toBe("newer");
  }
});

test("a step is kept even if it ends where one lost in a power failure did", async () => {
  const open = createRecords();
  const none = new Uint8Array();
  const lost = open();
  await lost.find(0);
  await lost.keep({ offset: 8, rest: none });
  const again = open();
  await again.find(4);
  await again.keep({ offset: 8, rest: none });
  await again.keep({ offset: 8, rest: none });
  expect(again.keys()).toHaveLength(1);
});
