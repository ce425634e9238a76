import { type DriveFile, selectItem, toFoundFile } from "./drive-item.ts";
import type { GraphRoute } from "./graph-client.ts";

/** One call about one file. */
export interface FileCall {
  /** Start of messages: `graph: open "a.txt"`. */
  readonly operation: string;
  readonly signal: AbortSignal | undefined;
}

/** Asks for the file of a key. */
export async function findFile(
  { client, address }: GraphRoute,
  key: string,
  call: FileCall,
): Promise<DriveFile> {
  const target = `${address.toKey(key)}?${selectItem}`;
  const { body } = await client.ask({ target, expect: [200], ...call });
  return toFoundFile(body ?? {}, key, address.driveId, call.operation);
}
