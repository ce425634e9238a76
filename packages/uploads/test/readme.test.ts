import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { expect, onTestFinished, test, vi } from "vitest";
import { askForeign } from "../../transport-http/test/foreign-requests.ts";

async function startListening() {
  let listener: RequestListener | undefined;
  const server = createServer((req, res) => listener?.(req, res));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const sluice = createSluice({
    storage: createMemoryBackend({ "report.txt": "a report" }),
    baseUri: "files://demo/",
    endpoint,
    keys: "ephemeral",
    onWarning() {},
  });
  return { endpoint, sluice, listen: (next: RequestListener) => void (listener = next) };
}

async function startFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-readme-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

test("the examples of the README run", async () => {
  const { endpoint, sluice, listen } = await startListening();
  const folder = await startFolder();

  const { createFsBackend } = await import("@sluice/storage-fs");
  const { createUploads } = await import("@sluice/uploads");
  const { withUploads } = await import("@sluice/uploads/internal");

  const uploads = createUploads(sluice, {
    storage: createFsBackend({ root: folder, writable: true }),
    scan: "none",
  });

  const mcp = createMcpHandler(() => {
    const server = new McpServer({ name: "demo", version: "1.0.0" });
    server.registerTool("count_lines", { description: "Counts lines" }, async (ctx) => {
      const outcome = await uploads.ask(
        {
          message: "Which text shall I count?",
          fields: { text: { type: "file", accept: ["text/*"], maxBytes: 10_000_000 } },
        },
        { mcp: server, ctx },
      );
      if (outcome.action === "ask") return outcome.result; // modern era: the client calls again
      if (outcome.action !== "accept") return { content: [{ type: "text", text: "None came." }] };

      const { text } = outcome.files;
      let lines = 0;
      const { body } = await text.open();
      for await (const chunk of body) for (const byte of chunk) if (byte === 10) lines += 1;
      await text.remove();
      return { content: [{ type: "text", text: `${text.name} has ${lines} lines.` }] };
    });
    return sluice.attach(server);
  });
  const handler = toNodeHandler(withUploads(withSluice(mcp, sluice), uploads));
  onTestFinished(() => uploads.close());
  listen(handler);
  expect((await askForeign(endpoint)).wrong).toEqual([]);

  const said = vi.spyOn(console, "log").mockReturnValue();
  onTestFinished(() => said.mockRestore());
  const path = join(await startFolder(), "poem.txt");
  await writeFile(path, "one\ntwo\nthree\n");

  // #region client
  const { createFileSender } = await import("@sluice/client/send");

  const sender = createFileSender({
    endpoint,
    async onFilesRequested({ message, origin, fields }) {
      console.log(`${origin} asks: ${message}`); // show it to the user, and let the user choose
      return { action: "accept", files: { [fields[0]!.name]: [path] } };
    },
  });
  const client = new (sender.extend(Client))(
    { name: "demo", version: "1.0.0" },
    { versionNegotiation: { mode: "auto" } },
  );
  await client.connect(
    new StreamableHTTPClientTransport(new URL(endpoint), { fetch: sender.fetch() }),
  );
  // #endregion
  onTestFinished(() => client.close());

  const { content } = await client.callTool({ name: "count_lines" });
  expect(content).toEqual([{ type: "text", text: "poem.txt has 3 lines." }]);
  expect(said).toHaveBeenCalledWith(`${new URL(endpoint).origin} asks: Which text shall I count?`);
});

test("the example of scanning runs", async () => {
  const { sluice } = await startListening();
  const seen: string[] = [];
  const scanner = {
    async scan(body: ReadableStream<Uint8Array>) {
      seen.push(await new Response(body).text());
      return { isInfected: true };
    },
  };

  const { createUploads } = await import("@sluice/uploads");
  const storage = createMemoryBackend();

  // #region scan
  const uploads = createUploads(sluice, {
    storage,
    async scan(body) {
      const { isInfected } = await scanner.scan(body);
      return isInfected ? "reject" : "clean";
    },
  });
  // #endregion
  onTestFinished(() => uploads.close());
  const bytes = new TextEncoder().encode("a virus");
  const terms = { accept: [], maxBytes: 100, maxFiles: 1 };
  const kept = uploads.keep(undefined, { mimeType: "text/plain", bytes }, terms);
  await expect(kept).rejects.toMatchObject({ name: "SluiceError" });
  expect(seen).toEqual(["a virus"]);
});

test.each(["auto", "legacy"] as const)("the example of an output schema runs: %s", async (mode) => {
  const { endpoint, sluice, listen } = await startListening();
  const { createUploads } = await import("@sluice/uploads");
  const { withUploads } = await import("@sluice/uploads/internal");
  const uploads = createUploads(sluice, { storage: createMemoryBackend(), scan: "none" });
  onTestFinished(() => uploads.close());

  // #region output-schema
  const { uploadIdInput, uploadRequiredOutput } = await import("@sluice/uploads");
  const { z } = await import("zod");

  const inputSchema = z.object({ upload_id: uploadIdInput() });
  const measured = z.object({ status: z.literal("measured"), bytes: z.number() });
  const outputSchema = z.union([measured, uploadRequiredOutput()]);

  function createMeasure() {
    const mcp = new McpServer({ name: "demo", version: "1.0.0" });
    mcp.registerTool("measure", { inputSchema, outputSchema }, async (args, ctx) => {
      const outcome = await uploads.ask(
        {
          uploadId: args.upload_id,
          message: "Which file shall I measure?",
          fields: { file: { type: "file", title: "File" } },
        },
        { mcp, ctx },
      );
      if (outcome.action === "ask") return outcome.result;
      if (outcome.action !== "accept")
        return { isError: true, content: [{ type: "text", text: "The user sent no file." }] };
      const { file } = outcome.files;
      await file.remove();
      const structuredContent = { status: "measured", bytes: file.size };
      return { content: [{ type: "text", text: `${file.size} bytes` }], structuredContent };
    });
    return sluice.attach(mcp);
  }
  // #endregion
  listen(toNodeHandler(withUploads(withSluice(createMcpHandler(createMeasure), sluice), uploads)));
  const client = new Client({ name: "demo", version: "1.0.0" }, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
  onTestFinished(() => client.close());
  // with the schemas of the tools a client checks each answer
  const { tools } = await client.listTools();
  expect(tools[0]!.outputSchema).toMatchObject({ type: "object" });
  const asked = await client.callTool({ name: "measure", arguments: {} });
  const { status, upload_id, upload_url } = asked.structuredContent as Record<string, string>;
  expect(status).toBe("upload_required");
  await fetch(upload_url!, { method: "PUT", body: "a text" });
  const result = await client.callTool({ name: "measure", arguments: { upload_id } });
  expect(result.structuredContent).toEqual({ status: "measured", bytes: 6 });
});
