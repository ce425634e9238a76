import { openKeyFile, type KeyFile } from "@sluice/server/node";
import { fault } from "../terminal/failure.ts";
import { note } from "../terminal/print.ts";
import { printable } from "../terminal/printable.ts";

/** The file of keys that was named, if one was. */
export async function openKeys(path: string | undefined): Promise<KeyFile | undefined> {
  if (path === undefined) return undefined;
  try {
    return await openKeyFile({ path, onError: (error) => note(`sluice: ${messageOf(error)}`) });
  } catch (error) {
    const advice = "make one with `sluice keys new`; it is its owner's alone (chmod 600)";
    throw fault("invalid_argument", messageOf(error), advice);
  }
}

function messageOf(error: unknown): string {
  return printable(error instanceof Error ? error.message : String(error));
}
