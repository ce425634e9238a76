import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { RevisionKind } from "@sluice/core/internal";
import type { Showing, Shown } from "../client-process.ts";
import type { ServerSettings } from "../server-process.ts";
import { digestOf } from "./digest.ts";
import { paintPicture } from "./paint-picture.ts";
import { startPeer } from "./peer.ts";

/** A picture of the demo. */
export interface Picture {
  readonly path: string;
  readonly bytes: number;
  readonly width: number;
  readonly height: number;
}

/** How a tool that asked for it went. */
export interface PictureResult {
  readonly era: RevisionKind;
  readonly durationMs: number;
}

/** Paints a picture into a folder. */
export async function createPicture(folder: string): Promise<Picture> {
  const [width, height] = [5_120, 3_840];
  const bytes = paintPicture(width, height);
  const path = join(folder, "picture.png");
  await writeFile(path, bytes);
  return { path, width, height, bytes: bytes.length };
}

/** Calls the tool in both eras. Rejects unless it tells the picture's own dimensions and SHA-256. */
export async function runPictureTrials(
  picture: Picture,
  { folder, trail }: Pick<ServerSettings, "folder" | "trail">,
): Promise<PictureResult[]> {
  const server = startPeer("server-process");
  const client = startPeer("client-process");
  const results: PictureResult[] = [];
  try {
    const received = join(folder, "received");
    await mkdir(received);
    const settings = { folder, received, trail, delivery: "auto" } satisfies ServerSettings;
    const { port } = await server.ask<{ port: number }>("start", settings);
    const url = `http://127.0.0.1:${port}/mcp`;
    for (const era of ["legacy", "modern"] as const) {
      const showing = { url, era, path: picture.path } satisfies Showing;
      const { facts, durationMs } = await client.ask<Shown>("showPicture", showing);
      const isRight = facts.width === picture.width && facts.height === picture.height;
      if (!isRight || facts.sha256 !== (await digestOf(picture.path)))
        throw new Error(`${era}: the tool was told of another picture`);
      results.push({ era, durationMs });
    }
    await server.ask("closeTrail");
    return results;
  } finally {
    await Promise.all([server.stop(), client.stop()]);
  }
}
