import type { Host } from "@sluice/server/internal";
import type { ObjectInfo } from "@sluice/storage";
import type { QuotaTracker } from "../limits/quota-tracker.ts";
import type { ProgressTracker } from "../slots/progress-tracker.ts";
import { isId } from "../slots/slots.ts";
import { tagOfOwner, type OpenSlot } from "../slots/slot-token.ts";
import { codeOf } from "../slots/upload-error.ts";
import {
  type ConfirmationRecord,
  folderOf,
  markerKey,
  parseObject,
  removeObject,
  uploadPrefix,
} from "../store/layout.ts";
import { stateOf, type UploadState } from "../store/upload-state.ts";
import { createJson, listAll, type UploadStorage } from "../store/upload-storage.ts";

interface RemoverParts {
  readonly storage: UploadStorage;
  readonly quota: QuotaTracker;
  readonly progress: ProgressTracker;
  readonly host: Pick<Host, "beginAudit">;
}

/** Removes uploads, with an audit record for each. */
export class UploadRemover {
  readonly #parts: RemoverParts;

  constructor(parts: RemoverParts) {
    this.#parts = parts;
  }

  /**
   * Removes what came for a slot: records first, because one without its bytes would be taken for a whole file, and the
   * marker last, because until then nothing can take its place. With `isWorthless`, removes only if it still holds for the
   * fresh listing.
   */
  async discard(
    uploadId: string,
    signal: AbortSignal,
    isWorthless: (state: UploadState) => boolean = () => true,
  ): Promise<void> {
    if (!isId(uploadId)) return;
    const infos = await listAll(this.#parts.storage, uploadPrefix(uploadId), signal);
    const state = stateOf(infos);
    const { owner } = state;
    if (!isWorthless(state)) return;
    this.#parts.progress.forget(uploadId);
    if (owner === undefined) return;
    const inOrder = infos.toSorted((a, b) => removalRank(a) - removalRank(b));
    await this.#removeObjects({ uploadId, owner }, inOrder, signal);
  }

  /**
   * Ends a slot, see {@link Slots.revoke}: writes an empty confirmation, of which there can be only one, so uploads in
   * progress are refused when they finish. The sweeper removes it when the time of the slot is over.
   */
  async revoke(slot: Omit<OpenSlot, "terms">, signal: AbortSignal): Promise<void> {
    const { storage, progress } = this.#parts;
    const { uploadId } = slot;
    const folder = folderOf(slot);
    const marker = markerKey(folder);
    let isRevoked: boolean;
    try {
      const nothing = { files: [] } satisfies ConfirmationRecord;
      isRevoked = await createJson(storage, marker, nothing, signal);
    } catch (error) {
      await this.discard(uploadId, signal);
      throw error;
    }
    // files that were confirmed are the server's
    if (!isRevoked) return;
    progress.forget(uploadId);
    const objects = await listAll(storage, uploadPrefix(uploadId), signal);
    const unwanted = objects.filter(({ key }) => key.startsWith(folder) && key !== marker);
    if (unwanted.length > 0) await this.#removeObjects(slot, unwanted, signal);
  }

  /** Removes objects in their order and counts their files no longer, within an audit record. */
  async #removeObjects(
    { uploadId, owner }: Pick<OpenSlot, "uploadId" | "owner">,
    infos: readonly ObjectInfo[],
    signal: AbortSignal,
  ): Promise<void> {
    const { storage, quota, host } = this.#parts;
    const audited = { grant: uploadId, principal: tagOfOwner(owner) };
    const entry = host.beginAudit({ action: "upload", step: "discard", ...audited });
    try {
      await entry.run(async () => {
        for (const info of infos) {
          const object = parseObject(info);
          if (object) await removeObject(storage, object, signal);
          else await storage.remove(info.key, { signal });
          if (object && "fileId" in object) await quota.drop(object.owner, object.fileId);
        }
      });
      entry.end("complete");
    } catch (error) {
      entry.end("failed", { reason: codeOf(error) });
      throw error;
    }
  }
}

function removalRank(info: ObjectInfo): number {
  const kind = parseObject(info)?.kind;
  if (kind === "file") return 0;
  return kind === "confirmed" ? 2 : 1;
}
