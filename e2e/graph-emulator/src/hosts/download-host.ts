import type { IncomingMessage, ServerResponse } from "node:http";
import type { Item } from "../drive/drive.ts";
import { type EmulatedFault, sendJson } from "./hosts.ts";

/** The host of content: URLs that carry their own permission, matched byte for byte. */
export interface DownloadHost {
  /** A fresh URL of a file. */
  mint(item: Item, read?: () => Item["content"]): string;
  /** Makes every URL that was given so far an expired one. */
  expireAll(): void;
  /** Bytes of content that were sent. */
  readonly sentBytes: () => number;
  handle(
    request: IncomingMessage,
    response: ServerResponse,
    fault: EmulatedFault | undefined,
  ): Promise<void>;
}

interface DownloadLink {
  readonly item: Item;
  /** What is served: what the file holds then, not what it held when the URL was made. */
  readonly read: () => Item["content"];
  expiresAt: number;
}

/** Creates the host. `origin` is known once it listens. */
export function createDownloadHost({
  now,
  origin,
  linkTtlMs,
  expiredStatus,
}: {
  readonly now: () => number;
  readonly origin: () => string;
  readonly linkTtlMs: number;
  readonly expiredStatus: number;
}): DownloadHost {
  const links = new Map<string, DownloadLink>();
  let minted = 0;
  let sentBytes = 0;

  return {
    mint(item, read = () => item.content) {
      // lower-case escapes and a space: a rewritten query breaks the signature
      const path = `/_layouts/15/download.aspx?UniqueId=${item.id}&Translate=false&tempauth=v1.${++minted}x.a%2bb%20c&ApiVersion=2.0`;
      links.set(path, { item, read, expiresAt: now() + linkTtlMs });
      return `${origin()}${path}`;
    },
    expireAll() {
      for (const link of links.values()) link.expiresAt = 0;
    },
    sentBytes: () => sentBytes,
    async handle(request, response, fault) {
      const { method = "", url = "", headers } = request;
      if (method !== "GET" && method !== "HEAD") return sendJson(response, 405, undefined);
      const link = links.get(url);
      if (headers.authorization !== undefined || link === undefined)
        return sendJson(response, 401, undefined);
      if (link.expiresAt <= now()) return sendJson(response, expiredStatus, undefined);
      if (link.item.deleted) return sendJson(response, 404, undefined);
      const content = link.read();
      await sendContent(request, response, {
        item: link.item,
        content,
        fault,
        count: (bytes) => (sentBytes += bytes),
      });
    },
  };
}

/** Answers with content, or one range of it, as slowly as it is read. */
export async function sendContent(
  { method, headers }: IncomingMessage,
  response: ServerResponse,
  {
    item,
    content,
    fault = { on: /(?:)/ },
    count,
  }: {
    readonly item: Pick<Item, "id" | "name" | "cVersion">;
    readonly content: Item["content"];
    readonly fault?: EmulatedFault | undefined;
    readonly count: (bytes: number) => void;
  },
): Promise<void> {
  const { size } = content;
  const range = fault.ignoreRange ? undefined : parseRange(headers.range, size);
  if (range === "unsatisfiable") {
    return sendJson(response, 416, undefined, { "content-range": `bytes */${size}` });
  }
  const { start, end } = range ?? { start: 0, end: size };
  const etag = `"{${item.id}},${item.cVersion}${fault.isOtherVersion ? "0" : ""}"`;
  response.writeHead(range ? 206 : 200, {
    "accept-ranges": "bytes",
    "access-control-allow-origin": "*",
    "content-disposition": `attachment;filename*=UTF-8''${encodeURIComponent(item.name)}`,
    "content-type": "application/octet-stream",
    "content-length": end - start,
    ...(!fault.isWithoutVersion && { etag }),
    ...(range && { "content-range": `bytes ${start}-${end - 1}/${size}` }),
  });
  if (method === "HEAD") return void response.end();

  const cut = Math.min(
    fault.resetAfter ?? Infinity,
    fault.truncateAfter ?? Infinity,
    fault.stallAfter ?? Infinity,
  );
  const last = Math.min(end, start + cut);
  for (let at = start; at < last;) {
    const to = Math.min(last, at + 256 * 1024);
    const bytes = content.read(at, to);
    const chunk =
      fault.corruptAt !== undefined && fault.corruptAt >= at && fault.corruptAt < to
        ? bytes.map((byte, i) => (at + i === fault.corruptAt ? byte ^ 1 : byte))
        : bytes;
    count(chunk.byteLength);
    if (!response.write(chunk) && !(await isDrained(response))) return;
    at = to;
  }
  if (fault.stallAfter !== undefined) return;
  if (fault.resetAfter !== undefined) return void response.socket?.resetAndDestroy();
  if (last < end) return void response.socket?.end();
  response.end();
}

/** Waits for room to write; false when the reader is gone. */
function isDrained(response: ServerResponse): Promise<boolean> {
  return new Promise((resolve) => {
    const done = (isOpen: boolean) => (): void => {
      response.off("drain", onDrain);
      response.off("close", onClose);
      resolve(isOpen);
    };
    const onDrain = done(true);
    const onClose = done(false);
    response.on("drain", onDrain);
    response.on("close", onClose);
    if (response.destroyed) onClose();
  });
}

/** One range, also as a suffix; anything else is answered with the whole. */
function parseRange(
  header: string | undefined,
  size: number,
): { start: number; end: number } | "unsatisfiable" | undefined {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(header ?? "") ?? [];
  if (first === undefined || (first === "" && last === "")) return undefined;
  const start = first === "" ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === "" || last === "" ? size : Math.min(size, Number(last) + 1);
  if (start >= size) return "unsatisfiable";
  return end <= start ? undefined : { start, end };
}
