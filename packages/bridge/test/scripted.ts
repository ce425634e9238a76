import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { createProcessUpstream, type ProcessOptions, type Upstream } from "@sluice/bridge";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/** A server that is a line of JavaScript a message: `on(message)` sees each, `say(object)` answers. */
export function scripted(on: string, options: Partial<ProcessOptions> = {}): Upstream {
  const source = `
    const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
    const answer = (id, result) => say({ id, result });
    const start = ({ id, params }) => answer(id, {
      protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "scripted", version: "1" },
    });
    const lines = require("node:readline").createInterface({ input: process.stdin });
    lines.on("line", (line) => { const message = JSON.parse(line); (${on})(message); });`;
  return createProcessUpstream({ command: process.execPath, args: ["-e", source], ...options });
}

/** What a server in this process can do with a message. */
export interface Script {
  readonly say: (message: object) => void;
  readonly answer: (id: unknown, result: object) => void;
  /** Answers `initialize`. */
  readonly start: (message: ScriptedMessage) => void;
}

// oxlint-disable-next-line typescript/no-explicit-any
export type ScriptedMessage = Record<string, any>;

/** The same without a process: each connection is a server of its own. */
export function scriptedHere(on: (message: ScriptedMessage, script: Script) => void): Upstream {
  return {
    name: "scripted",
    kind: "process",
    async open(): Promise<Transport> {
      const script: Script = {
        // as a line does, it comes later
        say: (message) =>
          void setImmediate(() =>
            transport.onmessage?.({ jsonrpc: "2.0", ...message } as JSONRPCMessage),
          ),
        answer: (id, result) => script.say({ id, result }),
        start: ({ id, params }) =>
          script.answer(id, {
            protocolVersion: params.protocolVersion,
            capabilities: { tools: {} },
            serverInfo: { name: "scripted", version: "1" },
          }),
      };
      const transport: Transport = {
        async start() {},
        send: async (message) => on(message, script),
        close: async () => transport.onclose?.(),
      };
      return transport;
    },
  };
}
