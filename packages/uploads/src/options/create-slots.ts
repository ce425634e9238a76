import type { Principal } from "@sluice/core";
import { definedMembers, sanitizeFileName } from "@sluice/core/internal";
import type { Host } from "@sluice/server/internal";
import type { RequestBody } from "@sluice/transport-http";
import type { Confirmation } from "../confirm/confirm.ts";
import type { UploadRemover } from "../confirm/remove-upload.ts";
import type { UploadPageStore } from "../page/upload-pages.ts";
import type { ReceiverParts } from "../receive/body-reader.ts";
import { receiveFile } from "../receive/raw-upload.ts";
import type { ShutdownStage } from "../slots/open-requests.ts";
import type { ProgressTracker } from "../slots/progress-tracker.ts";
import { ownerOf, type SlotTokens, tagOfOwner } from "../slots/slot-token.ts";
import type { Slots, UploadedFile } from "../slots/slots.ts";
import { codeOf } from "../slots/upload-error.ts";

const unservedWarning =
  "an upload URL was issued, and nothing in this process serves it: pass uploads to createHandler or serve, here or in another process";

/** The slots of one endpoint. What they do ends when `closing` aborts. Warns once about a slot that `isServed` denies. */
export function createSlots({
  host,
  tokens,
  receiving,
  confirmation,
  remover,
  pages,
  progress,
  closing,
  isServed,
}: {
  readonly host: Pick<Host, "beginAudit" | "onError" | "onWarning">;
  readonly tokens: SlotTokens;
  readonly receiving: ReceiverParts;
  readonly confirmation: Confirmation;
  readonly remover: UploadRemover;
  readonly pages: Pick<UploadPageStore, "concludeSlot">;
  readonly progress: ProgressTracker;
  readonly closing: ShutdownStage;
  readonly isServed: () => boolean;
}): Slots {
  let mayWarn = true;
  return {
    async reserve(principal, terms, options = {}) {
      const { url, slot } = await tokens.issue(principal, terms, options);
      const { uploadId, owner, expiresAt } = slot;
      if (mayWarn && !isServed()) host.onWarning(unservedWarning);
      mayWarn = false;
      const audited = { grant: uploadId, principal: tagOfOwner(owner) };
      host.beginAudit({ action: "upload", step: "reserve", ...audited }).end("issued");
      return { uploadId, url, method: "POST", expiresAt, terms: slot.terms };
    },

    async confirm(principal, uploadId, claims, { signal, unnamed } = {}) {
      const files = await recordConfirmation(host, principal, uploadId, () => {
        const answer = definedMembers({ claims, unnamed });
        return closing.runUntil(signal, (ending) =>
          confirmation.confirm(principal, uploadId, answer, ending),
        );
      });
      await pages.concludeSlot(uploadId, "accepted").catch(host.onError);
      return files;
    },
    received: (principal, uploadId, { signal } = {}) =>
      closing.runUntil(signal, (ending) => confirmation.received(principal, uploadId, ending)),
    reopen: (principal, uploadId, { signal } = {}) =>
      closing.runUntil(signal, (ending) => confirmation.reopen(principal, uploadId, ending)),

    keep: (principal, file, terms, { signal } = {}) =>
      closing.runUntil(signal, async (ending) => {
        const { name, mimeType } = file;
        const { size, body } = "bytes" in file ? bodyOf(file.bytes) : file;
        const slot = tokens.createUnsent(principal, terms);
        const records = await receiveFile(receiving, {
          slot,
          facts: {
            ...definedMembers({ contentLength: size, contentType: mimeType }),
            name: name === undefined ? undefined : sanitizeFileName(name),
          },
          body,
          signal: ending,
          onBytes: () => {},
        });
        const claims = records.map((record) => ({
          name: sanitizeFileName(name, "file"),
          size: record.size,
          mimeType: record.mimeType,
          sha256: record.sha256,
        }));
        const [kept] = await confirmation.confirm(principal, slot.uploadId, { claims }, ending);
        return kept!;
      }),

    async revoke(principal, { uploadId, expiresAt }) {
      const slot = { uploadId, expiresAt, owner: ownerOf(principal) };
      await closing.runUntil(undefined, (ending) => remover.revoke(slot, ending));
      await pages.concludeSlot(uploadId, "cancelled").catch(host.onError);
    },
    discard: (uploadId) =>
      closing.runUntil(undefined, (ending) => remover.discard(uploadId, ending)),
    progress: (uploadId) => progress.of(uploadId),
  };
}

function bodyOf(bytes: Uint8Array): { readonly size: number; readonly body: RequestBody } {
  return { size: bytes.byteLength, body: { read: async (take) => take(bytes) } };
}

/** Confirms an upload and records it. If records are required and cannot be kept, nothing is confirmed. */
async function recordConfirmation(
  host: Pick<Host, "beginAudit">,
  owner: Principal | undefined,
  uploadId: string,
  work: () => Promise<readonly UploadedFile[]>,
): Promise<readonly UploadedFile[]> {
  const principal = tagOfOwner(ownerOf(owner));
  const entry = host.beginAudit({ action: "upload", step: "confirm", grant: uploadId, principal });
  try {
    await entry.recordBegun();
    const files = await entry.run(work);
    await entry.conclude("complete", { bytes: files.reduce((sum, { size }) => sum + size, 0) });
    return files;
  } catch (error) {
    const reason = codeOf(error);
    entry.end(reason === "internal" || reason === "unavailable" ? "failed" : "denied", { reason });
    throw error;
  }
}
