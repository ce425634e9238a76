import { definedMembers } from "@sluice/core/internal";
import { RefusedFile } from "../slots/upload-error.ts";
import { createKindDetector } from "./detect-kind.ts";
import { createFileHash } from "./file-hash.ts";

/** What is known of a file before its bytes. */
export interface AnnouncedFile {
  readonly name?: string | undefined;
  readonly declaredType?: string | undefined;
  readonly accept: readonly string[];
  /** About how many bytes will come, if that is known. */
  readonly expectedBytes?: number | undefined;
  /** Digest that was announced, lower-case hex. */
  readonly sha256?: string | undefined;
}

/** What is known of a file that was checked. */
export interface CheckedFile {
  /** Absent if the sender gave no name: then the answer gives it. */
  readonly name?: string;
  /** Bytes. */
  readonly size: number;
  /** What the bytes are. */
  readonly mimeType: string;
  /** Media type that the sender declared, if it differs from `mimeType`. */
  readonly declaredType?: string;
  /** Lower-case hex. */
  readonly sha256: string;
}

/** Looks at all bytes of a file as they come: digest and type. */
export interface FileChecks {
  /** Bytes that were looked at. */
  readonly bytes: number;
  /** A promise means that the next chunk has to wait. It rejects as soon as the type is not accepted. */
  add(chunk: Uint8Array): Promise<unknown> | undefined;
  /** Lets go of memory until the next bytes come. */
  pause(): void;
  /** Says what the whole file is. Throws a {@link RefusedFile} for another type or digest. Call it once, last. */
  conclude(): Promise<CheckedFile>;
  /** Lets go of it without a result. */
  stop(): void;
}

/** Begins the checks of one file. */
export function createFileChecks({
  name,
  declaredType,
  accept,
  expectedBytes,
  sha256: wanted,
}: AnnouncedFile): FileChecks {
  const hash = createFileHash(expectedBytes);
  const detector = createKindDetector({ name, declaredType }, accept);
  let bytes = 0;
  return {
    get bytes() {
      return bytes;
    },
    add(chunk) {
      bytes += chunk.byteLength;
      const hashing = hash.update(chunk);
      const detecting = detector.add(chunk);
      return hashing && detecting ? Promise.all([hashing, detecting]) : (hashing ?? detecting);
    },
    pause: () => hash.pause(),
    async conclude() {
      const mimeType = await detector.kind();
      const sha256 = await hash.digest();
      if (wanted !== undefined && wanted !== sha256)
        throw new RefusedFile(
          "corrupt",
          "the bytes do not match the digest that was sent with them",
        );
      return definedMembers({
        name,
        size: bytes,
        mimeType,
        declaredType: declaredType === mimeType ? undefined : declaredType,
        sha256,
      });
    },
    stop: () => hash.stop(),
  };
}

/** Reads a whole file, and says what it is. */
export async function checkBody(
  body: ReadableStream<Uint8Array>,
  announced: AnnouncedFile,
): Promise<CheckedFile> {
  const checks = createFileChecks(announced);
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return await checks.conclude();
      await checks.add(value);
    }
  } catch (error) {
    checks.stop();
    await reader.cancel(error).catch(() => {});
    throw error;
  }
}

/** Files whose checks are kept: a few kilobytes each. */
const maxFiles = 1_000;
const maxAgeMs = 3_600_000;

/**
 * Keeps the checks of files between two steps, so that a file whose steps come to one process is not read again: of at
 * most 1,000 files, for an hour each.
 */
export class ChecksMemory {
  /** In the order in which they came. */
  readonly #kept = new Map<string, { readonly checks: FileChecks; readonly since: number }>();

  /** Takes the checks of a file that have seen exactly its first `offset` bytes. */
  take(fileId: string, offset: number): FileChecks | undefined {
    const entry = this.#kept.get(fileId);
    if (entry?.checks.bytes !== offset) {
      this.#drop(fileId);
      return undefined;
    }
    this.#kept.delete(fileId);
    return entry.checks;
  }

  put(fileId: string, checks: FileChecks): void {
    this.#drop(fileId);
    checks.pause();
    const now = Date.now();
    this.#kept.set(fileId, { checks, since: now });
    for (const [oldest, { since }] of this.#kept) {
      if (this.#kept.size <= maxFiles && now - since < maxAgeMs) break;
      this.#drop(oldest);
    }
  }

  clear(): void {
    for (const fileId of this.#kept.keys()) this.#drop(fileId);
  }

  #drop(fileId: string): void {
    this.#kept.get(fileId)?.checks.stop();
    this.#kept.delete(fileId);
  }
}
