import { outgoingCall } from "../calls/stream-calls.ts";
import type { RequestingClient } from "../calls/requesting-client.ts";
import type { StreamOptions } from "../download/stream-options.ts";
import { httpExchange } from "../net/node/http-exchange.ts";
import { EXTENSION_ID } from "@sluice/core/wire";
import { streamResource, type SavableStream } from "./savable-stream.ts";

/** Options of {@link streamLink}. */
export interface LinkOptions extends StreamOptions {
  /** URL of the MCP endpoint that named the link: its origin needs no trust, and gets no credentials. */
  readonly endpoint?: URL;
}

/**
 * Opens a link as {@link streamResource} opens a resource: resumable, bounded, of the endpoint's origin or a trusted one.
 * Rejects with `untrusted` for any other, and as `streamResource` does.
 */
export function streamLink(
  link: string,
  { endpoint = nowhere, ...options }: LinkOptions = {},
): Promise<SavableStream> {
  const client: RequestingClient = {
    async request({ method, params }) {
      const outgoing = outgoingCall({ id: 0, method, params });
      if (outgoing)
        outgoing.call.answer = { exchange: httpExchange, credentials: { endpoint }, isLink: true };
      return { uri: link, downloadUrl: link, _meta: { [EXTENSION_ID]: { auth: "self" } } };
    },
  };
  return streamResource(client, link, options);
}

/** A reserved name (RFC 2606 §2): no link is of its origin. */
const nowhere = new URL("https://endpoint.invalid/");
