import type { McpHandlerRequestOptions, McpServer } from "@modelcontextprotocol/server";
import type { Rerun } from "../stream/rerun.ts";
import { rerunCall } from "./rerun-call.ts";
import { createSessionOpenings } from "./session-openings.ts";

/** Calls that may be run again, from their start, when the process that worked on them is gone. */
export interface RerunOptions {
  /**
   * Whether this call may run twice. Allow it only where it asks the client the same in the same order, and where what it
   * did before the interruption may be done again.
   */
  readonly allows: (request: {
    readonly method: string;
    readonly params?: Readonly<Record<string, unknown>>;
  }) => boolean;
  /** A new server with the same tools, not connected, for the caller that picked the stream up. */
  readonly server: (
    options: Pick<McpHandlerRequestOptions, "authInfo">,
  ) => McpServer | Promise<McpServer>;
}

/** Lets `withResume` run calls again after a restart: the value of its option `rerun`. */
export function rerunCalls({ allows, server }: RerunOptions): Rerun {
  return {
    open({ state, onError }) {
      const openings = createSessionOpenings(state, onError);
      return {
        remember: (sessionId, initialize, owner) => openings.remember(sessionId, initialize, owner),
        forget: (sessionId) => openings.forget(sessionId),
        async recordOf(sessionId, call) {
          const initialize = allows(call) ? await openings.of(sessionId) : undefined;
          return initialize && { call, initialize };
        },
        async start(interrupted) {
          const { authInfo } = interrupted;
          return rerunCall(interrupted, await server(authInfo ? { authInfo } : {}), onError);
        },
      };
    },
  };
}
