import type { Sluice } from "@sluice/server";
import type { EndpointOptions, McpFetchHandler } from "@sluice/transport-http";
import type { CloseResumeOptions, ResumeHandler, WithResumeOptions } from "./options.ts";
import { withResume } from "./with-resume.ts";

/** Resumable streams as a part of `composeHandler`. */
export interface Resume {
  /** Called by `composeHandler`. The options given to `createResume` come before those of the endpoint. */
  wrap(mcp: McpFetchHandler, sluice: Sluice, endpoint: EndpointOptions): ResumeHandler;
  /** Closes the handlers that were made with it, as {@link ResumeHandler} says. */
  close(options?: CloseResumeOptions): Promise<void>;
}

/**
 * Lets clients pick up streams of events (SEP-1335): the part `resume` of `composeHandler`, which does what
 * {@link withResume} does.
 */
export function createResume(options: WithResumeOptions): Resume {
  const handlers: ResumeHandler[] = [];
  return {
    wrap(mcp, sluice, endpoint) {
      const handler = withResume(mcp, sluice, { ...endpoint, ...options });
      handlers.push(handler);
      return handler;
    },
    async close(closing) {
      await Promise.all(handlers.map((handler) => handler.close(closing)));
    },
  };
}
