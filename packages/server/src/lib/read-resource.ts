import type { ReadResourceResult } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import type { OpenedObject } from "@sluice/storage";
import { discardSource } from "./reply.ts";
import { resourceType } from "./resource-type.ts";
import { callerOf, outcomeOf, tagOf, type SluiceParts } from "./sluice-parts.ts";
import { eraOf } from "./client-streaming.ts";
import { storageFault } from "./storage-fault.ts";
import type { StreamCall } from "./stream-resource.ts";

const defaultMaxReadBytes = 8 * 1024 * 1024;

/**
 * Answers `resources/read`: `text` for a textual type in valid UTF-8, else a base64 `blob`. Above
 * `maxReadBytes` it throws `too_large` before anything is read, where the size is known.
 */
export async function readResource(
  parts: SluiceParts,
  { mcp, ctx, uri, isOurs }: Pick<StreamCall, "mcp" | "ctx" | "uri" | "isOurs">,
): Promise<ReadResourceResult> {
  const entry = parts.beginAudit({ action: "read", era: eraOf(mcp), uri });
  try {
    const { principal } = await parts.identify(callerOf(ctx, mcp));
    entry.facts.principal = tagOf(principal);
    const key = parts.mapper.toKey(uri);
    const canonical = parts.mapper.toUri(key);
    await parts.ensureAccess(principal, canonical, "read");
    if (uri !== canonical && !(await isOurs(canonical, ctx)))
      throw new SluiceError("not_found", "sluice: read: another spelling of what is not ours");
    const opened = await parts
      .storageOf(principal)
      .open(key, { signal: ctx.mcpReq.signal })
      .catch((error: unknown) => {
        throw storageFault(error);
      });
    const bytes = await readAll(opened, parts.options.maxReadBytes ?? defaultMaxReadBytes);
    entry.end("complete", { bytes: bytes.byteLength });
    const mimeType = resourceType(opened.info);
    const text = opened.info.contentEncoding === undefined ? textOf(bytes, mimeType) : undefined;
    const content = text === undefined ? { blob: encodeBase64(bytes) } : { text };
    return { contents: [{ uri, mimeType, ...content }] };
  } catch (error) {
    if (ctx.mcpReq.signal.aborted) entry.end("aborted");
    else entry.end(outcomeOf(error), { reason: SluiceError.is(error) ? error.code : "internal" });
    throw error;
  }
}

async function readAll(opened: OpenedObject, maxBytes: number): Promise<Uint8Array> {
  const { size = 0 } = opened.info;
  try {
    ensureSmall(size, maxBytes);
  } catch (error) {
    await discardSource(opened, error);
    throw error;
  }
  const chunks: Uint8Array[] = [];
  let received = 0;
  // leaving the loop by an error cancels the body
  for await (const chunk of opened.body) {
    received += chunk.byteLength;
    ensureSmall(received, maxBytes);
    chunks.push(chunk);
  }
  const bytes = new Uint8Array(received);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}

function ensureSmall(bytes: number, maxBytes: number): void {
  if (bytes > maxBytes)
    throw new SluiceError("too_large", `sluice: read: larger than ${maxBytes} bytes; stream it`, {
      size: bytes,
    });
}

const textual =
  /^text\/|[/+](?:json|xml|yaml|toml)(?:$|;)|^application\/(?:javascript|x-sh|sql|x-yaml|x-ndjson)(?:$|;)/;

function textOf(bytes: Uint8Array, mimeType: string): string | undefined {
  if (!textual.test(mimeType)) return undefined;
  const charset = /; charset=(.*)$/i.exec(mimeType)?.[1];
  if (charset !== undefined && !/^(?:utf-8|us-ascii)$/i.test(charset)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function encodeBase64(bytes: Uint8Array): string {
  // many times faster, where the runtime has it
  const { Buffer } = globalThis as { Buffer?: typeof globalThis.Buffer };
  if (Buffer) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
  const step = 0x8000;
  let binary = "";
  for (let at = 0; at < bytes.length; at += step)
    binary += String.fromCharCode(...bytes.subarray(at, at + step));
  return btoa(binary);
}
