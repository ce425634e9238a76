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
import { createHttpUpstream, runBridge } from "@sluice/bridge";
import type { NodeHandler } from "@sluice/transport-http/node";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/** Serves the server at `url` over HTTP again, each request through a bridge of its own. */
export function createBridgedHandler(url: URL): NodeHandler {
  const handler = createMcpHandler(() => new BridgedServer(url));
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

  constructor(url: URL) {
    super({ name: "bridged", version: "1.0.0" }, { capabilities: bridgedCapabilities });
    this.#url = url;
  }

  override async connect(transport: Transport): Promise<void> {
    const upstream = createHttpUpstream({ url: this.#url });
    runBridge({ host: relatedTo(transport), upstream })
      .catch(() => {})
      .finally(() => this.onclose?.());
    await Promise.resolve();
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
