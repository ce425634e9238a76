import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";

/** Holds back a reader while the host is slow. */
export interface Flow {
  /** Resolves when more may be read; undefined when it may be at once. */
  ready(): Promise<void> | undefined;
}

/** A connection to a server. */
export interface ServerTransport extends Transport {
  /** Why it ended, such as the exit code of a process. */
  readonly endReason?: string | undefined;
}

/** The server behind a bridge: makes one transport after the other, as connections are lost. */
export interface Upstream {
  /** What messages to people call it: an origin, or the name of a program. Without secrets. */
  readonly name: string;
  /** A process has one connection for everything; over HTTP each request has its own. */
  readonly kind: "http" | "process";
  /** Makes a transport that is not started yet. It reads no more than `flow` lets it. */
  open(flow: Flow): ServerTransport | Promise<ServerTransport>;
  /** Sees each message of the server. */
  readonly learn?: (message: JSONRPCMessage) => void;
}
