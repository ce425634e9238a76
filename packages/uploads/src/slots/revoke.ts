import { discardUpload, removeObjects } from "../confirm/confirm.ts";
import { folderOf, markerKey, uploadPrefix } from "../store/layout.ts";
import type { Confirmation } from "../store/records.ts";
import { recordDiscard } from "../confirm/record-step.ts";
import type { OpenSlot } from "./slot-token.ts";
import { createJson } from "../store/small-object.ts";
import { listAll } from "./upload-storage.ts";
import type { UploadsParts } from "./uploads-parts.ts";

/**
 * Ends a slot, see {@link Slots.revoke}: a confirmation of no files takes the one place that there is for one, so what
 * is under way is refused at its end. The sweeper removes it when the time of the slot is over.
 */
export async function revokeSlot(
  parts: UploadsParts,
  slot: Omit<OpenSlot, "terms">,
  signal: AbortSignal,
): Promise<void> {
  const { storage, board, host } = parts;
  const { uploadId } = slot;
  const folder = folderOf(slot);
  const marker = markerKey(folder);
  let isRevoked: boolean;
  try {
    isRevoked = await createJson(storage, marker, { files: [] } satisfies Confirmation, signal);
  } catch (error) {
    await discardUpload(parts, uploadId, signal);
    throw error;
  }
  // files that were confirmed are the server's
  if (!isRevoked) return;
  board.forget(uploadId);
  const objects = await listAll(storage, uploadPrefix(uploadId), signal);
  const unwanted = objects.filter(({ key }) => key.startsWith(folder) && key !== marker);
  if (unwanted.length === 0) return;
  await recordDiscard(host, slot, () => removeObjects(parts, unwanted, signal));
}
