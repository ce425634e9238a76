import type { FileSource, OpenFile } from "../source/file-source.ts";
import type { SendTimeouts, Sender } from "./sender.ts";
import type { Trust, UploadTarget } from "../upload-target.ts";
import { loadSha256 } from "../../net/load-code.ts";

/** How to send any files. */
export interface SendSettings {
  readonly sender: Sender;
  readonly trust: Trust;
  readonly timeouts: SendTimeouts;
}

/** One file on its way to a target. */
export interface OutgoingFile {
  readonly source: FileSource;
  readonly file: OpenFile;
  readonly digest: RunningDigest;
  readonly target: UploadTarget;
  readonly settings: SendSettings;
  readonly signal: AbortSignal;
  /** Called with the bytes of the file that went out; fewer than before if some are resent. */
  readonly onSent: (bytes: number) => void;
}

/** Facts of a file that arrived. */
export interface SentFile {
  /** As it was picked. */
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly mimeType: string;
  /** Lower-case hex. */
  readonly sha256: string;
}

/** The SHA-256 of a file whose bytes pass in order, some perhaps more than once. */
export interface RunningDigest {
  /** Takes a chunk and its place in the file. What was seen before counts once. */
  readonly see: (chunk: Uint8Array, at: number) => void;
  /** Reads what has not passed by yet, up to `end`. */
  catchUp(end: number): Promise<void>;
  /** Lower-case hex, once every byte was seen; later calls give the same. */
  finish(): Promise<string>;
}

/** Starts the digest of an open file. */
export async function startDigest(file: OpenFile): Promise<RunningDigest> {
  const { createSha256 } = await loadSha256();
  const hash = createSha256();
  let seenTo = 0;
  let sha256: string | undefined;

  function see(chunk: Uint8Array, at: number): void {
    const end = at + chunk.length;
    if (at > seenTo || end <= seenTo) return;
    hash.update(chunk.subarray(seenTo - at));
    seenTo = end;
  }
  async function catchUp(end: number): Promise<void> {
    let at = seenTo;
    if (at >= end) return;
    for await (const chunk of file.chunks(at, end)) {
      see(chunk, at);
      at += chunk.length;
    }
  }

  return {
    see,
    catchUp,
    async finish() {
      await catchUp(file.size);
      return (sha256 ??= hash.digest());
    },
  };
}
