/**
 * Takes files from an MCP server with the official SDK's client, then tells what that took:
 * `node mcp-client.js WAY ENDPOINT …`. What only one way needs is loaded there: it would add to the memory of the others.
 */
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { z } from "zod";
import { saveBare } from "../lib/bare-file.ts";
import { reportWork, wayOf } from "../lib/program.ts";

type Options = ConstructorParameters<typeof Client>[1];
type Transport = Parameters<Client["connect"]>[0];

const [way, endpoint = "", ...rest] = process.argv.slice(2);
const maxStreamBytes = 16 * 1024 ** 3;

async function connect(
  options: Options = {},
  transport: Transport = new StreamableHTTPClientTransport(new URL(endpoint)),
): Promise<Client> {
  const client = new Client(
    { name: "bench", version: "0.0.0" },
    // the SDK gives up after 64 pages
    { versionNegotiation: { mode: "auto" }, listMaxPages: 0, ...options },
  );
  await client.connect(transport);
  return client;
}

/** A client that takes streams of Sluice. */
async function connectStreaming() {
  const { createStreaming, streamResource } = await import("@sluice/client");
  const { fetch: streamingFetch, capabilities } = createStreaming({ maxStreamBytes });
  const client = await connect(
    { capabilities },
    new StreamableHTTPClientTransport(new URL(endpoint), { fetch: streamingFetch }),
  );
  const open = (uri: string, trustedOrigin = "") =>
    streamResource(client, uri, {
      maxStreamBytes,
      ...(trustedOrigin && { trustedOrigins: [trustedOrigin] }),
    });
  return { client, open };
}

/** Bytes of a body that is thrown away. */
async function countBytes(body: unknown): Promise<number> {
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array>) bytes += chunk.length;
  return bytes;
}

async function readBase64(client: Client, uri: string): Promise<number> {
  const { contents } = await client.readResource({ uri }, { timeout: 120_000 });
  const [content] = contents;
  if (content === undefined || !("blob" in content)) throw new Error("bench: no blob");
  return Buffer.from(content.blob, "base64").length;
}

/** Reads one resource after another of the same way, the first to load and warm everything. */
async function readOne(
  read: (what: string) => Promise<number>,
  [what = "", warmUp = ""]: readonly string[] = rest,
): Promise<void> {
  await read(warmUp);
  await reportWork(() => read(what));
}

/** Saves every resource of the server, several at a time: `DIRECTORY JOBS`. */
async function saveAll(
  client: Client,
  save: (uri: string, path: string) => Promise<number>,
): Promise<void> {
  const [directory = "", jobs = "1"] = rest;
  await reportWork(async () => {
    const { resources } = await client.listResources();
    const uris = resources.values();
    let bytes = 0;
    const job = async (): Promise<void> => {
      for (const { uri } of uris) {
        const size = await save(uri, join(directory, new URL(uri).pathname.slice(1)));
        bytes += size;
      }
    };
    await Promise.all(Array.from({ length: Number(jobs) }, job));
    return bytes;
  });
}

const ways: Readonly<Record<string, () => Promise<void>>> = {
  /** What Sluice replaces, `resources/read`: `URI WARM_UP_URI`. */
  async base64() {
    const client = await connect();
    await readOne((uri) => readBase64(client, uri));
  },
  /** Streams to nowhere, or verified to a file: `URI WARM_UP_URI [TRUSTED_ORIGIN [PATH [CONNECTIONS]]]`. */
  async sluice() {
    const { open } = await connectStreaming();
    const [uri = "", warmUp = "", trustedOrigin, path = "", connections = "1"] = rest;
    const take = async (what: string): Promise<number> => {
      const reader = (await open(what, trustedOrigin)).body.getReader({ mode: "byob" });
      let buffer = new ArrayBuffer(256 * 1024);
      for (let bytes = 0; ;) {
        const { done, value } = await reader.read(new Uint8Array(buffer));
        if (done) return bytes;
        bytes += value.byteLength;
        buffer = value.buffer;
      }
    };
    await take(warmUp);
    await reportWork(async () => {
      if (path === "") return take(uri);
      const stream = await open(uri, trustedOrigin);
      return (await stream.saveTo(path, { connections: Number(connections) })).size;
    });
  },
  async tree() {
    const { client, open } = await connectStreaming();
    await saveAll(client, async (uri, path) => (await (await open(uri)).saveTo(path)).size);
  },
  /** The least that does so: the answer to each call goes to `saveBare` before the SDK sees an empty one. It syncs. */
  async "bare-tree"() {
    const { createStreaming } = await import("@sluice/client");
    const { capabilities } = createStreaming({ maxStreamBytes });
    const sizes = new Map<string, number>();
    const [directory = ""] = rest;
    const fetchAndSave = async (url: string | URL, init?: RequestInit): Promise<Response> => {
      const answer = await fetch(url, init);
      const uri = answer.headers.get("mcp-resource-uri");
      if (uri === null || !answer.body) return answer;
      const path = join(directory, new URL(uri).pathname.slice(1));
      sizes.set(uri, await saveBare(answer.body, path, true));
      const { id } = JSON.parse(init?.body as string) as { readonly id: number };
      return Response.json({ jsonrpc: "2.0", id, result: { resultType: "complete" } });
    };
    const client = await connect(
      { capabilities },
      new StreamableHTTPClientTransport(new URL(endpoint), { fetch: fetchAndSave }),
    );
    await saveAll(client, async (uri) => {
      await client.request({ method: "resources/stream", params: { uri } }, z.looseObject({}));
      return sizes.get(uri) ?? 0;
    });
  },
  /** Asks a tool for a link and gets the file: `NAME WARM_UP_NAME`. */
  async link() {
    const client = await connect();
    await readOne(async (name) => {
      const result = await client.callTool({ name: "get_link", arguments: { name } });
      const [content] = result.content;
      if (content?.type !== "text") throw new Error("bench: no link");
      const answer = await fetch(content.text);
      if (!answer.ok) throw new Error(`bench: HTTP ${answer.status}`);
      return countBytes(answer.body);
    });
  },
  /** Bytes beside their message: `URI WARM_UP_URI`. */
  async multipart() {
    const { createBinaryFetch } = await import("@sluice/binary-transfer/client");
    const { fetch: binaryFetch } = createBinaryFetch();
    const options = { fetch: binaryFetch };
    await readBinary(
      await connect({}, new StreamableHTTPClientTransport(new URL(endpoint), options)),
    );
  },
  async frames() {
    await readBinary(await connectSocket({ binary: {} }));
  },
  async "socket-base64"() {
    const client = await connectSocket({});
    await readOne((uri) => readBase64(client, uri));
  },
};

async function connectSocket(options: { readonly binary?: object }): Promise<Client> {
  const { createWebSocketTransport } = await import("@sluice/transport-ws/client");
  const url = endpoint.replace("http:", "ws:");
  return connect({}, createWebSocketTransport(url, { maxMessageBytes: 2 ** 30, ...options }));
}

async function readBinary(client: Client): Promise<void> {
  const transfer = await import("@sluice/binary-transfer/client");
  await readOne(async (uri) => {
    const { body, transferMode } = await transfer.readBinary(client, uri);
    if (transferMode !== "binary") throw new Error("bench: nothing was negotiated");
    return countBytes(body);
  });
}

await wayOf(ways, way)();
// connections that are kept alive would keep the process
process.exit();
