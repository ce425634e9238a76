/**
 * Reads one file of a server that it starts: `node stdio-client.js binary|base64|official|raw SERVER DIRECTORY
 * NAME WARM_UP`, and tells what that took. The clock begins when the server is there and warm.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { readBinary } from "@sluice/binary-transfer/client";
import { createStdioClientTransport } from "@sluice/transport-stdio/client";

const [mode = "", server = "", directory = "", name = "", warmUp = ""] = process.argv.slice(2);
const command = process.execPath;
const args = [server, mode, directory];

/** What one read took. */
export interface StdioWork {
  readonly bytes: number;
  readonly seconds: number;
  /** Milliseconds until calls in the middle were answered, at most; 0 without any. */
  readonly slowestCallMs: number;
}

const work = mode === "raw" ? await readRaw() : await readResources();
console.log(JSON.stringify(work satisfies StdioWork));

async function readRaw(): Promise<StdioWork> {
  const child = spawn(command, [...args, name], { stdio: ["ignore", "pipe", "inherit"] });
  let bytes = 0;
  let startedAt = 0;
  child.stdout.on("data", (chunk: Buffer) => {
    startedAt ||= performance.now();
    bytes += chunk.length;
  });
  await once(child.stdout, "end");
  return { bytes, seconds: (performance.now() - startedAt) / 1_000, slowestCallMs: 0 };
}

async function readResources(): Promise<StdioWork> {
  const client = new Client(
    { name: "bench", version: "0.0.0" },
    { versionNegotiation: { mode: "auto" } },
  );
  const transport =
    mode === "official"
      ? // its default of 10 MiB would end every larger read
        new StdioClientTransport({ command, args, maxBufferSize: 2 ** 30 })
      : createStdioClientTransport({ command, args, maxMessageBytes: 2 ** 30 });
  await client.connect(transport);
  await read(client, warmUp);
  const startedAt = performance.now();
  const { bytes, calls } = await read(client, name);
  const seconds = (performance.now() - startedAt) / 1_000;
  const slowestCallMs = Math.max(0, ...(await Promise.all(calls)));
  await client.close();
  return { bytes, seconds, slowestCallMs };
}

async function read(
  client: Client,
  what: string,
): Promise<{ bytes: number; calls: Promise<number>[] }> {
  const uri = `files://bench/${what}`;
  const calls: Promise<number>[] = [];
  if (mode !== "binary") {
    const { contents } = await client.readResource({ uri }, { timeout: 120_000 });
    const [content] = contents;
    if (content === undefined || !("blob" in content)) throw new Error("bench: no blob");
    return { bytes: Buffer.from(content.blob, "base64").length, calls };
  }
  const { body, size } = await readBinary(client, uri);
  let bytes = 0;
  for await (const chunk of body) {
    // one small message in every eighth of a large transfer
    if (size > 2 ** 26 && bytes % (size / 8) < chunk.length) calls.push(call(client));
    bytes += chunk.length;
  }
  return { bytes, calls };
}

async function call(client: Client): Promise<number> {
  const startedAt = performance.now();
  await client.listResourceTemplates({}, { cacheMode: "bypass" } as never);
  return performance.now() - startedAt;
}
