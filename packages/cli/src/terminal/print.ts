import { once } from "node:events";
import { withoutCredentials } from "@sluice/core";
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
