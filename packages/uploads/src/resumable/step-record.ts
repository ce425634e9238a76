import { createSha256 } from "@sluice/core/internal";
import type { StepEnd } from "@sluice/storage";
import { unlessMissing } from "@sluice/storage/plugin";
import { codeOf } from "../slots/upload-error.ts";
import { beginningBytes, folderOf, planKey, stepKey, type FilePlan } from "../store/layout.ts";
import { replaceJson, writeObject, type UploadStorage } from "../store/upload-storage.ts";
import { alreadyResumed, type FileAddress } from "./partial-file.ts";

/** What lies beside a file in steps, so that a listing shows how far it is and other processes go on with it. */
export interface StepRecord {
  /** As it is now. */
  readonly plan: FilePlan;
  /** The bytes behind `offset` that came and that storage could not take yet. */
  find(offset: number): Promise<Uint8Array>;
  /** Sees every chunk before it is written, and keeps a digest of the first 64 KiB in the plan. */
  observe(chunk: Uint8Array): Promise<void>;
  /** Keeps where a step has ended. */
  keep(end: StepEnd): Promise<void>;
  /** Keys of the objects that show how far the file is. */
  keys(): readonly string[];
}

/** Makes the record of one file, for the request that has its lock. */
export function createStepRecord(
  {
    storage,
    onError,
  }: { readonly storage: UploadStorage; readonly onError: (error: unknown) => void },
  { slot, fileId, lease }: FileAddress,
  given: FilePlan,
): StepRecord {
  const folder = folderOf(slot);
  let plan = given;
  /** The object that says where the last step has ended. */
  let last: { readonly key: string; readonly etag: string | undefined } | undefined;
  let isAtStart = true;
  let head: ReturnType<typeof createSha256> | undefined = createSha256();
  let headBytes = 0;

  async function keepBeginning(): Promise<void> {
    if (!head || headBytes === 0) return;
    plan = { ...plan, beginning: { bytes: headBytes, sha256: head.digest() } };
    head = undefined;
    lease.ensureOurs();
    await replaceJson(storage, planKey(folder, fileId), plan);
  }

  return {
    get plan() {
      return plan;
    },
    keys: () => (last ? [last.key] : []),
    async find(offset) {
      isAtStart = offset === 0;
      const key = stepKey(folder, fileId, offset);
      const found = await unlessMissing(storage.open(key));
      if (!found) return new Uint8Array();
      last = { key, etag: found.info.etag };
      const rest = new Uint8Array(await new Response(found.body).arrayBuffer());
      isAtStart &&= rest.byteLength === 0;
      return rest;
    },
    async observe(chunk) {
      if (!isAtStart || plan.beginning !== undefined) head = undefined;
      if (!head) return;
      const piece = chunk.subarray(0, beginningBytes - headBytes);
      head.update(piece);
      headBytes += piece.byteLength;
      if (headBytes === beginningBytes) await keepBeginning();
    },
    async keep({ offset, rest }) {
      await keepBeginning();
      lease.ensureOurs();
      const key = stepKey(folder, fileId, offset);
      const before = last;
      // replaces the record that this request found, and no other
      const ifMatch = before?.etag === undefined ? {} : { ifMatch: before.etag };
      const condition = before?.key === key ? ifMatch : { ifAbsent: true };
      try {
        const { etag } = await writeObject(storage, key, rest.slice(), condition);
        last = { key, etag };
      } catch (error) {
        if (codeOf(error) !== "precondition_failed") throw error;
        // a crash may have left a record of the same bytes
        const found =
          rest.byteLength === 0 ? await unlessMissing(storage.describe(key)) : undefined;
        if (found?.size !== 0) throw alreadyResumed(error);
        last = { key, etag: found.etag };
      }
      // one that stays is removed with the plan
      if (before && before.key !== key) await storage.remove(before.key).catch(onError);
    },
  };
}
