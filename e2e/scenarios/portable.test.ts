// @module-tag slow
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { streamResource } from "@sluice/client";
import { streamingCapabilities, withStreaming } from "@sluice/client/internal";
import { createFileSender } from "@sluice/client/send";
import { formatKey, generateKey } from "@sluice/core";
import { withResumableFetch } from "@sluice/resume/client";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { moveExample } from "../bed/changed-program.ts";
import { freePort, untilAnswered } from "../bed/listen.ts";
import { bundleWorker, fileRuntimes, runtimes, type Started } from "../bed/runtimes.ts";

for (const { name, isInstalled } of runtimes)
  if (!isInstalled)
    console.log(`no ${name}: its tests are not run (its binary is for Linux on x64)`);

/** The first round starts the server; what later ones find was made by another request. */
const rounds = 2;

describe.each(runtimes.filter(({ isInstalled }) => isInstalled))("in $name", ({ start }) => {
  let server: Started;
  let url: URL;
  beforeAll(async () => {
    server = await start(await bundleWorker("programs/portable-server.ts"), (origin) => ({
      ENDPOINT: `${origin}/mcp`,
      SLUICE_KEYS: formatKey(generateKey()),
    }));
    url = new URL(`${server.origin}/mcp`);
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
  });

  async function connect(mode: "auto" | "legacy", fetch = withStreaming()) {
    const client = new Client(
      { name: "test", version: "1.0.0" },
      { capabilities: streamingCapabilities(), versionNegotiation: { mode } },
    );
    await client.connect(new StreamableHTTPClientTransport(url, { fetch }));
    onTestFinished(() => client.close());
    return client;
  }

  async function call(client: Client, name: string, args = {}) {
    const result = await client.callTool({ name, arguments: args });
    const [content] = result.content as { text: string }[];
    const { text } = content!;
    return { text, data: (result.structuredContent ?? {}) as Record<string, any> };
  }

  test("one client after another reads and streams", async () => {
    for (let n = 0; n < rounds; n++) {
      const client = await connect("auto");
      const stream = await streamResource(client, "files://demo/hello.txt");
      expect(await new Response(stream.body).text()).toHaveLength(110_000);
    }
  });

  test("a tool asks by its answer, and takes what a program sends", async () => {
    for (let n = 0; n < rounds; n++) {
      const client = await connect("auto");
      const { data } = await call(client, "measure");
      const body = randomBytes(100_000);
      const sent = await fetch(`${data["upload_url"]}a.bin`, { method: "PUT", body });
      expect([sent.status, await sent.json()]).toMatchObject([201, { size: 100_000 }]);
      const { text } = await call(client, "measure", { upload_id: data["upload_id"] });
      expect(text).toBe("100000 bytes");
    }
  });

  test("a host that sends files itself sends large ones in steps", async () => {
    for (let n = 0; n < rounds; n++) {
      const file = { blob: new Blob([randomBytes(3_000_000)]), name: "large.bin" };
      const files = createFileSender({
        endpoint: url,
        onFilesRequested: () => ({ action: "accept", files: { file: [file] } }),
      });
      const client = new (files.extend(Client))(
        { name: "test", version: "1.0.0" },
        { versionNegotiation: { mode: "auto" } },
      );
      await client.connect(new StreamableHTTPClientTransport(url, { fetch: files.fetch() }));
      onTestFinished(() => client.close());
      expect((await call(client, "measure")).text).toBe("3000000 bytes");
    }
  });

  test("a form is taken", async () => {
    for (let n = 0; n < rounds; n++) {
      const client = await connect("auto");
      const { data } = await call(client, "measure");
      const body = new FormData();
      body.append("file", new Blob([randomBytes(70_000)]), "a.bin");
      const sent = await fetch(data["upload_url"], { method: "POST", body });
      expect([sent.status, await sent.json()]).toMatchObject([201, {}]);
      const { text } = await call(client, "measure", { upload_id: data["upload_id"] });
      expect(text).toBe("70000 bytes");
    }
  });

  test("a page shows a question, takes its file and its answer", async () => {
    for (let n = 0; n < rounds; n++) {
      const client = await connect("auto");
      const { data } = await call(client, "measure");
      const shown = await fetch(data["page_url"], { headers: { accept: "text/html" } });
      const html = await shown.text();
      expect([shown.status, html]).toEqual([200, expect.stringContaining("Which file")]);
      const sent = await fetch(data["upload_url"], { method: "PUT", body: "text" });
      const { uploadId, size, mimeType } = (await sent.json()) as Record<string, any>;
      const file = { name: "download", size, mimeType, uploadId };
      const answer = { answerId: "a".repeat(22), action: "accept", content: { file } };
      const answered = await fetch(shown.url, {
        method: "POST",
        headers: { "content-type": "application/json", origin: url.origin },
        body: JSON.stringify(answer),
      });
      expect([answered.status, await answered.text()]).toEqual([204, ""]);
      const { text } = await call(client, "measure", { upload_id: data["upload_id"] });
      expect(text).toBe("4 bytes");
    }
  });

  test("the tools for models ask for a file and tell what came", async () => {
    for (let n = 0; n < rounds; n++) {
      const client = await connect("auto");
      const { data } = await call(client, "request_upload");
      await fetch(data["upload_url"], { method: "PUT", body: "a text" });
      const checked = await call(client, "check_upload", { upload_id: data["upload_id"] });
      expect(checked.data).toMatchObject({ status: "received", size: 6 });
    }
  });

  test("a session calls tools one after another, and its streams go on", async () => {
    const client = await connect("legacy", withResumableFetch());
    for (let n = 0; n < rounds; n++) {
      const progress: number[] = [];
      const onprogress = (note: { progress: number }): void => void progress.push(note.progress);
      const result = await client.callTool({ name: "count", arguments: {} }, { onprogress });
      expect(result.content).toEqual([{ type: "text", text: "counted" }]);
      expect(progress).toEqual([1, 2, 3]);
    }
  });

  test.each(["breaks off", "hangs"] as const)(
    "a file whose sender %s goes on in a request of its own",
    async (fault) => {
      for (let n = 0; n < rounds; n++) {
        const client = await connect("auto");
        const { data } = await call(client, "measure");
        const slot = (data["upload_url"] as string).slice(0, -1);
        const bytes = randomBytes(2_000_000);
        const begun = await fetch(slot, {
          method: "POST",
          headers: { "upload-complete": "?0", "upload-length": "2000000" },
        });
        expect(begun.status).toBe(201);
        const location = begun.headers.get("location")!;
        const first = sendPart(location, bytes.subarray(0, 1_000_000));
        await first.sent;
        if (fault === "breaks off") first.request.destroy();
        // the request before may keep bytes until the next one has its place
        await expect.poll(() => goOn(location, bytes), { timeout: 20_000 }).toBe(201);
        first.request.destroy();
        const { text } = await call(client, "measure", { upload_id: data["upload_id"] });
        expect(text).toBe("2000000 bytes");
      }
    },
  );
});

