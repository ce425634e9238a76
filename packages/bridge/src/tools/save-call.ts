import type { SaveFolder } from "../confine/save-folder.ts";
import type { SpooledStrings } from "../spool/spooled-string.ts";
import type { ToolCall } from "./tool-answer.ts";
import { askAboveBytes, yesAdvice, type ToolContext } from "./tool-context.ts";

/** A file that `save_resource` made. */
export interface SavedResource {
  readonly path: string;
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256: string;
  /** What it was compared with: the server's digest, its length, or nothing. */
  readonly verified: "digest" | "length" | "none";
  readonly resumedBytes: number;
}

/** Where files go, and how large they may be. */
export interface SaveSettings {
  readonly folder: SaveFolder;
  /** Most bytes of one file. */
  readonly maxBytes: number;
  /** Strings of answers that went to files. */
  readonly spooled: SpooledStrings;
}

/** One save that a host called for. */
export interface Save {
  readonly uri: string;
  readonly path: string | undefined;
  readonly call: ToolCall;
  readonly context: ToolContext;
  readonly settings: SaveSettings;
}

/** Bytes up to which the user is not asked. */
export function agreedBytes({ agreedBytes: said = askAboveBytes }: ToolContext): number {
  return said;
}

/** Asks the user about a save. */
export function agree(message: string, { call, context }: Save): Promise<boolean> {
  return context.questions.agree(call.request, message, { signal: call.signal, advice: yesAdvice });
}
