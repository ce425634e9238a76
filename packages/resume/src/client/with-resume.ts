import { type FetchLike, SluiceError } from "@sluice/core";
import {
  backgroundClock,
  cancelledBy,
  isEventStream,
  isRequest,
  isResponse,
  keyOf,
  onAbort,
  readJson,
} from "@sluice/core/internal";
import { isStateless } from "../protocol/revision.ts";
import { streamLinkOf } from "../protocol/stream-link.ts";
import { EventFlow } from "./event-flow.ts";
import { LinkRequest } from "./link-request.ts";
import { readResumeOptions, type ResumableFetchOptions } from "./options.ts";

interface FollowedAnswer {
  readonly flow: EventFlow;
  readonly link: LinkRequest;
  readonly session: string;
  /** Key of the request; `undefined` for a response that was picked up by the id of an event. */
  readonly request: string | undefined;
}

/**
 * A fetch for the `fetch` option of an SDK's HTTP transport, version 1 or 2, towards servers that let clients
 * pick up streams of events (SEP-1335, sessions of MCP 2025-11-25 and older). The SDK sees one uninterrupted
 * answer to each request, however often the connection breaks or the server ends it; responses of the SDK to
 * requests of the server are kept until it is the client's turn. Answers without a link, and every other
 * request, go through as they are.
 */
export function withResumableFetch(
  fetch: FetchLike = globalThis.fetch,
  options: ResumableFetchOptions = {},
): FetchLike {
  const limits = readResumeOptions(options);
  const answers = new Set<FollowedAnswer>();

  /** Begins to follow a response that has a link. */
  function follow(response: Response, asked: OutgoingRequest): Response {
    const { url, headers, signal, message } = asked;
    const isStream = response.status === 200 && isEventStream(response.headers);
    const target = isStream ? streamLinkOf(response.headers, url) : undefined;
    if (!target || !response.body) return response;
    const controller = new AbortController();
    const requestId = isRequest(message) ? message.id : undefined;
    const fail = (error: SluiceError): void => controller.abort(error);
    const link = new LinkRequest({
      fetch,
      url,
      headers,
      link: target,
      headersMs: limits.headersMs,
      signal: controller.signal,
      fail,
    });
    const first = response.body;
    const flow = new EventFlow({ first, link, requestId, limits, signal: controller.signal });
    const followed = {
      flow,
      link,
      session: asked.session,
      request: requestId === undefined ? undefined : keyOf(requestId),
    };
    const removeListener = onAbort(signal, (reason) => controller.abort(reason));
    const cancelTimer = backgroundClock.schedule(
      () => fail(new SluiceError("timeout", "client: the request took longer than agreed")),
      limits.totalMs,
    );
    answers.add(followed);
    const end = (): void => {
      cancelTimer();
      removeListener();
      answers.delete(followed);
      controller.abort();
    };
    const keptHeaders = new Headers(response.headers);
    for (const name of ["link", "content-length", "content-encoding"]) keptHeaders.delete(name);
    return new Response(bodyOf(flow, { requestId, end }), { status: 200, headers: keptHeaders });
  }

  function find(session: string, id: unknown): FollowedAnswer | undefined {
    for (const followed of answers)
      if (followed.session === session && followed.flow.expects(id)) return followed;
    return undefined;
  }

  function cancel(session: string, request: string): void {
    for (const followed of answers)
      if (followed.session === session && followed.request === request)
        followed.link.fail(new SluiceError("interrupted", "client: the request was cancelled"));
  }

  return async (input, init) => {
    const call = readRequest(input, init);
    const { headers, message, session } = call;
    if (isStateless(headers.get("mcp-protocol-version"))) {
      if (headers.has("last-event-id"))
        throw new SluiceError(
          "unsupported",
          "client: streams resume only in MCP 2025-11-25 and older; with this server send the request again, answer input_required results, and receive changes through subscriptions/listen",
        );
      return fetch(input, init);
    }
    for (const followed of answers)
      if (followed.session === session)
        followed.link.renew(headers.get("authorization") ?? undefined);
    if (isResponse(message)) {
      const followed = find(session, message.id);
      if (!followed) return fetch(input, init);
      followed.flow.answer(message, init?.body as string);
      return new Response(undefined, { status: 202 });
    }
    const cancelled = cancelledBy(message);
    if (cancelled !== undefined) cancel(session, keyOf(cancelled));
    return follow(await fetch(input, init), call);
  };
}

interface OutgoingRequest {
  readonly url: URL;
  readonly headers: Headers;
  /** Names the session, and the server that it is with: any server may choose any id. */
  readonly session: string;
  readonly signal: AbortSignal | undefined;
  readonly message: unknown;
}

function readRequest(input: string | URL, init: RequestInit | undefined): OutgoingRequest {
  const headers = new Headers(init?.headers);
  const url = new URL(input);
  return {
    url,
    headers,
    session: `${url.href} ${headers.get("mcp-session-id") ?? ""}`,
    signal: init?.signal ?? undefined,
    message:
      init?.method === "POST" && typeof init.body === "string"
        ? readJson(init.body).value
        : undefined,
  };
}

/**
 * The flow as a body. An error that ends it early becomes the response to the request, which both SDKs give to the caller
 * at once; after a broken body one of them waits for its timeout.
 */
function bodyOf(
  flow: EventFlow,
  { requestId, end }: { readonly requestId: unknown; readonly end: () => void },
): ReadableStream<Uint8Array> {
  const events = flow.follow();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await events.next();
        if (!done) return controller.enqueue(encoder.encode(value));
        end();
        controller.close();
      } catch (error) {
        end();
        if (!SluiceError.is(error) || requestId === undefined) return controller.error(error);
        const { code, message } = error;
        const failure = { code: CONNECTION_CLOSED, message, data: { reason: code } };
        const answer = JSON.stringify({ jsonrpc: "2.0", id: requestId, error: failure });
        controller.enqueue(encoder.encode(`data: ${answer}\n\n`));
        controller.close();
      }
    },
    async cancel() {
      end();
      await events.return(undefined);
    },
  });
}

const encoder = new TextEncoder();
/** Number by which SDKs tell, on their own side, that a connection is gone. */
const CONNECTION_CLOSED = -32000;
