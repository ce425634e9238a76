import { randomUUID } from "node:crypto";
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import {
  createMcpHandler,
  isLegacyRequest,
  McpServer,
  WebStandardStreamableHTTPServerTransport as Transport,
  type EventStore as SdkEventStore,
} from "@modelcontextprotocol/server";
import type { FetchLike } from "@sluice/client";
import { generateKey } from "@sluice/core";
import type { EventStore } from "@sluice/state";
import { createMemoryEventStore } from "@sluice/state/internal";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { type SluiceHandler } from "@sluice/transport-http";
import { createSessions, withSluice, type SessionsHandler } from "@sluice/transport-http/internal";
import type { ResumeOptions } from "@sluice/resume";
import { withResume } from "@sluice/resume/internal";
import { rerunCalls } from "@sluice/resume/rerun";
import * as z from "zod";

/** What a test wants to be different. */
export interface ResumingOptions {
  readonly endpoint?: string;
  readonly store?: EventStore;
  readonly resume?: Partial<ResumeOptions>;
  readonly sluice?: Partial<SluiceOptions>;
  /** The server as it was before: no links. */
  readonly old?: boolean;
  /** Event store of the SDK's own transport, for SEP-1699 without us. */
  readonly sdkEvents?: SdkEventStore;
  /** Milliseconds that the tool works before each of its questions and before its result. */
  readonly workMs?: number;
  /** Its work, instead of so many milliseconds. */
  readonly work?: () => Promise<void>;
  readonly register?: (mcp: McpServer) => void;
  /** Calls of the tool run again after a restart. */
  readonly reruns?: boolean;
}

/** A server with sessions, as a function. */
export interface Resuming {
  readonly handler: SluiceHandler;
  readonly fetch: FetchLike;
  readonly store: EventStore;
  /** Times the tool was started. */
  readonly starts: () => number;
  readonly errors: unknown[];
  close(): Promise<void>;
}

const elicited = z.looseObject({ content: z.record(z.string(), z.unknown()).optional() });

/** A server whose tool `survey` asks three things and tells its progress between them. */
export function createServerOfSurveys(
  options: Pick<ResumingOptions, "workMs" | "work" | "register"> = {},
) {
  let starts = 0;
  const { workMs = 0 } = options;
  const pause =
    options.work ?? (() => new Promise<void>((resolve) => void setTimeout(resolve, workMs)));
  const server = (): McpServer => {
    const mcp = new McpServer({ name: "surveys", version: "1.0.0" });
    mcp.registerTool(
      "survey",
      { inputSchema: z.object({ name: z.string() }) },
      async ({ name }, ctx) => {
        starts += 1;
        const answers: string[] = [];
        const { progressToken } = ctx.mcpReq._meta ?? {};
        for (const n of [1, 2, 3]) {
          await pause();
          if (progressToken !== undefined)
            await ctx.mcpReq.notify({
              method: "notifications/progress",
              params: { progressToken, progress: n, total: 3 },
            });
          const params = {
            message: `${name}: question ${n}`,
            requestedSchema: { type: "object", properties: { text: { type: "string" } } },
          };
          // unlike `elicitInput` it asks on the stream of this request, and compiles no schema each time
          const { content } = await ctx.mcpReq.send(
            { method: "elicitation/create", params },
            elicited,
          );
          answers.push(String(content?.["text"]));
        }
        await pause();
        return { content: [{ type: "text", text: answers.join("|") }] };
      },
    );
    options.register?.(mcp);
    return mcp;
  };
  return { server, starts: () => starts };
}

/** Makes one. */
export function createResuming(options: ResumingOptions = {}): Resuming {
  const { store = createMemoryEventStore(), sdkEvents } = options;
  const errors: unknown[] = [];
  const surveys = createServerOfSurveys(options);
  const sluice = createSluice({
    storage: createMemoryBackend({}),
    baseUri: "files://demo/",
    endpoint: options.endpoint ?? "http://127.0.0.1:9/mcp",
    keys: [generateKey()],
    onWarning: () => {},
    onError: (error) => void errors.push(error),
    ...options.sluice,
  } as SluiceOptions);
  const factory = (): McpServer => sluice.attach(surveys.server());
  const host = sdkEvents
    ? createSessionsWithEvents(factory, sdkEvents)
    : createSessions(factory, sluice, { perPrincipal: 1_000 });
  const onError = (error: unknown): void => void errors.push(error);
  const resumed = options.old
    ? undefined
    : withResume(host, sluice, {
        stores: { events: store },
        retryMs: 5,
        onError,
        ...(options.reruns && {
          rerun: rerunCalls({
            allows: ({ method }) => method === "tools/call",
            server: surveys.server,
          }),
        }),
        ...options.resume,
      });
  const handler = withSluice(resumed ?? host, sluice);
  return {
    handler,
    store,
    errors,
    starts: surveys.starts,
    fetch: (input, init) => handler.fetch(new Request(input, init)),
    async close() {
      await resumed?.close();
      await host.close();
      await store.close?.();
    },
  };
}

