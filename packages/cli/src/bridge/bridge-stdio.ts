import { homedir } from "node:os";
import { join } from "node:path";
import {
  bridgeStateFolder,
  createStdioHost,
  openFileTools,
  runBridge,
  type FileTools,
} from "@sluice/bridge";
import { ensureTrust } from "../server-calls/connect.ts";
import { headersFrom } from "../server-calls/headers.ts";
import { useNetwork } from "../server-calls/server-rules.ts";
import { showPage } from "../server-calls/sign-in.ts";
import { ensureFolder, prepareFolder } from "../storages/prepare-folder.ts";
import { note, printable } from "../terminal/print.ts";
import type { BridgeCommandOptions } from "./bridge-options.ts";
import { openBehind, type ServerBehind } from "./bridged-server.ts";

/**
 * Passes messages between the host at stdin and stdout and a server, until the host closes its input. With folders, the
 * host has tools that move files between them and the server.
 */
export async function bridgeStdio(
  server: ServerBehind,
  options: BridgeCommandOptions,
): Promise<void> {
  ensureTrust(options.trust);
  const { browser, token, serverToken, signal } = options;
  await useNetwork(server.url, options);
  const headers = headersFrom(options.header ?? []);
  const tools = await toolsFor(server, options);
  const signIn = {
    folder: bridgeStateFolder(),
    openBrowser: showPage,
    trustedOrigins: options.trust,
    signal,
  };
  const hasOwn = Object.keys(headers).some((name) => name.toLowerCase() === "authorization");
  const access = {
    headers,
    token: serverToken ?? token,
    signIn: browser && !hasOwn ? signIn : undefined,
  };
  const upstream = openBehind(server, access, tools);
  try {
    await runBridge({
      host: createStdioHost(),
      upstream: tools?.watch(upstream) ?? upstream,
      hooks: tools?.hooks,
      signal,
      onNote: (line) => note(`sluice: ${printable(line)}`),
    });
  } finally {
    await tools?.close();
  }
}

/** Without a folder there is nothing to move files to or from. */
async function toolsFor(
  server: ServerBehind,
  options: BridgeCommandOptions,
): Promise<FileTools | undefined> {
  const { saveTo, sendFrom, inline, spool, maxSave, maxTotal, forgetSaved } = options;
  const { trust, maxStep, yesBelow } = options;
  if (saveTo === undefined && sendFrom === undefined) return undefined;
  const folder = saveTo === undefined ? undefined : fromHome(saveTo);
  const sources = sendFrom?.map(fromHome);
  for (const source of sources ?? []) await ensureFolder(source, "--send-from");
  if (folder !== undefined) await prepareFolder(folder, 0o777, "--save-to");
  const { kind, name, url } = server;
  return openFileTools({
    server: { kind, name, url },
    saveTo: folder,
    sendFrom: sources,
    spool,
    inlineBytes: inline,
    maxSaveBytes: maxSave,
    maxTotalBytes: maxTotal,
    maxSavedAgeMs: forgetSaved === undefined ? undefined : forgetSaved * dayMs,
    stateFolder: bridgeStateFolder(),
    trustedOrigins: trust,
    maxStepBytes: maxStep,
    agreedBytes: yesBelow,
  });
}

const dayMs = 86_400_000;

/** No shell has read a path in a host's configuration. */
function fromHome(path: string): string {
  return path === "~" || path.startsWith("~/") ? join(homedir(), path.slice(1)) : path;
}
