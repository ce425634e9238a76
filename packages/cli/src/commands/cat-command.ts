import type { WantedPart } from "@sluice/client/internal";
import { chooseResources } from "../download/choose-resources.ts";
import { createPace } from "../download/rate-limit.ts";
import { writeResources } from "../download/write-resources.ts";
import { connect, ensureTrust, type ServerCallOptions } from "../server-calls/connect.ts";
import { fault } from "../terminal/failure.ts";

/** Options of `sluice cat`. */
export interface CatOptions extends ServerCallOptions {
  readonly range?: WantedPart;
  /** Bytes a second. */
  readonly limitRate?: number;
  /** Further origins that bytes may come from. */
  readonly trust?: readonly string[];
}

/** `sluice cat`: writes resources, or a part of one, to standard output, and nothing else. */
export async function catCommand(
  server: string,
  names: readonly string[],
  options: CatOptions,
): Promise<void> {
  const { range, limitRate, trust, signal } = options;
  ensureTrust(trust);
  const connection = await connect(server, options);
  try {
    const chosen = await chooseResources(connection, names, {});
    if (range && chosen.length > 1)
      throw fault("invalid_argument", "--range is for one resource", "name one");
    const pace = limitRate === undefined ? undefined : createPace(limitRate, signal);
    await writeResources(connection, chosen, { part: range, trust: trust ?? [], pace, signal });
  } finally {
    await connection.client.close();
  }
}
