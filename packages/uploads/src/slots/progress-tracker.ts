import type { OpenSlot } from "./slot-token.ts";
import type { UploadProgress } from "./slots.ts";

/** Counts what comes for slots. */
export interface ProgressTracker {
  /** Begins to count a file of `total` bytes, of which `received` are there already. */
  begin(
    slot: Pick<OpenSlot, "uploadId" | "expiresAt">,
    fileId: string,
    facts: { readonly received?: number; readonly total?: number | undefined },
  ): void;
  add(uploadId: string, fileId: string, bytes: number): void;
  drop(uploadId: string, fileId: string): void;
  of(uploadId: string): UploadProgress;
  forget(uploadId: string): void;
  /** Forgets the uploads whose slots ended before a time in Unix milliseconds. */
  forgetBefore(time: number): void;
}

interface CountedUpload {
  /** Unix milliseconds. */
  readonly expiresAt: number;
  readonly files: Map<string, { received: number; readonly total: number | undefined }>;
}

/** Makes the tracker of one process. */
export function createProgressTracker(): ProgressTracker {
  const uploads = new Map<string, CountedUpload>();
  return {
    begin({ uploadId, expiresAt }, fileId, { received = 0, total }) {
      let upload = uploads.get(uploadId);
      if (!upload) uploads.set(uploadId, (upload = { expiresAt, files: new Map() }));
      upload.files.set(fileId, { received, total });
    },
    add(uploadId, fileId, bytes) {
      const file = uploads.get(uploadId)?.files.get(fileId);
      if (file) file.received += bytes;
    },
    drop(uploadId, fileId) {
      const upload = uploads.get(uploadId);
      upload?.files.delete(fileId);
      if (upload?.files.size === 0) uploads.delete(uploadId);
    },
    of(uploadId) {
      const files = [...(uploads.get(uploadId)?.files.values() ?? [])];
      const received = files.reduce((sum, file) => sum + file.received, 0);
      const isKnown = files.length > 0 && files.every(({ total }) => total !== undefined);
      return {
        received,
        ...(isKnown && { total: files.reduce((sum, file) => sum + file.total!, 0) }),
      };
    },
    forget: (uploadId) => void uploads.delete(uploadId),
    forgetBefore(time) {
      for (const [uploadId, { expiresAt }] of uploads)
        if (expiresAt < time) uploads.delete(uploadId);
    },
  };
}
