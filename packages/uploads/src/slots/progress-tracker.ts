import type { OpenSlot } from "./slot-token.ts";
import type { UploadProgress } from "./slots.ts";

interface CountedUpload {
  /** Unix milliseconds. */
  readonly expiresAt: number;
  readonly files: Map<string, { received: number; readonly total: number | undefined }>;
}

/** Counts what comes for slots, in one process. */
export class ProgressTracker {
  readonly #uploads = new Map<string, CountedUpload>();

  /** Begins to count a file of `total` bytes, of which `received` are there already. */
  begin(
    { uploadId, expiresAt }: Pick<OpenSlot, "uploadId" | "expiresAt">,
    fileId: string,
    { received = 0, total }: { readonly received?: number; readonly total?: number | undefined },
  ): void {
    let upload = this.#uploads.get(uploadId);
    if (!upload) this.#uploads.set(uploadId, (upload = { expiresAt, files: new Map() }));
    upload.files.set(fileId, { received, total });
  }

  add(uploadId: string, fileId: string, bytes: number): void {
    const file = this.#uploads.get(uploadId)?.files.get(fileId);
    if (file) file.received += bytes;
  }

  drop(uploadId: string, fileId: string): void {
    const upload = this.#uploads.get(uploadId);
    upload?.files.delete(fileId);
    if (upload?.files.size === 0) this.#uploads.delete(uploadId);
  }

  of(uploadId: string): UploadProgress {
    const files = [...(this.#uploads.get(uploadId)?.files.values() ?? [])];
    const bytes = files.reduce((sum, file) => sum + file.received, 0);
    const isKnown = files.length > 0 && files.every(({ total }) => total !== undefined);
    if (!isKnown) return { bytes };
    return { bytes, totalBytes: files.reduce((sum, file) => sum + file.total!, 0) };
  }

  forget(uploadId: string): void {
    this.#uploads.delete(uploadId);
  }

  /** Forgets the uploads whose slots ended before a time in Unix milliseconds. */
  forgetBefore(time: number): void {
    for (const [uploadId, { expiresAt }] of this.#uploads)
      if (expiresAt < time) this.#uploads.delete(uploadId);
  }
}
