// #region operator
import type { Transport } from "@modelcontextprotocol/client";
import { createHttpUpstream, createMemoryHold, openResultLinks, runBridge } from "@sluice/bridge";
import { createSluice, type Caller } from "@sluice/server";
import { createMemoryStores } from "@sluice/state";
import { createHandler, type SluiceHandler } from "@sluice/transport-http";

/** A bridge to the server at `url`. `endpoint` is the public URL of `handler`, which serves the links. */
export function createLinkingBridge(url: URL, endpoint: string) {
  const hold = createMemoryHold(); // createStorageHold({ storage }) for a bucket
  const sluice = createSluice({
    storage: hold.storage,
    baseUri: hold.baseUri,
    endpoint,
    keys: "ephemeral",
    stores: createMemoryStores(),
    links: { ttlMs: 10 * 60_000 },
    principal: ({ authInfo }) =>
      authInfo && { issuer: "acme", subject: authInfo.clientId, clientId: "" },
  });
  const handler: SluiceHandler = createHandler({ sluice });

  /** One session of a host, over any transport. Links act for `caller`. */
  async function serve(host: Transport, caller: Caller): Promise<void> {
    const links = await openResultLinks({ hold, link: ({ uri }) => sluice.link(uri, { caller }) });
    const upstream = createHttpUpstream({ endpoint: url, wrapFetch: links.wrapFetch });
    await runBridge({ host, upstream: links.watch(upstream), hooks: links.hooks });
    await links.close();
  }

  return { handler, serve, close: () => hold.close() };
}
// #endregion
