import { randomBytes } from "node:crypto";
import type { RpcId } from "@sluice/core";
import type { StringCoding } from "./files/string-file.ts";

/** One string of a message that went elsewhere. */
export interface SpooledString {
  /** What stands for it in the message. */
  readonly id: string;
  /** Id of the answer that it stood in. */
  readonly answerId: RpcId;
  /** Where it is: absolute path of the file, or URI of the held result. */
  readonly place: string;
  /** File name that was made for it. */
  readonly name: string;
  /** Bytes of the file. */
  readonly bytes: number;
  /** SHA-256 of the file in lower-case hex. */
  readonly sha256: string;
  /** At most the first 1 KiB of the text; of bytes that are no text, the first 32 in hexadecimal. */
  readonly head: string;
  readonly coding: StringCoding;
}

/** Strings that messages still name, by what stands for them. `rewriteSpooled` takes them out. */
export type SpooledStrings = Map<string, SpooledString>;

/** A value that no server can know: it is made for one string, and the message is rewritten before it goes on. */
export function createMarker(): string {
  return `spooled:${randomBytes(16).toString("hex")}`;
}
