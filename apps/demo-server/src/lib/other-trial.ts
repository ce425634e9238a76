// What the server has beside the files of one folder, fetched as they are.
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Fetched } from "../client-process.ts";
import { startPeer } from "./peer.ts";

/** A resource that was fetched. */
export interface Other extends Fetched {
  readonly uri: string;
  readonly content: Buffer;
}

/** Where they are fetched. */
export interface OtherTrial {
  readonly folder: string;
  /** File of the audit trail. */
  readonly trail: string;
  /** Where each is put for as long as it takes to read it. */
  readonly downloads: string;
}

/** Fetches resources from a fresh server, one after the other. */
export async function fetchOthers(
  uris: readonly string[],
  { folder, trail, downloads }: OtherTrial,
): Promise<Other[]> {
  const server = startPeer("server-process");
  const client = startPeer("client-process");
  try {
    const settings = { folder, trail, delivery: "auto" };
    const { port } = await server.ask<{ port: number }>("start", settings);
    const url = `http://127.0.0.1:${port}/mcp`;
    const path = join(downloads, "other");
    const others: Other[] = [];
    for (const uri of uris) {
      const fetched = await client.ask<Fetched>("stream", { url, uri, path });
      others.push({ uri, ...fetched, content: await readFile(path) });
      await rm(path);
    }
    await server.ask("closeTrail");
    return others;
  } finally {
    await Promise.all([server.stop(), client.stop()]);
  }
}
