import { createServer } from "node:http";
import { toNodeHandler, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createHttpUpstream } from "@sluice/bridge";
import { createHttpHosts, type HostSession, type HttpHostsOptions } from "@sluice/bridge/hosts";
import { onTestFinished } from "vitest";
import type { AtEnd } from "./bridged.ts";
import { listen } from "./peers.ts";

/** A bridge that hosts reach at `url`, until the test ends, or until `atEnd` says. */
export interface Hosting {
  readonly url: URL;
  readonly notes: string[];
  /** Sessions that were opened, and what of them was closed. */
  readonly opened: HostSession[];
  readonly closed: string[];
  close(): Promise<void>;
}

/** Serves hosts in front of what `open` gives. */
export async function startHosts(
  open: HttpHostsOptions["open"],
  options: Partial<HttpHostsOptions> = {},
  atEnd: AtEnd = onTestFinished,
): Promise<Hosting> {
  const notes: string[] = [];
  const opened: HostSession[] = [];
  const closed: string[] = [];
  const hosts = createHttpHosts({
    open: async (session) => {
      opened.push(session);
      return { ...(await open(session)), close: () => void closed.push(session.id) };
    },
    onNote: (line) => void notes.push(line),
    ...options,
  });
  const handle = toNodeHandler(hosts, { maxRequestBodySize: 32 * 2 ** 20 });
  const { url } = await listen(
    createServer(
      (request, response) =>
        void handle(request as NodeIncomingMessageLike & typeof request, response),
    ),
    0,
    atEnd,
  );
  atEnd(() => hosts.close());
  return { url, notes, opened, closed, close: () => hosts.close() };
}

/** Serves hosts in front of the server at `url`. */
export function startHostsTo(
  url: URL,
  options: Partial<HttpHostsOptions> = {},
  atEnd?: AtEnd,
): Promise<Hosting> {
  return startHosts(() => ({ upstream: createHttpUpstream({ endpoint: url }) }), options, atEnd);
}

/** A transport of SDK v2 to a bridge. */
export function transportTo(
  { url }: Pick<Hosting, "url">,
  headers: Record<string, string> = {},
): StreamableHTTPClientTransport {
  return new StreamableHTTPClientTransport(url, { requestInit: { headers } });
}
