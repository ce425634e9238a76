import type { FileSource, OpenFile } from "../source/file-source.ts";
import type { RunningDigest } from "../source/running-digest.ts";
import type { SendTimeouts } from "./send-timeouts.ts";
import type { Sender } from "./sender.ts";
import type { Trust, UploadTarget } from "../upload-target.ts";

/** How files are sent, whichever they are. */
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
  /** Told how many bytes of the file went out; fewer than before when some must go again. */
  readonly onSent: (bytes: number) => void;
}

/** What is known of a file that arrived. */
export interface SentFile {
  /** As it was picked. */
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly mimeType: string;
  /** Lower-case hex. */
  readonly sha256: string;
}
