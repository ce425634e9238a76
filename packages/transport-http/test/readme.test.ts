import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test, vi } from "vitest";
import { freePort } from "../../../e2e/bed/listen.ts";
import { createResume } from "../../resume/src/index.ts";
import { post } from "./call.ts";
import { askForeign } from "./foreign-requests.ts";
import { listen } from "./serve.ts";

test("the examples of the README run", { tags: "slow" }, async () => {
  let listener: RequestListener | undefined;
  const http = createServer((req, res) => listener?.(req, res));
  const endpoint = `${await listen(http)}/mcp`;
  const base: SluiceOptions = {
    storage: createMemoryBackend({ "a.txt": "hello" }),
    baseUri: "files://demo/",
    endpoint,
    keys: "ephemeral",
    onWarning: () => {},
  };
  const sluice = createSluice(base);

  // #region node
  const { createHandler } = await import("@sluice/transport-http");
  const { hardenServer, toNodeHandler } = await import("@sluice/transport-http/node");

  const create = () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }));
  const handler = createHandler({ sluice, create });
  const server = hardenServer(createServer(toNodeHandler(handler)));
  // #endregion

  // #region keepalive
  const pooled = hardenServer(createServer(toNodeHandler(handler)), { keepAliveTimeoutMs: 75_000 });
  // #endregion
  expect(pooled.keepAliveTimeout).toBe(75_000);

  // #region sessions
  const bounded = createHandler({
    sluice,
    create,
    sessions: { perPrincipal: 32, perProcess: 1_000, idleMs: 30 * 60_000 },
  });
  // #endregion

  // #region express
  const { default: express } = await import("express");

  const app = express();
  app.all("/mcp{/*rest}", toNodeHandler(handler));
  // #endregion

  const createBehind = (): McpServer =>
    behindProxy.attach(new McpServer({ name: "demo", version: "1.0.0" }));
  // #region shares
  const behindProxy = createSluice({
    ...base,
    clientAddress: 1,
    limits: { streams: { perAddress: 16 } },
  });
  const handle = toNodeHandler(createHandler({ sluice: behindProxy, create: createBehind }), {
    requests: { perAddress: 64 },
  });
  // #endregion
  expect(handle).toBeTypeOf("function");

  const [root, secret] = [tmpdir(), "0123456789abcdef"];
  // #region offload
  const besideNginx = toNodeHandler(handler, {
    offload: { root, prefix: "/_sluice/", secret },
  });
  // #endregion

  // #region binary
  const { binaryReads } = await import("@sluice/binary-transfer");

  const createPictures = () =>
    sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }), { binary: binaryReads });
  const besideJson = toNodeHandler(createHandler({ sluice, create: createPictures, binary: true }));
  // #endregion

  // #region binary-client
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const { createBinaryFetch, readBinary } = await import("@sluice/binary-transfer/client");

  async function readAll(url: string, uri: string): Promise<string> {
    const binary = createBinaryFetch();
    const client = new Client({ name: "app", version: "1.0.0" });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { fetch: binary.fetch }));
    try {
      const { body } = await readBinary(client, uri);
      return await new Response(body).text();
    } finally {
      await client.close();
      binary.close();
    }
  }
  // #endregion

  const download = async (): Promise<string> => {
    const response = await post(endpoint, "modern", "files://demo/a.txt");
    const link = /^<(.+)>/.exec(response.headers.get("link")!)![1]!;
    expect(await response.text()).toBe("hello");
    return link;
  };
  const gated = async (next: RequestListener): Promise<void> => {
    listener = next;
    expect((await askForeign(endpoint)).wrong).toEqual([]);
  };
  await gated((req, res) => void server.emit("request", req, res));
  expect(await (await fetch(await download())).text()).toBe("hello");
  await gated(app);
  expect(await (await handler.fetch(new Request(await download()))).text()).toBe("hello");
  expect(server.headersTimeout).toBe(15_000);
  await gated(toNodeHandler(bounded));
  expect(await (await fetch(await download())).text()).toBe("hello");
  await bounded.close();
  await gated(besideNginx);
  expect(await (await fetch(await download())).text()).toBe("hello");
  await gated(besideJson);
  expect(await readAll(endpoint, "files://demo/a.txt")).toBe("hello");
});

test("the end of a process runs as the page has it", async () => {
  const storage = createMemoryBackend({ "a.txt": "hello" });
  const endpoint = `http://127.0.0.1:${await freePort()}/mcp`;
  const sluice = createSluice({ storage, endpoint });
  const create = () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }));
  const resume = createResume();

  const { serve } = await import("@sluice/transport-http/node");

  const running = await serve(sluice, create, { resume });
  async function shutDown(): Promise<void> {
    const { cut } = await running.close({ deadlineMs: 25_000 });
    console.log(`${cut} answers were cut`);
  }
  process.once("SIGTERM", () => void shutDown());
  process.off("SIGTERM", process.listeners("SIGTERM").at(-1)!);
  expect((await askForeign(endpoint)).wrong).toEqual([]);
  const said = vi.spyOn(console, "log").mockImplementation(() => {});
  await shutDown();
  expect(said.mock.calls).toEqual([["0 answers were cut"]]);
  said.mockRestore();
  expect(running.server.listening).toBe(false);
});