describe.each(fileRuntimes.filter(({ isInstalled }) => isInstalled))(
  "a server of the docs in $name",
  ({ program, run, serve }) => {
    /** Starts it in a folder with one file to serve, and gets the link of a file as a model does. */
    async function linkOf(port: number, args: readonly string[], uri: string): Promise<string> {
      const cwd = await mkdtemp(join(tmpdir(), "sluice-file-runtime-"));
      await mkdir(join(cwd, "files"));
      await writeFile(join(cwd, "files/hello.txt"), "Hello");
      const child = spawn(program, args, { cwd, stdio: "ignore" });
      onTestFinished(async () => {
        if (child.exitCode === null && child.kill()) await once(child, "exit");
        await rm(cwd, { recursive: true });
      });
      const endpoint = `http://127.0.0.1:${port}/mcp`;
      await untilAnswered(endpoint);
      const client = new Client(
        { name: "test", version: "1.0.0" },
        { versionNegotiation: { mode: "auto" } },
      );
      await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
      onTestFinished(() => client.close());
      const link = await client.callTool({ name: "get_download_link", arguments: { uri } });
      return Object(link.structuredContent)["download_url"];
    }

    test("hands a file out as a program over Node's modules", async () => {
      const port = await freePort();
      const endpoint = `http://127.0.0.1:${port}/mcp`;
      const file = await moveExample("e2e/examples/first-server.ts", endpoint);
      const url = await linkOf(port, [...run, file], "files://local/hello.txt");
      expect(await (await fetch(url)).text()).toBe("Hello");
    });

    test("hands a file out as a module whose default export has fetch", async () => {
      const port = await freePort();
      const code = await bundleWorker("../examples/fetch-server.ts");
      const moved = code
        .replace("port: 2532", `port: ${port}`)
        .replace(
          "createSluice({ storage",
          `createSluice({ endpoint: "http://127.0.0.1:${port}/mcp", storage`,
        );
      const folder = await mkdtemp(join(tmpdir(), "sluice-fetch-server-"));
      onTestFinished(() => rm(folder, { recursive: true }));
      const file = join(folder, "server.mjs");
      await writeFile(file, moved);
      const url = await linkOf(port, [...serve(port), file], "files://local/hello.txt");
      expect(await (await fetch(url)).text()).toBe("Hello");
    });
  },
);

const step = { "content-type": "application/partial-upload" };

/** Sends a part of a file in a request that stays open. */
function sendPart(url: string, bytes: Uint8Array) {
  const request = httpRequest(url, {
    method: "PATCH",
    headers: {
      ...step,
      "upload-offset": "0",
      "upload-complete": "?1",
      "content-length": 2_000_000,
    },
  });
  request.on("error", () => {});
  return { request, sent: new Promise((resolve) => void request.write(bytes, resolve)) };
}

/** Asks how much is there and sends the rest, as clients do; gives the status. */
async function goOn(url: string, bytes: Uint8Array<ArrayBuffer>): Promise<number> {
  const { headers } = await fetch(url, { method: "HEAD" });
  const offset = headers.get("upload-offset") ?? "0";
  const { status } = await fetch(url, {
    method: "PATCH",
    headers: { ...step, "upload-offset": offset, "upload-complete": "?1" },
    body: bytes.subarray(Number(offset)),
  });
  return status;
}