/** Sessions whose transport keeps its own events, which those of Sluice have no use for. */
function createSessionsWithEvents(
  create: () => McpServer,
  eventStore: NonNullable<ResumingOptions["sdkEvents"]>,
): SessionsHandler {
  const modern = createMcpHandler(create, { legacy: "reject" });
  const sessions = new Map<string, { readonly transport: Transport; readonly holder: string }>();
  return {
    async fetch(request, told) {
      const isLegacy =
        request.method !== "POST" || (await isLegacyRequest(request, told?.parsedBody));
      if (!isLegacy) return modern.fetch(request, told);
      const holder = request.headers.get("authorization") ?? "";
      const id = request.headers.get("mcp-session-id");
      const known = id === null ? undefined : sessions.get(id);
      if (known?.holder === holder) return known.transport.handleRequest(request, told);
      if (id !== null) return Response.json({ error: "no such session" }, { status: 404 });
      const transport = new Transport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (opened) => void sessions.set(opened, { transport, holder }),
        onsessionclosed: (closed) => void sessions.delete(closed),
        eventStore,
        retryInterval: 5,
      });
      await create().connect(transport);
      return transport.handleRequest(request, told);
    },
    async close() {
      for (const { transport } of sessions.values()) await transport.close();
      await modern.close();
    },
  };
}

/** A client of either SDK that answers questions and counts them. */
export interface SurveyClient {
  /** Calls the tool; gives its text. */
  survey(name: string, options?: { readonly timeout?: number }): Promise<string>;
  /** Calls another tool, without arguments; gives its text. */
  call(tool: string): Promise<string>;
  /** Questions that it was asked, in order. */
  readonly asked: string[];
  /** Progress that it was told. */
  readonly progress: number[];
  close(): Promise<void>;
}

/** How a client connects. */
export interface SurveyClientOptions {
  readonly url?: string;
  readonly fetch: FetchLike;
  readonly answer?: (message: string) => string | Promise<string>;
  readonly headers?: Record<string, string>;
  /** Waits between the SDK's own tries to reconnect. */
  readonly sdkRetryMs?: number;
}

const info = { name: "asked", version: "1.0.0" };
const capabilities = { elicitation: { form: {} } };

function listen(options: SurveyClientOptions) {
  const asked: string[] = [];
  const progress: number[] = [];
  const { answer = (message: string) => `answer to ${message}` } = options;
  return {
    asked,
    progress,
    onAsk: async (message: string) => {
      asked.push(message);
      return { action: "accept" as const, content: { text: await answer(message) } };
    },
    onprogress: (told: { progress: number }) => void progress.push(told.progress),
    transport: {
      fetch: options.fetch,
      requestInit: { headers: options.headers ?? {} },
      reconnectionOptions: {
        initialReconnectionDelay: options.sdkRetryMs ?? 5,
        maxReconnectionDelay: 50,
        reconnectionDelayGrowFactor: 1,
        maxRetries: 10,
      },
    },
    url: new URL(options.url ?? "http://127.0.0.1:9/mcp"),
  };
}

function textOf(result: unknown): string {
  const { content, isError } = result as { content: { text: string }[]; isError?: boolean };
  return `${isError ? "error: " : ""}${content[0]!.text}`;
}

/** Far more than a survey needs: a slow machine must not look like a broken server. */
const surveyMs = 600_000;

/** With version 2 of the SDK. */
export async function connectV2(options: SurveyClientOptions): Promise<SurveyClient> {
  const { asked, progress, onAsk, onprogress, transport, url } = listen(options);
  const client = new ClientV2(info, { capabilities, versionNegotiation: { mode: "legacy" } });
  client.setRequestHandler("elicitation/create", ({ params }) => onAsk(params.message));
  await client.connect(new TransportV2(url, transport));
  return {
    asked,
    progress,
    async survey(name, { timeout = surveyMs } = {}) {
      const call = { name: "survey", arguments: { name } };
      return textOf(await client.callTool(call, { onprogress, timeout }));
    },
    call: async (name) => textOf(await client.callTool({ name })),
    close: () => client.close(),
  };
}

/** With version 1 of the SDK. */
export async function connectV1(options: SurveyClientOptions): Promise<SurveyClient> {
  const { asked, progress, onAsk, onprogress, transport, url } = listen(options);
  const client = new ClientV1(info, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => onAsk(params.message));
  await client.connect(new TransportV1(url, transport));
  return {
    asked,
    progress,
    async survey(name, { timeout = surveyMs } = {}) {
      const call = { name: "survey", arguments: { name } };
      return textOf(await client.callTool(call, undefined, { onprogress, timeout }));
    },
    call: async (name) => textOf(await client.callTool({ name })),
    close: () => client.close(),
  };
}

/** What the client of a survey must have seen: each thing once, in order. */
export function surveyOf(name: string) {
  const asked = [1, 2, 3].map((n) => `${name}: question ${n}`);
  return { asked, progress: [1, 2, 3], text: asked.map((q) => `answer to ${q}`).join("|") };
}

/** The event store of the SDK's examples, for its own resuming (SEP-1699). */
export function createSdkEventStore(): SdkEventStore {
  const events: { readonly id: string; readonly streamId: string; readonly message: object }[] = [];
  return {
    async storeEvent(streamId, message) {
      const id = `${streamId}_${events.length}`;
      events.push({ id, streamId, message });
      return id;
    },
    getStreamIdForEventId: async (id) => events.find((event) => event.id === id)?.streamId,
    async replayEventsAfter(lastId, { send }) {
      const at = events.findIndex(({ id }) => id === lastId);
      const streamId = events[at]?.streamId ?? "";
      for (const event of events.slice(at + 1))
        if (event.streamId === streamId && "jsonrpc" in event.message)
          await send(event.id, event.message as Parameters<SdkEventStore["storeEvent"]>[1]);
      return streamId;
    },
  };
}
