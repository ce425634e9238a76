// #region hosts
import { createServer, type Server } from "node:http";
import {
  localhostHostValidation,
  localhostOriginValidation,
  toNodeHandler,
  type NodeIncomingMessageLike,
} from "@modelcontextprotocol/node";
import { createHttpUpstream } from "@sluice/bridge";
import { createHttpHosts } from "@sluice/bridge/hosts";

const hostIsLocal = localhostHostValidation();
const originIsLocal = localhostOriginValidation();

/** Takes hosts of this machine, in front of the server at `url`; to be closed with all of their sessions. */
export function bridgeHosts(url: URL): { server: Server; close: () => Promise<void> } {
  const hosts = createHttpHosts({
    open: () => ({ upstream: createHttpUpstream({ endpoint: url }) }),
    onNote: (line) => console.error(line),
  });
  const { maxRequestBodySize } = hosts;
  const handle = toNodeHandler(hosts, { maxRequestBodySize });
  const server = createServer((request, response) => {
    if (hostIsLocal(request, response) && originIsLocal(request, response))
      void handle(request as NodeIncomingMessageLike & typeof request, response);
  });
  return { server, close: () => hosts.close() };
}
// #endregion
import { expect, onTestFinished, test } from "vitest";
import { askForeign } from "../../transport-http/test/foreign-requests.ts";
import { createHost } from "./bridged.ts";
import { transportTo } from "./hosting.ts";
import { listen, startLegacyPeer } from "./peers.ts";

test("hosts of both revisions reach the server behind", async () => {
  const { server, close } = bridgeHosts((await startLegacyPeer()).url);
  onTestFinished(close);
  const { url } = await listen(server);
  for (const revision of ["legacy", "modern"] as const) {
    const client = createHost(revision);
    await client.connect(transportTo({ url }));
    expect((await client.listTools()).tools.length).toBeGreaterThan(5);
    await client.close();
  }
  expect((await askForeign(String(url))).wrong).toEqual([]);
});
