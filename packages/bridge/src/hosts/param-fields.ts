import type { JSONRPCMessage, Transport, TransportSendOptions } from "@modelcontextprotocol/client";
import type { Upstream } from "../upstream/upstream.ts";

/** The same server, to which some messages go with further header fields. */
export function withParamFields(
  upstream: Upstream,
  fieldsOf: (message: JSONRPCMessage) => Readonly<Record<string, string>> | undefined,
): Upstream {
  if (upstream.kind !== "http") return upstream;
  return {
    name: upstream.name,
    kind: upstream.kind,
    learn: (message) => upstream.learn?.(message),
    open: async (flow) => {
      const transport: Transport = await upstream.open(flow);
      const send = transport.send.bind(transport);
      transport.send = (message, options: TransportSendOptions = {}) => {
        const headers = fieldsOf(message);
        return send(message, headers ? { ...options, headers } : options);
      };
      return transport;
    },
  };
}
