import { createMcpHandler } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler, type NodeHandler } from "@sluice/transport-http/node";
import { createReferenceServer } from "./reference-server.ts";

/** The reference server with Sluice on it, for an endpoint at `url`. */
export function createAttachedHandler(url: string): NodeHandler {
  const storage = createMemoryBackend();
  storage.put("streamed.bin", new Uint8Array(1_000));
  const sluice = createSluice({
    storage,
    baseUri: "files://conformance/",
    endpoint: url,
    keys: [generateKey()],
  });
  return toNodeHandler(
    withSluice(
      createMcpHandler(() => sluice.attach(createReferenceServer())),
      sluice,
    ),
  );
}
