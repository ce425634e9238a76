import { once } from "node:events";
import { streamResource } from "@sluice/client";
import { type WantedPart, writePart } from "@sluice/client/internal";
import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { ClientConnection } from "../server-calls/connect.ts";
import { declaresStreaming, readResource } from "../server-calls/read-resource.ts";
import type { ChosenResource } from "./choose-resources.ts";
import type { Pace } from "./rate-limit.ts";

/** How resources go to standard output. */
export interface WriteSettings {
  readonly part?: WantedPart | undefined;
  /** Bytes of each. */
  readonly maxSize?: number | undefined;
  /** Further origins that bytes may come from. */
  readonly trust?: readonly string[];
  readonly pace?: Pace | undefined;
  readonly signal: AbortSignal;
}

/**
 * Writes resources to standard output one after the other, and nothing else. Length and digest are known to be right when it
 * returns: a reader goes by the exit code. The first fault ends it.
 */
export async function writeResources(
  connection: ClientConnection,
  resources: readonly ChosenResource[],
  settings: WriteSettings,
): Promise<void> {
  for (const resource of resources) await writeResource(connection, resource, settings);
}

async function writeResource(
  connection: ClientConnection,
  { uri, path, size }: ChosenResource,
  { part, maxSize = Number.MAX_SAFE_INTEGER, trust, pace, signal }: WriteSettings,
): Promise<void> {
  const write = async (chunk: Uint8Array): Promise<void> => {
    await pace?.(chunk.length);
    if (!process.stdout.write(chunk)) await once(process.stdout, "drain", { signal });
  };
  const { client } = connection;
  const options = { signal, maxStreamBytes: maxSize, ...definedMembers({ trustedOrigins: trust }) };
  if (declaresStreaming(connection))
    try {
      if (part) return await writePart(client, uri, part, write, options);
      const { body } = await streamResource(client, uri, options);
      for await (const chunk of body) await write(chunk);
      return;
    } catch (error) {
      // nothing was written then
      if (!SluiceError.is(error) || error.code !== "unsupported") throw error;
    }
  const listedFacts = path === undefined ? undefined : { size };
  const { bytes } = await readResource(connection, uri, maxSize, listedFacts);
  await write(partOf(bytes, part));
}

function partOf(bytes: Uint8Array, part: WantedPart | undefined): Uint8Array {
  if (!part) return bytes;
  if (part.suffix !== undefined) return bytes.subarray(Math.max(0, bytes.length - part.suffix));
  if (part.start < bytes.length || bytes.length === 0) return bytes.subarray(part.start, part.end);
  throw new SluiceError(
    "range_not_satisfiable",
    `it has ${bytes.length} bytes; pass another --range`,
  );
}
