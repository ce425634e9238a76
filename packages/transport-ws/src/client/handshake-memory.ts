import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/client";

/** The legacy handshake of a client, to be repeated on a new connection. */
export interface HandshakeMemory {
  /** Looks at what the client sends and at what it gets. */
  sent(message: JSONRPCMessage): void;
  received(message: JSONRPCMessage): void;
  /** The handshake for a new connection. Absent if there was none, as with modern servers. */
  repeat(): HandshakeRepeat | undefined;
}

/** A handshake to be repeated. `accepts`: the server still speaks the revision that was agreed on. */
interface HandshakeRepeat {
  readonly id: string;
  readonly request: JSONRPCMessage;
  readonly confirmation: JSONRPCMessage;
  accepts(answer: JSONRPCMessage): boolean;
}

/** Makes an empty memory. */
export function createHandshakeMemory(): HandshakeMemory {
  let params: object | undefined;
  let id: RequestId | undefined;
  let version: unknown;
  let repeats = 0;

  return {
    sent(message) {
      if (!("method" in message) || !("id" in message) || message.method !== "initialize") return;
      ({ id } = message);
      params = message.params;
      version = undefined;
    },
    received(message) {
      if (id === undefined || !("result" in message) || message.id !== id) return;
      id = undefined;
      version = message.result["protocolVersion"];
    },
    repeat() {
      if (version === undefined) return undefined;
      repeats += 1;
      const repeatId = `handshake-${repeats}`;
      return {
        id: repeatId,
        request: {
          jsonrpc: "2.0",
          id: repeatId,
          method: "initialize",
          params: { ...params, protocolVersion: version },
        },
        confirmation: { jsonrpc: "2.0", method: "notifications/initialized" },
        accepts: (answer) => "result" in answer && answer.result["protocolVersion"] === version,
      };
    },
  };
}
