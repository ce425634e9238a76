import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { ContainerClient, StorageSharedKeyCredential } from "@azure/storage-blob";

/** The account that every Azurite has, with its well-known key. */
export const account = "devstoreaccount1";
export const key =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** A running emulator of Azure Blob Storage, with all of its content in memory. */
export interface Azurite extends AsyncDisposable {
  /** URL of the account, without a slash at its end. */
  readonly url: string;
  readonly account: string;
  readonly key: string;
  /** Makes a new, empty container and gives a client that goes past any backend. */
  createContainer(name?: string): Promise<ContainerClient>;
}

// Azurite ends with its parent, even when that is killed: then the pipe closes
const endWithParent = `
process.stdin.on("end", () => process.exit()).resume();
require(process.argv[1]);
`;

/** Starts Azurite on a free port of this machine. */
export async function startAzurite(): Promise<Azurite> {
  const main = createRequire(import.meta.url).resolve("azurite/dist/src/blob/main.js");
  const flags =
    "--silent --skipApiVersionCheck --inMemoryPersistence --disableTelemetry --disableProductStyleUrl";
  const child = spawn(
    process.execPath,
    ["-e", endWithParent, main, ...flags.split(" "), "--blobHost", "127.0.0.1", "--blobPort", "0"],
    // it announces its port
    { stdio: ["pipe", "pipe", "ignore"], env: { ...process.env, NODE_ENV: "production" } },
  );
  const lines = createInterface(child.stdout);
  let url: string | undefined;
  for await (const line of lines) {
    url = /listens on (\S+)/.exec(line)?.[1];
    if (url) break;
  }
  if (url === undefined) throw new Error("azurite: it ended before it listened");
  child.stdout.resume();
  for (const handle of [child, child.stdin, child.stdout]) unref(handle);
  const accountUrl = `${url}/${account}`;
  return {
    url: accountUrl,
    account,
    key,
    async createContainer(name = `c${crypto.randomUUID()}`) {
      const container = clientFor(`${accountUrl}/${name}`);
      await container.create();
      return container;
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null) return;
      child.stdin.end();
      await once(child, "exit");
    },
  };
}

/** Longest time for a test or hook that may be the first to need Azurite; a busy machine starts it slowly. */
export const startMs = 60_000;

let shared: Promise<Azurite> | undefined;

/** The one Azurite of this process. It ends with the process. */
export function sharedAzurite(): Promise<Azurite> {
  return (shared ??= startAzurite());
}

/** A client with the account's key for the container at this URL. */
export function clientFor(containerUrl: string): ContainerClient {
  return new ContainerClient(containerUrl, new StorageSharedKeyCredential(account, key));
}

/** Blobs of which there are blocks and no list of them. */
export async function countUncommitted(container: ContainerClient): Promise<number> {
  let count = 0;
  for await (const _ of container.listBlobsFlat({ includeUncommitedBlobs: true })) count += 1;
  for await (const _ of container.listBlobsFlat()) count -= 1;
  return count;
}

/** A handle that keeps no process alive; the streams of a child process are sockets, whatever their type says. */
function unref(handle: object): void {
  (handle as { unref?(): void }).unref?.();
}
