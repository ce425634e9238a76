import {
  createMcpHandler,
  isJsonContentType,
  isJSONRPCRequest,
  METHOD_NOT_FOUND,
  Server,
  type RequestId,
  type Transport,
} from "@modelcontextprotocol/server";
import { toNodeHandler, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { createHttpUpstream, openFileTools, runBridge } from "@sluice/bridge";
import type { NodeHandler } from "@sluice/transport-http/node";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/**
 * Serves the server at `url` over HTTP again, each request through a bridge of its own. With a folder, the bridge saves
 * to it, sends from it and spools.
 */
export function createBridgedHandler(url: URL, folder?: string): NodeHandler {
  const handler = createMcpHandler(() => new BridgedServer(url, folder));
  const handle = toNodeHandler({
    ...handler,
    fetch: async (...request) => withStatus(await handler.fetch(...request)),
  });
  return (request, response) =>
    void handle(request as NodeIncomingMessageLike & typeof request, response);
}

/** The SDK in front knows the status of an error only where its own dispatch makes it at once. */
async function withStatus(response: Response): Promise<Response> {
  if (!isJsonContentType(response.headers.get("content-type"))) return response;
  const body = (await response.json()) as { error?: { code?: number } };
  const status = body.error?.code === METHOD_NOT_FOUND ? 404 : response.status;
  return Response.json(body, { status });
}

/** Has no handlers: what comes goes to a bridge, which the suite's scenarios then talk to. */
class BridgedServer extends Server {
  readonly #url: URL;
  readonly #folder: string | undefined;

  constructor(url: URL, folder: string | undefined) {
    super({ name: "bridged", version: "1.0.0" }, { capabilities: bridgedCapabilities });
    this.#url = url;
    this.#folder = folder;
  }

  override async connect(transport: Transport): Promise<void> {
    const url = this.#url;
    const folder = this.#folder;
    const tools =
      folder === undefined
        ? undefined
        : await openFileTools({
            server: { kind: "http", name: url.origin, url },
            saveTo: folder,
            sendFrom: [folder],
          });
    const upstream = createHttpUpstream({ endpoint: url, wrapFetch: tools?.wrapFetch });
    runBridge({
      host: relatedTo(transport),
      upstream: tools?.watch(upstream) ?? upstream,
      hooks: tools?.hooks,
    })
      .catch(() => {})
      .finally(() => {
        void tools?.close();
        this.onclose?.();
      });
  }
}

/** Streams of change are served by the SDK in front, which must know what they may carry. */
const bridgedCapabilities = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  prompts: { listChanged: true },
};

/** The transport of one request: all that is sent belongs to it. */
function relatedTo(inner: Transport): Transport {
  let related: RequestId | undefined;
  const transport: Transport = {
    start: async () => {
      inner.onmessage = (message) => {
        if (isJSONRPCRequest(message)) related = message.id;
        transport.onmessage?.(message);
      };
      inner.onclose = () => transport.onclose?.();
      inner.onerror = (error) => transport.onerror?.(error);
      await inner.start();
    },
    send: (message) =>
      inner.send(message, related === undefined ? {} : { relatedRequestId: related }),
    close: () => inner.close(),
  };
  return transport;
}
