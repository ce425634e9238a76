import { SluiceError } from "@sluice/core";
import type { Host } from "@sluice/server/transport";
import { tagOfOwner } from "../slots/slot-token.ts";
import type { UploadedFile } from "../slots/slots.ts";

interface RecordedUpload {
  readonly uploadId: string;
  readonly owner: string;
}

/** Confirms an upload within a record of its own: nothing is confirmed where records are required and there is none. */
export async function recordConfirmation(
  host: Pick<Host, "beginAudit">,
  { uploadId, owner }: RecordedUpload,
  work: () => Promise<readonly UploadedFile[]>,
): Promise<readonly UploadedFile[]> {
  const principal = tagOfOwner(owner);
  const entry = host.beginAudit({ action: "upload", step: "confirm", grant: uploadId, principal });
  try {
    await entry.admit();
    const files = await entry.run(work);
    await entry.conclude("complete", { bytes: files.reduce((sum, { size }) => sum + size, 0) });
    return files;
  } catch (error) {
    const reason = reasonOf(error);
    entry.end(reason === "internal" || reason === "unavailable" ? "failed" : "denied", { reason });
    throw error;
  }
}

/** Removes an upload within a record of its own. */
export async function recordDiscard(
  host: Pick<Host, "beginAudit">,
  { uploadId, owner }: RecordedUpload,
  work: () => Promise<void>,
): Promise<void> {
  const principal = tagOfOwner(owner);
  const entry = host.beginAudit({ action: "upload", step: "discard", grant: uploadId, principal });
  try {
    await entry.run(work);
    entry.end("complete");
  } catch (error) {
    entry.end("failed", { reason: reasonOf(error) });
    throw error;
  }
}

function reasonOf(error: unknown): string {
  return SluiceError.is(error) ? error.code : "internal";
}
