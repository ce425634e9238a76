import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { ProgressBar } from "@sluice/cli/internal";
import type { DeliveryMode } from "@sluice/core/internal";
import type { Errand, Fetched } from "../client-process.ts";
import type { ServerSettings } from "../server-process.ts";
import type { CuttingProxy } from "./cutting-proxy.ts";
import { digestOf } from "./digest.ts";
import type { StorageService } from "./storage-service.ts";
import { startPeer, type MemoryUse, type Peer } from "./peer.ts";

/** A file of the demo, as the server lists it and as it lies on the disk. */
export interface DemoFile {
  readonly uri: string;
  /** Path below the folder. */
  readonly key: string;
  /** Bytes. */
  readonly size: number;
  readonly sha256: string;
}

/** One way to get a file from a fresh server into a fresh client. */
export interface Trial {
  readonly way: DeliveryMode | "base64" | "websocket";
  readonly folder: string;
  /** File of the audit trail. */
  readonly trail: string;
  /** Where the file is put for as long as it takes to check it. */
  readonly downloads: string;
  /** Shows how far it is. */
  readonly bar: ProgressBar;
  /** Where the server is to redirect to. */
  readonly storage?: StorageService;
  /** A line to go over. */
  readonly proxy?: CuttingProxy;
}

/** How a trial went. */
export interface Result {
  readonly way: string;
  readonly bytes: number;
  readonly durationMs: number;
  readonly server: MemoryUse;
  readonly client: MemoryUse;
}

/** A file as a server lists it. */
export interface ListedFile {
  readonly uri: string;
  /** Path below the folder. */
  readonly key: string;
  readonly size: number;
  readonly mimeType: string;
}

const baseUri = "files://demo/";

/** The files of a folder, as a server lists them: the first page of them. */
export async function listFiles(folder: string, trail: string): Promise<ListedFile[]> {
  const server = startPeer("server-process");
  const client = startPeer("client-process");
  try {
    const { port } = await server.ask<{ port: number }>("start", {
      folder,
      trail,
      delivery: "auto",
    });
    const url = `http://127.0.0.1:${port}/mcp`;
    const resources = await client.ask<Partial<ListedFile>[]>("list", { url });
    await server.ask("closeTrail");
    return resources
      .filter(({ uri }) => uri?.startsWith(baseUri))
      .map(({ uri = "", size = 0, mimeType = "" }) => {
        return { uri, size, mimeType, key: decodeURIComponent(uri.slice(baseUri.length)) };
      });
  } finally {
    await Promise.all([server.stop(), client.stop()]);
  }
}

/** Runs a trial. Rejects unless the file came in the mode that was meant, and with the right SHA-256. */
export async function runTrial(file: DemoFile, trial: Trial): Promise<Result> {
  const { way, bar, storage } = trial;
  const path = join(trial.downloads, way);
  const server = startPeer("server-process");
  const client = startPeer("client-process", (news) => {
    const { bytes, totalBytes } = news as { bytes: number; totalBytes?: number };
    bar.update(bytes, totalBytes);
  });
  try {
    const fetched = await client.ask<Fetched>(way === "base64" ? "read" : "stream", {
      url: await startServer(server, trial),
      uri: file.uri,
      path,
      ...(storage && { trustedOrigins: [storage.origin] }),
    } satisfies Errand);
    bar.clear();
    await server.ask("closeTrail");
    const mode = way === "websocket" ? "downloadUrl" : way;
    if (fetched.mode !== mode) throw new Error(`${way}: the server answered with ${fetched.mode}`);
    if ((await digestOf(path)) !== file.sha256) throw new Error(`${way}: the SHA-256 is wrong`);
    return {
      way,
      bytes: file.size,
      durationMs: fetched.durationMs,
      server: await server.ask<MemoryUse>("memory"),
      client: await client.ask<MemoryUse>("memory"),
    };
  } finally {
    bar.clear();
    await Promise.all([server.stop(), client.stop()]);
    await rm(path, { force: true });
  }
}

/** Starts the server of a trial; gives the address for its client. */
async function startServer(server: Peer, trial: Trial): Promise<string> {
  const { way, folder, trail, storage, proxy } = trial;
  if (way === "websocket")
    return (await server.ask<{ url: string }>("startSockets", { folder, trail })).url;
  const { port } = await server.ask<{ port: number }>("start", {
    folder,
    trail,
    delivery: way === "base64" ? "auto" : way,
    ...(storage && { environment: { ...storage.environment, SLUICE_STORAGE: storage.setting } }),
    ...(proxy && { origin: proxy.origin }),
  } satisfies ServerSettings);
  if (proxy) proxy.target = port;
  return `${proxy?.origin ?? `http://127.0.0.1:${port}`}/mcp`;
}
