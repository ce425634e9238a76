import { fetchExchange } from "../net/fetch-exchange.ts";
import type { HopExchange } from "../net/exchange.ts";
import { outgoingCall } from "./stream-calls.ts";

/** The HTTP side of a server that speaks JSON-RPC another way. */
export interface DownloadSide {
  /**
   * Its origin, from your configuration and never from the server: download URLs of this origin are fetched, with the
   * credentials if they are bound to them.
   */
  readonly origin: URL;
  /** `Authorization` for bound downloads. */
  readonly authorization?: string;
  /** IP address of the server, if known: downloads lead nowhere more private than that. */
  readonly address?: string;
}

/** The part of an SDK's transport that is needed. */
export interface SendingTransport {
  // the SDKs agree on the method and differ in its types
  // oxlint-disable-next-line typescript/no-explicit-any
  send(message: any, options?: any): Promise<void>;
}

/**
 * Makes {@link streamResource} work over a transport that is not HTTP, as `createStreaming`
 * does over one that is: the server answers with a download URL, and `side` tells which origin
 * may be asked for it. It is called for each call. Changes `send` of the transport and gives it back.
 */
export function withDownloads<Sending extends SendingTransport>(
  transport: Sending,
  side: () => DownloadSide | Promise<DownloadSide>,
): Sending {
  return interceptSend(transport, side, fetchExchange);
}

/** The same with any exchange for the downloads. */
export function interceptSend<Sending extends SendingTransport>(
  transport: Sending,
  side: () => DownloadSide | Promise<DownloadSide>,
  exchange: HopExchange,
): Sending {
  const send = transport.send.bind(transport);
  transport.send = async (message, options) => {
    const outgoing = outgoingCall(message);
    if (!outgoing) return send(message, options);
    const { origin, authorization, address } = await side();
    outgoing.call.answer = {
      exchange,
      credentials: { endpoint: origin, authorization },
      address,
    };
    return send(outgoing.message, options);
  };
  return transport;
}
