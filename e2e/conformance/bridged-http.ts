import { createHttpUpstream } from "@sluice/bridge";
import { createHttpHosts } from "@sluice/bridge/hosts";
import { toNodeHandler, type NodeHandler } from "@sluice/transport-http/node";

/** Serves the server at `url` over HTTP again, as `sluice bridge --http` does. */
export function createHttpBridgedHandler(url: URL): NodeHandler {
  return toNodeHandler(
    createHttpHosts({ open: () => ({ upstream: createHttpUpstream({ endpoint: url }) }) }),
  );
}
