import { randomUUID } from "node:crypto";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  createMcpHandler,
  isLegacyRequest,
  McpServer,
  WebStandardStreamableHTTPServerTransport,
  type CallToolResult,
  type InputRequiredResult,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import type { RevisionKind } from "@sluice/core/internal";
import { createSluice, type Sluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { onTestFinished } from "vitest";
import { z } from "zod";
import { PendingUploads } from "../src/ask/pending-uploads.ts";
import { createAskForFiles } from "../src/ask/ask-for-files.ts";
import type { AskForFiles, ClaimedFile, Slots, UploadedFile } from "../src/index.ts";
import { uploadError } from "../src/slots/upload-error.ts";
import { UploadPageStore, type UploadPages } from "../src/page/upload-pages.ts";

/** Both eras, for `test.each`. */
export const eras: readonly RevisionKind[] = ["legacy", "modern"];

const endpoint = "http://127.0.0.1:9/mcp";

/** A Sluice without resources; `user <name>` of the bearer token is the principal. */
export function createPlainSluice(options: Partial<SluiceOptions> = {}): Sluice {
  return createSluice({
    storage: createMemoryBackend({}),
    baseUri: "files://demo/",
    endpoint,
    keys: "ephemeral",
    onWarning: () => {},
    principal: ({ header }) => {
      const [, subject] = /^Bearer (.+)$/.exec(header("authorization") ?? "") ?? [];
      return subject === undefined ? undefined : { issuer: "test", subject, clientId: "test" };
    },
    anonymous: true,
    ...options,
  } as SluiceOptions);
}

/** A tool as the tests write it. */
export type TestTool = (
  mcp: McpServer,
  ctx: ServerContext,
) => Promise<CallToolResult | InputRequiredResult>;

/** Serves one tool, `look`, in this process: modern clients without sessions, legacy ones with. */
export function createToolServer(
  sluice: Sluice,
  tool: TestTool,
  register: (mcp: McpServer) => void = () => {},
): typeof fetch {
  const factory = () => {
    const mcp = new McpServer({ name: "test", version: "1.0.0" });
    mcp.registerTool("look", { inputSchema: z.object({}) }, (_args, ctx) => tool(mcp, ctx));
    register(mcp);
    return sluice.attach(mcp);
  };
  const modern = createMcpHandler(factory, { legacy: "reject" });
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  onTestFinished(async () => {
    for (const transport of sessions.values()) await transport.close();
  });
  return async (input, init) => {
    const request = new Request(input, init);
    const isLegacy = request.method !== "POST" || (await isLegacyRequest(request));
    if (!isLegacy) return modern.fetch(request);
    const known = sessions.get(request.headers.get("mcp-session-id") ?? "");
    if (known) return known.handleRequest(request);
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
    });
    await factory().connect(transport);
    return transport.handleRequest(request);
  };
}

/** What a client is asked, as it came over the wire. */
export interface Asked {
  readonly mode?: string;
  readonly message: string;
  readonly url?: string;
  readonly requestedSchema?: any;
  readonly uploadEndpoints?: Record<string, { url: string; method: string; uploadId: string }>;
  readonly _meta?: any;
}

/** The official client with the smallest hand-written hook for a mode that it does not know. */
class AnsweringClient extends Client {
  // oxlint-disable-next-line no-underscore-dangle -- the SDK's hook for subclasses
  protected override _wrapHandler(method: string, handler: any): any {
    // oxlint-disable-next-line no-underscore-dangle -- the same
    const wrapped = super._wrapHandler(method, handler);
    if (method !== "elicitation/create") return wrapped;
    return (request: any, ctx: any) =>
      request.params?.mode === "binary" ? handler(request, ctx) : wrapped(request, ctx);
  }
}

/** What a test client does when it is asked. */
export interface AnswererOptions {
  readonly era: RevisionKind;
  readonly fetch: typeof fetch;
  readonly answer?: (asked: Asked, client: Client) => unknown;
  readonly capabilities?: object;
  readonly token?: string;
}

/** Connects a client that answers. */
export async function connectAnswerer(options: AnswererOptions): Promise<Client> {
  const { era, answer, token } = options;
  const { capabilities = { elicitation: { form: {}, url: {}, binary: {} } } } = options;
  const client = new AnsweringClient(
    { name: "test", version: "1.0.0" },
    { capabilities, versionNegotiation: { mode: era === "modern" ? "auto" : "legacy" } },
  );
  if (answer)
    client.setRequestHandler(
      "elicitation/create",
      { params: z.looseObject({ message: z.string() }) },
      async (params, ctx) => {
        // the SDK takes `_meta` out of what it hands over
        const asked = { ...params, _meta: ctx.mcpReq._meta };
        return (await answer(asked, client)) as Record<string, unknown>;
      },
    );
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  const transport = new StreamableHTTPClientTransport(new URL(endpoint), {
    fetch: options.fetch,
    requestInit: { headers },
  });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return client;
}

