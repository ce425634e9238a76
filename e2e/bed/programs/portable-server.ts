// A server of every part that needs no module of Node, as a Worker, for Bun and for Deno.
import { McpServer } from "@modelcontextprotocol/server";
import { createResume } from "@sluice/resume";
import { createMemoryBackend } from "@sluice/storage";
import { createHandler, createSluice, createUploads, type SluiceHandler } from "sluice";
import { z } from "zod";

interface Env {
  readonly ENDPOINT: string;
  readonly SLUICE_KEYS: string;
}

const hello = "Hello from ";

function start(env: Env): SluiceHandler {
  const sluice = createSluice({
    storage: createMemoryBackend({ "hello.txt": hello.repeat(10_000) }),
    baseUri: "files://demo/",
    endpoint: env.ENDPOINT,
    keys: env.SLUICE_KEYS,
    anonymous: true,
    onError: (error) => console.error(error),
  });
  const uploads = createUploads(sluice, {
    storage: createMemoryBackend(),
    scan: "none",
  });
  function createDemo() {
    const mcp = new McpServer({ name: "demo", version: "1.0.0" });
    uploads.attach(mcp, { accept: [], maxBytes: 10_000_000 });
    uploads.registerTool(
      mcp,
      "measure",
      {
        message: "Which file shall I measure?",
        fields: { file: { type: "file", maxBytes: 10_000_000 } },
      },
      async ({ files: { file } }) => {
        let size = 0;
        for await (const chunk of (await file.open()).body) size += chunk.length;
        return `${size} bytes`;
      },
    );
    mcp.registerTool("count", { inputSchema: z.object({}) }, async (_args, ctx) => {
      const { progressToken } = ctx.mcpReq._meta ?? {};
      for (const progress of progressToken === undefined ? [] : [1, 2, 3]) {
        const params = { progressToken: progressToken!, progress };
        await ctx.mcpReq.notify({ method: "notifications/progress", params });
        await new Promise((resolve) => void setTimeout(resolve, 20));
      }
      return { content: [{ type: "text", text: "counted" }] };
    });
    return sluice.attach(mcp);
  }
  const resume = createResume();
  return createHandler({ sluice, create: createDemo, uploads, resume });
}

let handler: SluiceHandler | undefined;

/** Answers one request; the first one starts the server. */
export const answer = (request: Request, env: Env): Promise<Response> =>
  (handler ??= start(env)).fetch(request);

interface Runtimes {
  readonly Bun?: {
    serve(options: object): unknown;
    readonly env: Readonly<Record<string, string>>;
  };
  readonly Deno?: {
    serve(options: object, answer: (request: Request) => Promise<Response>): unknown;
    readonly env: { get(name: string): string };
  };
}

const { Bun, Deno } = globalThis as Runtimes;
const hostname = "127.0.0.1";
if (Bun) {
  const env = Bun.env as unknown as Env;
  const { port } = new URL(env.ENDPOINT);
  Bun.serve({ hostname, port, idleTimeout: 0, fetch: (request: Request) => answer(request, env) });
} else if (Deno) {
  const env = { ENDPOINT: Deno.env.get("ENDPOINT"), SLUICE_KEYS: Deno.env.get("SLUICE_KEYS") };
  const { port } = new URL(env.ENDPOINT);
  Deno.serve({ hostname, port: Number(port) }, (request) => answer(request, env));
}

// on its standard output: a server of its own has started
if (Bun || Deno) console.log("listens");

export default Bun || Deno ? {} : { fetch: answer };
