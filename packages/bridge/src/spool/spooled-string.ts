import { randomBytes } from "node:crypto";
import type { RpcId } from "@sluice/core/internal";
import { isSameId } from "../messages/ids.ts";
import { findPlaces } from "./found-places.ts";

/** How a file holds a string: its text as UTF-8, or the bytes that it is base64 of. */
export type StringCoding = "base64" | "text";

/** One string of a message that went elsewhere. */
export interface SpooledString {
  /** What stands for it in the message. */
  readonly id: string;
  /** Id of the response that it stood in. */
  readonly answerId: RpcId;
  /** Where it is: absolute path of the file, or URI of the held result. */
  readonly place: string;
  readonly name: string;
  readonly bytes: number;
  /** SHA-256 of the file in lower-case hex. */
  readonly sha256: string;
  /** At most the first 1 KiB of the text; of bytes that are not text, the first 32 in hexadecimal. */
  readonly head: string;
  readonly coding: StringCoding;
}

/** Strings that messages still name, by what stands for them. `rewriteSpooled` takes them out. */
export type SpooledStrings = Map<string, SpooledString>;

/** A value that no server can know: it is made for one string, and the message is rewritten before it goes on. */
export function newMarker(): string {
  return `spooled:${randomBytes(16).toString("hex")}`;
}

/** Where long strings of messages are written: a folder, memory, or a storage. */
export interface SpoolTarget {
  /** Begins a string. Rejects with `no_space`, `permission_denied`, and with what else the place says. */
  create(): Promise<SpoolPart>;
}

/** A string on its way, that has no name yet. */
export interface SpoolPart {
  readonly bytes: number;
  /** Appends. The chunk is free again when it resolves. */
  write(chunk: Uint8Array): Promise<void>;
  /** Ends the writing, and gives what was written, once. */
  reread(): AsyncIterable<Uint8Array>;
  /** Ends the writing: lower-case hex of the SHA-256. */
  seal(): Promise<string>;
  /** Gives it a name like this one, which has an extension: absolute path of the file, or URI of the held result. */
  publish(name: string): Promise<string>;
  /** Removes it, under whatever name. Idempotent. */
  discard(): Promise<void>;
}

/** Removes what a string went to. */
export type RemoveString = (string: SpooledString) => Promise<void>;

/**
 * Takes the strings of the response with this id out of `spooled` and has them removed, except those that `message` names.
 * True if there were any.
 */
export function releaseAnswer(
  spooled: SpooledStrings,
  remove: RemoveString,
  id: unknown,
  message?: unknown,
): boolean {
  const strings = [...spooled.values()].filter(({ answerId }) => isSameId(answerId, id));
  const places = message ? findPlaces(message, new Set(strings.map((string) => string.id))) : [];
  const namedMarkers = new Set(places.map(({ marker }) => marker));
  const released = strings.filter((string) => !namedMarkers.has(string.id));
  for (const string of released) {
    spooled.delete(string.id);
    void remove(string).catch(() => {});
  }
  return released.length > 0;
}
