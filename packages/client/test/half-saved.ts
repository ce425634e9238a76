import { writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { EXTENSION_ID } from "@sluice/core/internal";
import { randomPartName } from "../src/save/part-name.ts";
import { recordName, writeRecord } from "../src/save/resume-record.ts";

/** A resource as a literal server has it, and how it is requested. */
export interface LiteralResource {
  readonly uri: string;
  readonly content: Buffer;
  /** Strong, with quotes. */
  readonly etag: string;
  /** The `Range` of each request, in order; `undefined` for one of the whole. */
  readonly ranges: (string | undefined)[];
}

/** Answers a request for the bytes as RFC 9110 says, for ranges with an open end. */
export function sendLiteral(
  { uri, content, etag, ranges }: LiteralResource,
  { headers }: IncomingMessage,
  response: ServerResponse,
): void {
  ranges.push(headers.range);
  const isCurrent = headers["if-range"] === undefined || headers["if-range"] === etag;
  const [, from = ""] = /^bytes=(\d+)-$/.exec((isCurrent && headers.range) || "") ?? [];
  const start = Number(from);
  response.writeHead(from === "" ? 200 : 206, {
    "content-length": content.length - start,
    etag,
    "mcp-resource-uri": uri,
    "accept-ranges": "bytes",
    ...(from !== "" && {
      "content-range": `bytes ${start}-${content.length - 1}/${content.length}`,
    }),
  });
  response.end(content.subarray(start));
}

/** Results of a literal server of MCP 2025-11-25 that streams one resource from `url`. */
export function literalResult(
  method: string,
  { protocolVersion, uri }: Readonly<Record<string, unknown>>,
  url: URL,
): object | undefined {
  const capabilities = { resources: {}, tools: {}, extensions: { [EXTENSION_ID]: {} } };
  const serverInfo = { name: "literal", version: "1" };
  if (method === "initialize") return { result: { protocolVersion, capabilities, serverInfo } };
  if (method !== "resources/stream") return undefined;
  return { result: { uri, downloadUrl: url.href, _meta: { [EXTENSION_ID]: { auth: "self" } } } };
}

/** Leaves in a folder what a save of the resource leaves that was interrupted after `keptBytes`. */
export async function leaveHalf(
  folder: string,
  name: string,
  { uri, content, etag }: LiteralResource,
  keptBytes: number,
): Promise<void> {
  const part = randomPartName("kept");
  await writeFile(join(folder, part), content.subarray(0, keptBytes));
  const record = { uri, etag, size: content.length, part, keptBytes };
  await writeRecord(join(folder, recordName(uri, name)), record);
}
