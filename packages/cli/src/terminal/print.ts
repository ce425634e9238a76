import { once } from "node:events";
import { readFileSync } from "node:fs";
import { withoutCredentials } from "@sluice/core/internal";
import { exitCodes } from "./exit-code.ts";

/** Writes a line to standard output and waits while its reader is slow. */
export async function print(line: string): Promise<void> {
  if (!process.stdout.write(`${line}\n`)) await once(process.stdout, "drain");
}

/** Writes a line for people to standard error, where no script mistakes it for data; logs keep it, so it names no credentials. */
export function note(line: string): void {
  process.stderr.write(`${withoutCredentials(line)}\n`);
}

/** Ends the process when the reader of standard output leaves early, as `head` does. */
export function endWithReader(): void {
  process.stdout.on("error", exitWithReader);
}

/** For a server over stdin and stdout, which closes what it has open before it ends. */
export function outliveReader(): void {
  process.stdout.off("error", exitWithReader);
}

function exitWithReader(error: NodeJS.ErrnoException): void {
  process.exit(error.code === "EPIPE" ? exitCodes.ok.status : exitCodes.failed.status);
}

const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");

/** Version of this package. */
export const version: string = (JSON.parse(manifest) as { version: string }).version;

// control and formatting characters: what could move the cursor, hide text or reorder it
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Text of a server, harmless on a terminal: one line, every control character shown as `\u{1b}`.
 * A server names its resources as it likes; without this it could write to the user's screen.
 */
export function printable(text: string): string {
  return text.replace(unprintable, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`);
}

/** A value as one line of JSON, as harmless on a terminal as {@link printable} text and as exact as JSON. */
export function printableJson(value: unknown): string {
  return JSON.stringify(value).replace(unprintable, (char) =>
    Array.from({ length: char.length }, (_, at) => char.charCodeAt(at))
      .map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`)
      .join(""),
  );
}
