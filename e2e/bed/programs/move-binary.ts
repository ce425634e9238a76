/** A client in a process of its own: takes and gives bytes beside messages as its parent asks for, one after the other. */
import { performance } from "node:perf_hooks";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  binaryContent,
  createBinaryFetch,
  readBinary,
  type Outlet,
} from "@sluice/binary-transfer/client";
import { SluiceError } from "@sluice/core";
import { createWebSocketTransport } from "@sluice/transport-ws/client";
import { watchMemory } from "../watch.ts";

/** One transfer. */
export interface MoveOrder {
  readonly url: string;
  readonly over: "http" | "websocket";
  /** Resource to read. */
  readonly uri?: string;
  /** Bytes to send, instead. */
  readonly size?: number;
  /** What to do with what is read. Default `count`. */
  readonly use?: "count" | "keep";
}

/** How it went. */
export interface MoveReport {
  readonly bytes?: number;
  readonly transferMode?: string;
  readonly seconds?: number;
  /** Milliseconds that JSON pings took meanwhile on the same transport, the slowest last. */
  readonly pingsMs?: readonly number[];
  readonly error?: string;
}

const memory = watchMemory();
const options = { maxBinaryBytes: 2 ** 34 };

async function run(order: MoveOrder): Promise<MoveReport> {
  const { over, url } = order;
  const binary = createBinaryFetch(options);
  const socket = createWebSocketTransport(url.replace("http:", "ws:"), { binary: options });
  const client = new Client(
    { name: "mover", version: "1" },
    { versionNegotiation: { mode: "auto" } },
  );
  await client.connect(
    over === "http"
      ? new StreamableHTTPClientTransport(new URL(url), { fetch: binary.fetch })
      : socket,
  );
  const outlet = (): Outlet => (over === "http" ? binary.outlet! : socket.outlet!);
  const pingsMs: number[] = [];
  const moved = new AbortController();
  async function ping(): Promise<void> {
    while (!moved.signal.aborted) {
      const at = performance.now();
      await client.listTools();
      pingsMs.push(performance.now() - at);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  const pinging = ping();
  const at = performance.now();
  try {
    const result = await move(client, outlet, order);
    const seconds = (performance.now() - at) / 1_000;
    moved.abort();
    await pinging;
    return { ...result, seconds, pingsMs: pingsMs.toSorted((a, b) => a - b) };
  } finally {
    moved.abort();
    await client.close();
    binary.close();
  }
}

async function move(
  client: Client,
  outlet: () => Outlet,
  { uri, size = 0, use }: MoveOrder,
): Promise<MoveReport> {
  let bytes = 0;
  if (uri === undefined) {
    const chunk = new Uint8Array(2 ** 17);
    let left = size;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const part = chunk.subarray(0, Math.min(left, chunk.length));
        left -= part.length;
        if (part.length > 0) controller.enqueue(part);
        else controller.close();
      },
    });
    const file = await binaryContent(outlet(), {
      type: "blob",
      mimeType: "application/octet-stream",
      bytes: { source: { body }, size },
    });
    const { content } = await client.callTool(
      { name: "count", arguments: { file } },
      { timeout: 600_000 },
    );
    return { bytes: Number((content as { text: string }[])[0]!.text), transferMode: "binary" };
  }
  const { body, transferMode } = await readBinary(client, uri);
  const kept = [];
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (use === "keep") kept.push(Buffer.from(chunk));
  }
  return { bytes, transferMode };
}

process.on("message", (order: MoveOrder | "memory") => {
  if (order === "memory") {
    process.send!(memory());
    return;
  }
  run(order).then(
    (report) => process.send!(report),
    (error: unknown) =>
      process.send!({
        error: SluiceError.is(error) ? `${error.code}: ${error.message}` : String(error),
      } satisfies MoveReport),
  );
});
process.on("disconnect", () => process.exit(0));
process.send!("ready");
