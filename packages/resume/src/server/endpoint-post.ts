import { isLegacyRequest, type McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { cancelledBy, isRequest } from "@sluice/core";
import { STREAM_METHOD } from "@sluice/core/wire";
import type { ResumeParts } from "./parts.ts";
import { findMember, type SessionRequest } from "./session-request.ts";
import type { StartStream } from "./start-stream.ts";
import type { TakeAnswers } from "./take-answers.ts";

/** Answers a POST at the endpoint: calls of a session become streams, answers to our questions are taken. */
export function createEndpointPost(
  { handler, sluice, calls, reruns }: Pick<ResumeParts, "handler" | "sluice" | "calls" | "reruns">,
  startStream: StartStream,
  takeAnswers: TakeAnswers,
): (asked: SessionRequest) => Promise<Response> {
  return async (asked) => {
    const { request, sessionId, mcpOptions } = asked;
    const body = mcpOptions?.parsedBody;
    if (body === undefined || !(await isLegacyRequest(request, body)))
      return handler.fetch(request, mcpOptions);
    const told: McpHandlerRequestOptions = { ...mcpOptions, parsedBody: body };

    const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
    const others = await takeAnswers(asked, messages);
    if (others instanceof Response) return others;
    if (others.length === 0) return new Response(null, { status: 202 });
    if (others.length < messages.length) told.parsedBody = others;

    if (!isRequest(body)) {
      const response = await handler.fetch(request, told);
      for (const message of others) {
        const cancelled = cancelledBy(message);
        if (response.ok && cancelled !== undefined) await calls.end(sessionId, cancelled);
      }
      return response;
    }
    if (body.method === "initialize") {
      const response = await handler.fetch(request, told);
      const opened = response.headers.get("mcp-session-id");
      if (!reruns || opened === null || !body.params) return response;
      // an opening takes room, and the calls of a caller without a principal are not kept
      const member = await findMember(sluice, { ...asked, sessionId: opened });
      if (member) await reruns.remember(opened, body.params, member.owner);
      return response;
    }
    // its answer may be bytes: withSluice, on either side, must see the request itself
    if (sessionId === "" || body.method === STREAM_METHOD) return handler.fetch(request, told);
    return startStream(asked, body);
  };
}
