import type { UploadedFile } from "../slots/slots.ts";

/** What is known of a whole file, as storage keeps it. */
export interface FileRecord {
  readonly fileId: string;
  /** Absent when the sender named none: then the answer does. */
  readonly name?: string;
  /** Bytes. */
  readonly size: number;
  /** What the bytes are. */
  readonly mimeType: string;
  /** What the sender called it, where that is another word for it. */
  readonly declaredType?: string;
  /** Lower-case hex. */
  readonly sha256: string;
  readonly scan: UploadedFile["scan"] | "deferred";
}

/** What was said of a file that comes in parts, before the first one. */
export interface FilePlan {
  readonly name?: string;
  readonly declaredType?: string;
  /** Bytes of the whole, where they were known. */
  readonly length?: number;
  /** Lower-case hex. */
  readonly sha256?: string;
}

/** What the marker of a confirmed upload says. */
export interface ConfirmationRecord {
  readonly files: readonly ConfirmedFile[];
}

/** A file that was confirmed. */
export type ConfirmedFile = Omit<FileRecord, "name" | "declaredType" | "scan"> &
  Pick<UploadedFile, "name" | "scan"> & { readonly place: number };
