import { McpServer } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import { createSluice, type AnyCall, type Sluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { serve } from "@sluice/transport-http/node";
import { expect, test } from "vitest";
import { connect, type SdkName } from "../bed/clients.ts";
import { freePort } from "../bed/listen.ts";
import { authenticate, openOwnSite, principal, type KindName } from "../bed/own-transports.ts";

const base = "files://own/";

/** Notes who the caller of a tool is, and whom storage was asked for in the same call. */
class Notes {
  readonly told: (Principal | undefined)[] = [];
  readonly got: (Principal | undefined)[] = [];
  readonly #files = createMemoryBackend({ "a.txt": "hello" });

  readonly storage = (user: Principal | undefined) => {
    this.got.push(user);
    return this.#files;
  };

  async take(sluice: Sluice, call: AnyCall): Promise<{ content: [] }> {
    this.told.push(await sluice.principal(call));
    this.got.length = 0;
    await sluice.resourceLink(`${base}a.txt`, call);
    return { content: [] };
  }
}

/** The server of `serve`, whose clients choose between sessions and none. */
async function openServed(notes: Notes) {
  const endpoint = `http://127.0.0.1:${await freePort()}/mcp`;
  const { storage } = notes;
  const sluice = createSluice({ storage, baseUri: base, endpoint, principal });
  const create = () => {
    const mcp = new McpServer({ name: "own", version: "1.0.0" });
    mcp.registerTool("who", {}, (ctx) => notes.take(sluice, { mcp, ctx }));
    return sluice.attach(mcp);
  };
  const serving = await serve(sluice, create, { authenticate });
  const dispose = async (): Promise<void> => void (await serving.close({ deadlineMs: 0 }));
  return { url: serving.url, [Symbol.asyncDispose]: dispose };
}

/** A server over the transports of an SDK, in an app of its author. */
function openOwn(notes: Notes, kind: KindName, isStateless: boolean) {
  const sluice = { storage: notes.storage, principal };
  return openOwnSite({
    kind,
    isStateless,
    sluice,
    node: { authenticate },
    register: (mcp, own) =>
      mcp.registerTool("who", {}, (extra) => notes.take(own, { mcp, ctx: extra })),
  });
}

type Open = (notes: Notes) => Promise<AsyncDisposable & { readonly url: string }>;

test.each<[string, SdkName, boolean, Open]>([
  ["a session of serve", "SDK v2, legacy", true, openServed],
  ["a session of serve with a client of SDK v1", "SDK v1", true, openServed],
  ["a request without a session", "SDK v2, modern", false, openServed],
  ...(["McpServer of SDK v1", "McpServer of SDK v2"] as const).flatMap(
    (kind): [string, SdkName, boolean, Open][] => [
      [`a session of a ${kind}`, "SDK v1", true, (notes) => openOwn(notes, kind, false)],
      [`a stateless ${kind}`, "SDK v1", false, (notes) => openOwn(notes, kind, true)],
    ],
  ),
])("sluice.principal in %s has the values that storage gets", async (_, sdk, hasSession, open) => {
  const notes = new Notes();
  await using site = await open(notes);
  const client = await connect(sdk, site.url, { token: "alice" });
  const result = await client.callTool({ name: "who", arguments: {} });
  await client.close();
  expect(result.content).toEqual([]);
  expect(notes.told).toMatchObject([{ issuer: "own", subject: "alice" }]);
  expect(typeof notes.told[0]!.sessionId).toBe(hasSession ? "string" : "undefined");
  expect(notes.got.at(-1)).toStrictEqual(notes.told[0]);
});
