// The demo's client in a process of its own, so that its memory can be told from the server's.
import { writeFile } from "node:fs/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createStreaming, streamResource } from "@sluice/client";
import type { DeliveryMode, RevisionKind } from "@sluice/core/internal";
import { createFileSender } from "@sluice/client/send";
import { createWebSocketTransport } from "@sluice/transport-ws/client";
import { answerQuestions, markIdle, tellNews } from "./lib/peer.ts";

/** What to fetch, and where to put it. */
export interface Errand {
  readonly url: string;
  readonly uri: string;
  readonly path: string;
  /** Origins that bytes may come from beside the server's own. */
  readonly trustedOrigins?: readonly string[];
}

/** How the errand went. */
export interface Fetched {
  readonly mode: DeliveryMode | "base64";
  readonly durationMs: number;
}

/** What a tool is to be told about, and in which protocol era. */
export interface Showing {
  readonly url: string;
  readonly era: RevisionKind;
  readonly path: string;
}

/** What the tool found, and how long that took. */
export interface Shown {
  readonly facts: { readonly width: number; readonly height: number; readonly sha256: string };
  readonly durationMs: number;
}

answerQuestions({ list, stream, read, showPicture });

async function list({ url }: { url: string }): Promise<unknown> {
  const client = await connect(url);
  const { resources } = await client.request({ method: "resources/list", params: {} });
  await client.close();
  return resources;
}

/** Sluice: the bytes go straight from the network into the file. */
async function stream({ url, uri, path, trustedOrigins = [] }: Errand): Promise<Fetched> {
  const client = await connect(url);
  markIdle();
  const startedAt = performance.now();
  const resource = await streamResource(client, uri, {
    trustedOrigins,
    maxStreamBytes: 2 ** 40,
    onProgress: tellNews,
  });
  await resource.saveTo(path);
  const durationMs = performance.now() - startedAt;
  await client.close();
  return { mode: resource.mode, durationMs };
}

/** Without Sluice: the bytes come as base64 inside one JSON message. */
async function read({ url, uri, path }: Errand): Promise<Fetched> {
  const client = new Client({ name: "demo", version: "1.0.0" }, modern);
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  markIdle();
  const startedAt = performance.now();
  const { contents } = await client.readResource({ uri });
  const [content] = contents;
  if (content === undefined) throw new Error(`${uri} came without content`);
  await writeFile(path, "blob" in content ? Buffer.from(content.blob, "base64") : content.text);
  const durationMs = performance.now() - startedAt;
  await client.close();
  return { mode: "base64", durationMs };
}

/** Calls a tool that asks for a picture, and sends it one. */
async function showPicture({ url, era, path }: Showing): Promise<Shown> {
  const sender = createFileSender({
    endpoint: url,
    onFilesRequested: () => ({ action: "accept", files: { picture: [path] } }),
  });
  const FileClient = sender.extend(Client);
  const client = new FileClient(
    { name: "demo", version: "1.0.0" },
    { versionNegotiation: { mode: era === "modern" ? "auto" : "legacy" } },
  );
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { fetch: sender.fetch() }));
  markIdle();
  const startedAt = performance.now();
  const { structuredContent, content } = await client.callTool({ name: "describe_picture" });
  const durationMs = performance.now() - startedAt;
  await client.close();
  if (!structuredContent) throw new Error(JSON.stringify(content));
  return { facts: structuredContent as unknown as Shown["facts"], durationMs };
}

const modern = { versionNegotiation: { mode: "auto" } } as const;

async function connect(url: string): Promise<Client> {
  const { fetch, capabilities } = createStreaming();
  const client = new Client({ name: "demo", version: "1.0.0" }, { capabilities, ...modern });
  const transport = url.startsWith("ws:")
    ? createWebSocketTransport(url)
    : new StreamableHTTPClientTransport(new URL(url), { fetch });
  await client.connect(transport);
  return client;
}
