import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DeliveryMode } from "@sluice/core/internal";
import { inject } from "vitest";
import { moveExample } from "../bed/changed-program.ts";
import { bytesOf } from "../bed/content.ts";
import { freePort, untilAnswered } from "../bed/listen.ts";
import { createSigningStore, type SigningStore } from "../bed/signing-store.ts";
import { startSite } from "../bed/site.ts";
import { startWebSocketSite } from "../bed/websocket.ts";

/** One of our servers, with one large file of a type that no browser runs. */
export interface OurServer extends AsyncDisposable {
  readonly url: string;
  /** Bearer token of a user; absent where the server lets everyone in. */
  readonly token?: string;
  readonly uri: string;
  /** Origin of download URLs. */
  readonly downloads: string;
}

export const content: Buffer = bytesOf(300_000, "literal");
export const fileName = "big.bin";

const env = { ...process.env, NODE_OPTIONS: "" };

async function folderOf(): Promise<{ root: string; remove: () => Promise<void> }> {
  const root = await mkdtemp(join(tmpdir(), "sluice-literal-"));
  return { root, remove: () => rm(root, { recursive: true, force: true }) };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill();
  await exited;
}

/** The server of the README, as it stands there. */
export async function startReadme(): Promise<OurServer> {
  const { root, remove } = await folderOf();
  await mkdir(join(root, "files"));
  await writeFile(join(root, "files", fileName), content);
  const url = `http://127.0.0.1:${await freePort()}/mcp`;
  const path = await moveExample("e2e/examples/server.ts", url);
  const child = spawn(process.execPath, [path], { cwd: root, env, stdio: "ignore" });
  await untilAnswered(url);
  return {
    url,
    uri: `files://demo/${fileName}`,
    downloads: new URL(url).origin,
    async [Symbol.asyncDispose]() {
      await stop(child);
      await remove();
    },
  };
}

/** `apps/demo-server`, with sessions. */
export async function startDemo(delivery: DeliveryMode | "auto" = "auto"): Promise<OurServer> {
  const { root, remove } = await folderOf();
  await writeFile(join(root, fileName), content);
  const program = inject("programs")["apps/demo-server/src/server-process.ts"]!;
  const child = fork(program, { env, stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const answered = once(child, "message");
  const input = { folder: root, delivery, trail: `${root}.jsonl` };
  child.send({ question: "start", input });
  const [message] = (await answered) as [{ answer?: { port: number }; message?: string }];
  if (!message.answer) throw new Error(message.message);
  const url = `http://127.0.0.1:${message.answer.port}/mcp`;
  return {
    url,
    uri: `files://demo/${fileName}`,
    downloads: new URL(url).origin,
    async [Symbol.asyncDispose]() {
      await stop(child);
      await remove();
      await rm(`${root}.jsonl`, { force: true });
    },
  };
}

/** `sluice serve`, which also takes WebSockets at its endpoint. */
export async function startServe(token?: string): Promise<OurServer> {
  const { root, remove } = await folderOf();
  await writeFile(join(root, fileName), content);
  const program = inject("programs")["packages/cli/src/main.ts"]!;
  const args = [program, "serve", root, "--port", "0", "--no-audit", "--ws"];
  const child = spawn(process.execPath, args, {
    env: token === undefined ? env : { ...env, SLUICE_TOKEN: token },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const url = line.toString().trim();
  return {
    url,
    ...(token !== undefined && { token }),
    uri: `files://local/${fileName}`,
    downloads: new URL(url).origin,
    async [Symbol.asyncDispose]() {
      await stop(child);
      await remove();
    },
  };
}

/** A server of our parts: with or without sessions, with or without users, over storage that signs URLs. */
export async function startOwn(options: {
  readonly sessions: boolean;
  readonly users: boolean;
  readonly delivery: DeliveryMode;
}): Promise<OurServer> {
  let store: SigningStore | undefined;
  const site = await startSite({
    files: { [fileName]: content },
    sessions: options.sessions,
    ...(options.users && { accounts: { "ann-token": { subject: "ann" } } }),
    storage: async (files) => (store = await createSigningStore(files)).backend,
    sluice: () => ({ delivery: options.delivery, redirectOrigins: [store!.origin] }),
  });
  return {
    url: site.url,
    ...(options.users && { token: "ann-token" }),
    uri: `files://site/${fileName}`,
    downloads: site.origin,
    async [Symbol.asyncDispose]() {
      await site[Symbol.asyncDispose]();
      await store?.close();
    },
  };
}

/** Messages over WebSocket, downloads on another port. */
export async function startSocket(): Promise<OurServer> {
  const site = await startWebSocketSite({ files: { [fileName]: content } });
  return {
    url: site.url,
    token: "ann",
    uri: `files://site/${fileName}`,
    downloads: site.downloads,
    [Symbol.asyncDispose]: () => site[Symbol.asyncDispose](),
  };
}
