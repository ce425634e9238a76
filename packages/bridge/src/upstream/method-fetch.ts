import type { FetchLike } from "@sluice/core";
import { createIdEventFiller, isEventStream } from "@sluice/core/internal";
import { speaksOfSession } from "./response-status.ts";
import { resumeAnswer } from "./resume-answer.ts";

/** How long `server/discover` may stay unanswered, in milliseconds, without a sign-in. Then `initialize` is next. */
const discoverMs = 5_000;

/**
 * The `fetch` of one connection by Streamable HTTP, which reads a status by the method of its request.
 *
 * - Until a stream has been open, any response to a GET but a stream says that the server has none. Only a 405 does so for the
 *   SDK.
 * - A session id that a proxy gives twice, which `Headers` join by a comma, is one.
 * - A 401 that speaks of the session, and asks for no token, becomes the 404 that MCP has for an unknown session: signing in
 *   would not help.
 * - An event with only an id gets empty data, so that the SDK resumes after it.
 * - The rest of a response is asked for only as long as it may come.
 */
export function methodFetch(fetch: FetchLike): FetchLike {
  let wasOpen = false;
  return async (input, init = {}) => {
    const headers = new Headers(init.headers);
    const isProbe = headers.get("mcp-method") === "server/discover";
    const isResume = init.method === "GET" && headers.has("last-event-id");
    const answer = isResume
      ? await resumeAnswer(fetch, input, init)
      : await fetch(input, isProbe ? withDeadline(init) : init);
    const response = withResumePoints(withOneSession(answer));
    const { status } = response;
    if (init.method === "GET") {
      const isStream = response.ok && isEventStream(response.headers);
      wasOpen ||= isStream;
      const isRefusal = !response.ok && (wasOpen || isResume);
      return isStream || isRefusal ? response : withStatus(response, 405, null);
    }
    const mayBeOfSession = status === 401 && headers.has("mcp-session-id");
    if (!mayBeOfSession || response.headers.has("www-authenticate")) return response;
    const text = await response.text();
    return withStatus(response, speaksOfSession(text) ? 404 : status, text);
  };
}

function withOneSession(response: Response): Response {
  const [id, ...others] = response.headers.get("mcp-session-id")?.split(", ") ?? [];
  if (id === undefined || others.length === 0 || others.some((other) => other !== id))
    return response;
  const headers = new Headers(response.headers);
  headers.set("mcp-session-id", id);
  const { status, statusText, body } = response;
  return new Response(body, { status, statusText, headers });
}

function withDeadline(init: RequestInit): RequestInit {
  const late = AbortSignal.timeout(discoverMs);
  return { ...init, signal: init.signal ? AbortSignal.any([init.signal, late]) : late };
}

function withResumePoints(response: Response): Response {
  const { ok, status, statusText, headers, body } = response;
  if (!ok || !body || !isEventStream(headers)) return response;
  const fill = createIdEventFiller();
  const reader = body.getReader();
  // no pipe: after an abort it waits until what it holds is read
  const filledBody = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(fill(value));
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  return new Response(filledBody, { status, statusText, headers });
}

async function withStatus(
  response: Response,
  status: number,
  text: string | null,
): Promise<Response> {
  if (text === null) await response.body?.cancel();
  return new Response(text, { status, headers: response.headers });
}
