import { type ByteRange, SluiceError } from "@sluice/core";
import type { OpenedObject, StorageBackend } from "@sluice/storage";
import { createBody, ensureKey, ensureRange, quoteKey } from "@sluice/storage/plugin";
import { Agent, type Dispatcher } from "undici";
import { failure, statusError } from "./errors.ts";
import { readIndex, toPage } from "./list.ts";
import { parseContentRange, toObjectInfo } from "./object-info.ts";

/** Settings of {@link createWebBackend}. */
export interface WebBackendOptions {
  /**
   * What the URL of every object starts with, up to and with the last slash. Its `index.json` is
   * an array of the keys.
   */
  readonly baseUrl: string;
}

/** Creates a read-only backend over the files of a web server. */
export function createWebBackend({ baseUrl }: WebBackendOptions): StorageBackend {
  // undici and not fetch: fetch decodes what is stored with a content coding
  const agent = new Agent();
  const { origin, pathname } = new URL(baseUrl);

  /** One request: no retries, no redirects. */
  const request = async (
    who: string,
    path: string,
    options: Pick<Dispatcher.RequestOptions, "method"> & {
      readonly headers?: Record<string, string>;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<Dispatcher.ResponseData> => {
    const { method, headers, signal } = options;
    signal?.throwIfAborted();
    try {
      const response = await agent.request({
        origin,
        path: pathname + path,
        method,
        headers: { "accept-encoding": "identity", ...headers },
        ...(signal && { signal }),
      });
      // a body that is destroyed says so with an event; whoever reads it learns it anyway
      response.body.on("error", () => {});
      return response;
    } catch (error) {
      signal?.throwIfAborted();
      throw failure(error, who);
    }
  };

  return {
    name: "web",

    async describe(key, { signal } = {}) {
      ensureKey(key, "web: describe");
      const who = `web: describe ${quoteKey(key)}`;
      const { statusCode, headers, body } = await request(who, toPath(key), {
        method: "HEAD",
        signal,
      });
      await body.dump();
      if (statusCode !== 200) throw statusError(statusCode, headers, who);
      return toObjectInfo(key, headers);
    },

    async open(key, { range, ifMatch, signal } = {}) {
      ensureKey(key, "web: open");
      const who = `web: open ${quoteKey(key)}`;
      if (range) ensureRange(range, who);
      const response = await request(who, toPath(key), {
        method: "GET",
        headers: {
          ...(range && { range: toRangeHeader(range) }),
          ...(ifMatch !== undefined && { "if-match": `"${ifMatch}"` }),
        },
        signal,
      });
      try {
        return toOpened(key, response, { range, ifMatch, signal, who });
      } catch (error) {
        response.body.destroy();
        throw error;
      }
    },

    async list(options = {}) {
      const who = "web: list";
      const response = await request(who, "index.json", { method: "GET", signal: options.signal });
      const keys = await readIndex(response, who);
      return toPage(keys, options, who);
    },

    close: () => agent.destroy(),
  };
}

/** Segments are encoded one by one: a key is text, in which %2F is no slash and ? no query. */
function toPath(key: string): string {
  return key.split("/").map(encodeURIComponent).join("/");
}

/** `[start, end)` as HTTP has it, where the last byte is named; no bytes cannot be asked for. */
function toRangeHeader({ start, end }: ByteRange): string {
  return `bytes=${start}-${end === undefined ? "" : Math.max(start, end - 1)}`;
}

interface Asked {
  readonly range: ByteRange | undefined;
  readonly ifMatch: string | undefined;
  readonly signal: AbortSignal | undefined;
  readonly who: string;
}

/** One answer is one version, so `info` describes the bytes of the body. */
function toOpened(
  key: string,
  { statusCode, headers, body }: Dispatcher.ResponseData,
  { range, ifMatch, signal, who }: Asked,
): OpenedObject {
  if (statusCode !== 200 && statusCode !== 206) throw statusError(statusCode, headers, who);
  if (range && statusCode === 200)
    throw new SluiceError("unsupported", `${who}: the server ignores ranges`);
  const delivered = range && parseContentRange(headers["content-range"]);
  const info = { ...toObjectInfo(key, headers), ...(delivered && { size: delivered.size }) };
  // not every server looks at If-Match
  if (ifMatch !== undefined && info.etag !== ifMatch)
    throw new SluiceError("precondition_failed", `${who}: the object has changed`);
  if (range && delivered?.start !== range.start)
    throw new SluiceError("corrupt", `${who}: another range came than was asked for`);
  // HTTP cannot ask for no bytes: one came that was not asked for
  const isEmpty = range !== undefined && range.end === range.start;
  const chunks = body[Symbol.asyncIterator]();
  return {
    info,
    ...(delivered && {
      range: { start: delivered.start, end: isEmpty ? delivered.start : delivered.end },
    }),
    body: createBody({
      async next() {
        if (isEmpty) return undefined;
        try {
          return (await chunks.next()).value as Uint8Array | undefined;
        } catch (error) {
          throw new SluiceError("interrupted", `${who}: the connection broke`, { cause: error });
        }
      },
      release: () => void body.destroy(),
      signal,
    }),
  };
}