/** Slots without an endpoint: a test says what came. */
export interface FakeSlots extends Slots {
  /** Upload id → what came. */
  readonly came: Map<string, ClaimedFile[]>;
  /** Upload id → bytes of its files, where they matter. */
  readonly bytes: Map<string, Uint8Array>;
  readonly confirmed: Map<string, UploadedFile[]>;
  /** Upload ids whose slots were closed. */
  readonly revoked: string[];
  readonly removed: string[];
}

/** Makes slots in memory that hold to the contract of the real ones. */
export function createFakeSlots(): FakeSlots {
  const owners = new Map<string, Principal | undefined>();
  const came = new Map<string, ClaimedFile[]>();
  const bytesOf = new Map<string, Uint8Array>();
  const confirmed = new Map<string, UploadedFile[]>();
  const revoked: string[] = [];
  const removed: string[] = [];
  const own = (principal: Principal | undefined, uploadId: string) => {
    const isOwner = JSON.stringify(owners.get(uploadId)) === JSON.stringify(principal);
    if (!owners.has(uploadId) || !isOwner) throw uploadError("not_found", "no such slot");
  };
  return {
    came,
    bytes: bytesOf,
    confirmed,
    revoked,
    removed,
    async reserve(principal, terms, { ttlMs = 900_000 } = {}) {
      const uploadId = randomUUID().replaceAll("-", "");
      owners.set(uploadId, principal);
      const url = `${endpoint}/uploads/${uploadId}`;
      return { uploadId, url, method: "POST", expiresAt: Date.now() + ttlMs, terms };
    },
    async received(principal, uploadId) {
      own(principal, uploadId);
      return came.get(uploadId) ?? [];
    },
    async reopen(principal, uploadId) {
      own(principal, uploadId);
      const files = confirmed.get(uploadId);
      if (!files) throw uploadError("not_found", "not confirmed");
      return files;
    },
    async confirm(principal, uploadId, files) {
      own(principal, uploadId);
      if (confirmed.has(uploadId)) throw uploadError("already_exists", "confirmed");
      const plain = (list: readonly ClaimedFile[]) =>
        JSON.stringify(list.map(({ name, size, mimeType }) => [name, size, mimeType]));
      if (plain(files) !== plain(came.get(uploadId) ?? []))
        throw uploadError("precondition_failed", "the files are not those that came");
      const handles = files.map((file) => ({
        uploadId,
        sha256: "0".repeat(64),
        ...file,
        scan: "clean" as const,
        ...contentOf(bytesOf.get(uploadId)),
        remove: async () => void removed.push(uploadId),
      }));
      confirmed.set(uploadId, handles);
      return handles;
    },
    async keep(_principal, { mimeType = "", ...file }) {
      const bytes = "bytes" in file ? file.bytes : new Uint8Array();
      return {
        uploadId: "inline",
        name: "download",
        mimeType,
        size: bytes.length,
        sha256: "0".repeat(64),
        scan: "clean",
        ...contentOf(undefined),
        remove: async () => void removed.push("inline"),
      };
    },
    async discard(uploadId) {
      came.delete(uploadId);
    },
    async revoke(principal, { uploadId }) {
      own(principal, uploadId);
      revoked.push(uploadId);
      came.delete(uploadId);
    },
    progress: () => ({ bytes: 0 }),
  };
}

/** What reads a file. */
function contentOf(content: Uint8Array | undefined): Pick<UploadedFile, "open" | "bytes" | "text"> {
  const bytes = async () => {
    if (!content) throw uploadError("not_found", "no bytes");
    return Uint8Array.from(content);
  };
  return {
    bytes,
    text: async () => new TextDecoder().decode(await bytes()),
    open: async () => createMemoryBackend({ file: await bytes() }).open("file"),
  };
}

/** The function that asks, over such slots and pages of its own. */
export function createAsker(sluice: Sluice, slots: Slots, pages?: UploadPages): AskForFiles {
  const { host } = sluice;
  return createAskForFiles({
    host,
    slots,
    pages: pages ?? new UploadPageStore(host),
    pending: new PendingUploads(host),
    takeAnswer: async () => {},
    isServed: () => false,
  });
}
