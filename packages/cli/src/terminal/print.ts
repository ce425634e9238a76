import { once } from "node:events";

/** Writes a line to standard output and waits while its reader is slow. */
export async function print(line: string): Promise<void> {
  if (!process.stdout.write(`${line}\n`)) await once(process.stdout, "drain");
}

/** Writes a line for people to standard error, where no script mistakes it for data. */
export function note(line: string): void {
  process.stderr.write(`${line}\n`);
}
