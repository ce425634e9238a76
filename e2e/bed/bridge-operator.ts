import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { Client, Transport } from "@modelcontextprotocol/client";
import {
  createHttpUpstream,
  createMemoryHold,
  createProcessUpstream,
  openResultLinks,
  runBridge,
  type ResultHold,
  type ResultLinksOptions,
  type Upstream,
} from "@sluice/bridge";
import type { Principal } from "@sluice/core";
import { createSluice, type Sluice } from "@sluice/server";
import { createMemoryStores } from "@sluice/state";
import { createHandler } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { onTestFinished } from "vitest";
import { createHost } from "../../packages/bridge/test/bridged.ts";
import type { Behind } from "../../packages/bridge/test/filing.ts";

/** An operator's bridge: a hold, and a Sluice that serves its links over HTTP. */
export interface Operator {
  readonly hold: ResultHold;
  readonly sluice: Sluice;
  /** Runs a bridge for one session of a caller. Resolves when it has ended. */
  readonly run: (session: LinkSession) => Promise<void>;
}

/** One host's session. */
export interface LinkSession {
  readonly transport: Transport;
  readonly behind: Behind | Upstream;
  /** Subject of the caller. */
  readonly caller?: string;
  readonly options?: Partial<ResultLinksOptions>;
}

export async function openOperator(hold: ResultHold = createMemoryHold()): Promise<Operator> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const sluice = createSluice({
    storage: hold.storage,
    baseUri: hold.baseUri,
    endpoint,
    keys: "ephemeral",
    stores: createMemoryStores(),
    links: {},
    principal: ({ authInfo }): Principal | undefined =>
      authInfo && { issuer: "test", subject: authInfo.clientId, clientId: "" },
    onWarning() {},
  });
  server.on("request", toNodeHandler(createHandler({ sluice })));
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await hold.close();
  });
  return { hold, sluice, run: (session) => runSession(session, { hold, sluice }) };
}

async function runSession(
  { transport, behind, caller = "ada", options = {} }: LinkSession,
  { hold, sluice }: Omit<Operator, "run">,
): Promise<void> {
  const authInfo = { token: "t", clientId: caller, scopes: [] };
  const links = await openResultLinks({
    hold,
    link: ({ uri }) => sluice.link(uri, { caller: { authInfo, header: () => undefined } }),
    ...options,
  });
  const upstream =
    behind instanceof URL
      ? createHttpUpstream({ endpoint: behind, wrapFetch: links.wrapFetch })
      : "command" in behind
        ? createProcessUpstream({ ...behind, wrapOutput: links.wrapOutput, exitMs: 500 })
        : behind;
  const running = runBridge({
    host: transport,
    upstream: links.watch(upstream),
    hooks: links.hooks,
  });
  await running.catch(() => {});
  await links.close();
}

/** A host of SDK v2 behind a session in memory. */
export async function linkedHost(
  operator: Operator,
  behind: Behind,
  session: Partial<LinkSession> = {},
  host: Client | "legacy" | "modern" = "legacy",
): Promise<Client> {
  const { InMemoryTransport } = await import("@modelcontextprotocol/client");
  const [inner, transport] = InMemoryTransport.createLinkedPair();
  const bridge = operator.run({ transport: inner, behind, ...session });
  const client = typeof host === "string" ? createHost(host) : host;
  await client.connect(transport);
  onTestFinished(async () => {
    await client.close();
    // a program behind the bridge ends some time after its host
    await bridge;
  });
  return client;
}

/** The first URL of words. */
export function urlIn(words: string): string {
  const [url] = /https?:\/\/\S+/.exec(words) ?? [];
  if (url === undefined) throw new Error(`no URL in ${words}`);
  return url;
}
