import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { handWritten } from "../../packages/bridge/test/filing.ts";

/** Bytes of a blob, the same for each run. */
export function blobOf(bytes: number): Buffer {
  const blob = Buffer.alloc(bytes);
  for (let at = 0; at < bytes; at += 1) blob[at] = (at * 31) % 251;
  return blob;
}

/** Text of so many bytes, with quotes, line ends and letters of two bytes. */
export function textOf(bytes: number): string {
  const line = 'A "line" of text, größer than most\n';
  return line.repeat(Math.ceil(bytes / Buffer.byteLength(line))).slice(0, bytes);
}

export const large = { blob: blobOf(300_000), text: textOf(5_000_000) } as const;

/** Results of the tool `give`, by its argument `what`. */
export const gifts: Readonly<Record<string, () => object>> = {
  text: () => ({
    content: [
      { type: "text", text: large.text },
      { type: "text", text: "small" },
    ],
  }),
  image: () => ({
    content: [{ type: "image", data: large.blob.toString("base64"), mimeType: "image/png" }],
  }),
  page: () => ({
    content: [
      {
        type: "resource",
        resource: {
          uri: "big://a/page.html",
          mimeType: "text/html",
          text: `<script>alert(1)</script>${"<p>x</p>".repeat(20_000)}`,
        },
      },
    ],
  }),
  // canonical base64 up to its last character
  almost: () => ({
    contents: [],
    content: [{ type: "image", data: `${large.blob.toString("base64")}!`, mimeType: "image/png" }],
  }),
  structured: () => ({
    content: [{ type: "text", text: "see the structure" }],
    structuredContent: { rows: 3, csv: large.text },
  }),
  many: () => ({
    content: Array.from({ length: 4 }, (_, at) => ({
      type: "text",
      text: `${at}${"x".repeat(100_000)}`,
    })),
  }),
  small: () => ({ content: [{ type: "text", text: "a small answer" }] }),
};

/** What a call gets, also of a server over stdio. */
export function answerOf(method: string, params: Record<string, unknown>): object | undefined {
  if (method === "tools/list")
    return { result: { tools: [{ name: "give", inputSchema: { type: "object" } }] } };
  if (method === "resources/read") {
    if (params["uri"] !== "big://a/blob.bin")
      return { error: { code: -32_002, message: "Resource not found" } };
    const blob = large.blob.toString("base64");
    return { result: { contents: [{ uri: params["uri"], mimeType: "x/y", blob }] } };
  }
  if (method !== "tools/call") return undefined;
  const { what } = params["arguments"] as { what: string };
  const gift = gifts[what];
  return gift && { result: gift() };
}

/** A server of 2025-11-25 over HTTP. `stall` writes some of a blob and waits until its caller goes. */
export function startLargeServer(onStall: () => void = () => {}): Promise<URL> {
  return handWritten(async ({ method, params, id }, response) => {
    const { what } = (params["arguments"] ?? {}) as { what?: string };
    if (what === "stall") return stall(id, response, onStall);
    return answerOf(method, params);
  });
}

async function stall(
  id: unknown,
  response: ServerResponse,
  onStall: () => void,
): Promise<undefined> {
  response.writeHead(200, { "content-type": "application/json" });
  const text = large.blob.toString("base64");
  response.write(
    `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[{"type":"image","mimeType":"x/y","data":"`,
  );
  response.write(text, onStall);
  // drops go on, so that a bridge that lets go of them shows
  const drops = setInterval(() => response.write(text.slice(0, 4_000)), 20);
  await once(response, "close");
  clearInterval(drops);
  return undefined;
}
