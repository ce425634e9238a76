import { randomUUID } from "node:crypto";
import { McpServer, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createSluice, type Sluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import type { McpFetchHandler } from "@sluice/transport-http";
import type { ResumeOptions } from "@sluice/resume";
import { withResume } from "@sluice/resume/internal";
import { onTestFinished } from "vitest";

export const endpoint = "http://127.0.0.1:9/mcp";

/** Headers that open or belong to a session. */
export type Session = Readonly<Record<string, string>>;

/** One event as it came. */
export interface Event {
  readonly id?: string;
  readonly retry?: number;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly message?: any;
}

/** Options of a test. */
export interface ResumingOptions {
  readonly resume?: Partial<ResumeOptions>;
  readonly sluice?: Partial<SluiceOptions>;
  /** The sessions of another one, as if both had adopted them. */
  readonly host?: McpFetchHandler;
  /** Breaks what withResume relies on, to see that a test notices. */
  readonly breaking?: (sluice: Sluice) => Sluice;
}

/** A server with sessions whose tools ask (`ask`), work (`work`, until released) and answer at once (`say`). */
export function createResuming(options: ResumingOptions = {}) {
  const sluice = createSluice({
    storage: createMemoryBackend({}),
    baseUri: "files://demo/",
    endpoint,
    keys: [generateKey()],
    onWarning: () => {},
    principal: ({ header }) => {
      const subject = /^Bearer (\w+)$/.exec(header("authorization") ?? "")?.[1];
      return subject === undefined ? undefined : { issuer: "i", subject, clientId: "c" };
    },
    ...options.sluice,
  } as SluiceOptions);
  const { events: store } = options.resume?.stores ?? sluice.host.stores;
  const errors: unknown[] = [];
  const heard: unknown[] = [];
  const aborted: string[] = [];
  let release = (): void => {};
  const released = new Promise<void>((resolve) => void (release = resolve));
  const transports = new Map<string, WebStandardStreamableHTTPServerTransport>();

  function server(): McpServer {
    const mcp = new McpServer({ name: "s", version: "1" });
    const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
    mcp.registerTool("say", {}, async () => say("said"));
    mcp.registerTool("work", {}, async (ctx) => {
      ctx.mcpReq.signal.addEventListener("abort", () => aborted.push("work"));
      await released;
      return say("worked");
    });
    // asks what it withdraws, asks again, and works on
    mcp.registerTool("ask-twice", {}, async (ctx) => {
      const requestedSchema = { type: "object" as const, properties: {} };
      const question = { message: "well?", requestedSchema };
      const related = { relatedRequestId: ctx.mcpReq.id };
      await ctx.mcpReq.elicitInput(question, { ...related, timeout: 5 }).catch(() => {});
      heard.push((await ctx.mcpReq.elicitInput(question, related)).content);
      await released;
      return say("asked");
    });
    mcp.registerTool("ask", {}, async (ctx) => {
      const question = {
        message: "well?",
        requestedSchema: { type: "object" as const, properties: {} },
      };
      const related = { relatedRequestId: ctx.mcpReq.id };
      const answer = await ctx.mcpReq.elicitInput(question, related);
      heard.push(answer.content);
      return say("asked");
    });
    return mcp;
  }

  const host = options.host ?? {
    async fetch(request: Request, told?: { parsedBody?: unknown }): Promise<Response> {
      const id = request.headers.get("mcp-session-id");
      const known = transports.get(id ?? "");
      if (known) return known.handleRequest(request, told);
      if (id !== null) return new Response(undefined, { status: 404 });
      const transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (opened) => void transports.set(opened, transport),
        onsessionclosed: (closed) => void transports.delete(closed),
      });
      await server().connect(transport);
      return transport.handleRequest(request, told);
    },
  };
  const handler = withResume(host, options.breaking?.(sluice) ?? sluice, {
    onError: (error) => void errors.push(error),
    ...options.resume,
  });
  onTestFinished(async () => {
    release();
    await handler.close();
    for (const transport of transports.values()) await transport.close();
  });
  const send = (url: string, init: RequestInit): Promise<Response> =>
    handler.fetch(new Request(url, init));

  /** Posts a message to the endpoint. */
  const post = (message: object, session: Session): Promise<Response> =>
    send(endpoint, {
      method: "POST",
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        ...session,
      },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    });

  return {
    sluice,
    store,
    server,
    host,
    handler,
    errors,
    heard,
    aborted,
    release,
    post,
    send,
    /** Opens a session of a subject; gives its headers. */
    async open(subject = "ann", protocolVersion = "2025-11-25"): Promise<Session> {
      const authorization = `Bearer ${subject}`;
      const params = {
        protocolVersion,
        clientInfo: { name: "c", version: "1" },
        capabilities: { elicitation: { form: {} } },
      };
      const response = await post({ id: 0, method: "initialize", params }, { authorization });
      await response.text();
      const session = {
        authorization,
        "mcp-session-id": response.headers.get("mcp-session-id")!,
        "mcp-protocol-version": protocolVersion,
      };
      await post({ method: "notifications/initialized" }, session);
      return session;
    },
    /** Calls a tool. */
    call: (name: string, session: Session, id = 1) =>
      post({ id, method: "tools/call", params: { name } }, session),
    /** Asks at a link. */
    at: (link: string, session: Session, init: RequestInit = {}) =>
      send(link, { ...init, headers: { ...session, ...(init.headers as Session) } }),
  };
}

/** The URL of a `Link` header. */
export function linkOf({ headers }: Response): string {
  return /^<([^>]+)>; rel="stream"$/.exec(headers.get("link") ?? "")![1]!;
}

/** The header that names the beginning of a stream, out of the first event of an answer that is then left. */
export async function beginningOf(response: Response): Promise<Session> {
  const reader = response.body!.getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return { "last-event-id": /^id: (\S+)$/m.exec(new TextDecoder().decode(value))![1]! };
}

/** The events of an answer that ends. */
export async function eventsOf(response: Response): Promise<Event[]> {
  const text = await response.text();
  return text
    .split("\n\n")
    .filter((block) => block !== "")
    .map((block) => {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1];
      const [id, retry, data] = [field("id"), field("retry"), field("data")];
      return {
        ...(id !== undefined && { id }),
        ...(retry !== undefined && { retry: Number(retry) }),
        ...(data && { message: JSON.parse(data) }),
      };
    });
}

/** The answer that a client sends to a question. */
export function answerTo({ message }: Event, content: object = {}): object {
  return { jsonrpc: "2.0", id: message.id, result: { action: "accept", content } };
}
