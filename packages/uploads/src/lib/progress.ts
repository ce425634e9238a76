import type { UploadProgress } from "./slots.ts";

/** Counts what comes for slots. */
export interface ProgressBoard {
  /** Begins to count a file of `total` bytes, of which `received` are there already. */
  begin(
    uploadId: string,
    fileId: string,
    facts: { readonly received?: number; readonly total?: number | undefined },
  ): void;
  add(uploadId: string, fileId: string, bytes: number): void;
  drop(uploadId: string, fileId: string): void;
  of(uploadId: string): UploadProgress;
  forget(uploadId: string): void;
}

/** Makes the board of one process. */
export function createProgressBoard(): ProgressBoard {
  const uploads = new Map<
    string,
    Map<string, { received: number; readonly total: number | undefined }>
  >();
  return {
    begin(uploadId, fileId, { received = 0, total }) {
      let files = uploads.get(uploadId);
      if (!files) uploads.set(uploadId, (files = new Map()));
      files.set(fileId, { received, total });
    },
    add(uploadId, fileId, bytes) {
      const file = uploads.get(uploadId)?.get(fileId);
      if (file) file.received += bytes;
    },
    drop(uploadId, fileId) {
      const files = uploads.get(uploadId);
      files?.delete(fileId);
      if (files?.size === 0) uploads.delete(uploadId);
    },
    of(uploadId) {
      const files = [...(uploads.get(uploadId)?.values() ?? [])];
      const received = files.reduce((sum, file) => sum + file.received, 0);
      const isKnown = files.length > 0 && files.every(({ total }) => total !== undefined);
      return {
        received,
        ...(isKnown && { total: files.reduce((sum, file) => sum + file.total!, 0) }),
      };
    },
    forget: (uploadId) => void uploads.delete(uploadId),
  };
}
