import type { JSONRPCMessage, JSONRPCRequest, JSONRPCResponse } from "@modelcontextprotocol/client";
import type { ServerConnection, ServerLink } from "../upstream/server-link.ts";
import type { HostLink } from "./host-link.ts";
import type { BridgeLimits } from "../messages/limits.ts";
import type { Answer, Members } from "../messages/messages.ts";

/** What a session works with. */
export interface SessionParts {
  readonly link: ServerLink;
  readonly host: HostLink;
  readonly limits: BridgeLimits;
  /** Gives a response to the host, as the hooks leave it. */
  readonly answerHost: (response: JSONRPCResponse) => void;
  /** The hooks' answer to a request of the server, if they have one. */
  readonly answerServer: (request: JSONRPCRequest) => Promise<Answer | undefined>;
}

/** The messages between a host and a server whose revisions are known. */
export interface Session {
  /** Resolves when the next message may be passed. */
  fromHost(message: JSONRPCMessage): Promise<void> | void;
  fromServer(message: JSONRPCMessage): void;
  lost(reason: string): void;
  /** Brings a new connection to the state of the old one. */
  restore(connection: ServerConnection): Promise<void>;
  /** Calls the server in the name of the bridge. */
  call(method: string, params: Members, signal?: AbortSignal): Promise<Answer>;
  /** What the host said that it can do. */
  readonly hostCapabilities: Members;
}
