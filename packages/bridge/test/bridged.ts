import {
  Client,
  InMemoryTransport,
  type JSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/client";
import { createHttpUpstream, runBridge, type BridgeOptions } from "@sluice/bridge";
import { onTestFinished } from "vitest";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/** A running bridge and the end that a host holds. */
export interface Bridged {
  readonly transport: Transport;
  readonly notes: string[];
  /** Settles as the bridge ends. */
  readonly ended: Promise<void>;
}

/** Runs what ends a helper: after the test, or after all tests of a file. */
export type AtEnd = (end: () => void | Promise<void>) => void;

/** Runs a bridge in this process until the test ends, or until `atEnd` says. */
export function bridged(
  options: Omit<BridgeOptions, "host">,
  atEnd: AtEnd = onTestFinished,
): Bridged {
  const [host, transport] = InMemoryTransport.createLinkedPair();
  const notes: string[] = [];
  const ended = runBridge({ host, onNote: (line) => void notes.push(line), ...options });
  ended.catch(() => {});
  atEnd(async () => {
    await transport.close();
    await ended.catch(() => {});
  });
  return { transport, notes, ended };
}

/** A bridge to a server at `url`. */
export function bridgedTo(url: URL, options: Partial<BridgeOptions> = {}, atEnd?: AtEnd): Bridged {
  return bridged({ upstream: createHttpUpstream({ endpoint: url }), ...options }, atEnd);
}

const info = { name: "host", version: "1.0.0" };

/** A client of SDK v2 that answers every question. */
export function createHost(revision: "legacy" | "modern", root = "file:///home"): Client {
  const client = new Client(info, {
    capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
    ...(revision === "modern" ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {}),
  });
  client.setRequestHandler("elicitation/create", () => ({
    action: "accept",
    content: { name: "Ada" },
  }));
  client.setRequestHandler("sampling/createMessage", () => ({
    model: "m",
    role: "assistant",
    content: { type: "text", text: "sampled" },
  }));
  client.setRequestHandler("roots/list", () => ({ roots: [{ uri: root }] }));
  return client;
}

/** Everything that a raw end gets. */
export async function rawHost(transport: Transport): Promise<{
  readonly got: JSONRPCMessage[];
  send(message: object): Promise<void>;
}> {
  const got: JSONRPCMessage[] = [];
  transport.onmessage = (message) => void got.push(message);
  await transport.start();
  return {
    got,
    send: (message) => transport.send({ jsonrpc: "2.0", ...message } as JSONRPCMessage),
  };
}
