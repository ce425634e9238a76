import { type ByteRange, definedMembers, SluiceError } from "@sluice/core";
import type { OpenedObject, StorageBackend } from "@sluice/storage";
import {
  callService,
  createBody,
  ensureKey,
  ensureRange,
  quoteKey,
  type ServiceCall,
} from "@sluice/storage/plugin";
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

  /** One request: a deadline, no retries, no redirects. */
  const request = (
    call: ServiceCall,
    path: string,
    { method, headers }: Pick<Dispatcher.RequestOptions, "method"> & { headers?: HeadersSent },
  ): Promise<Dispatcher.ResponseData> =>
    callService(
      call,
      async (ended) => {
        const response = await agent.request({
          origin,
          path: pathname + path,
          method,
          headers: { "accept-encoding": "identity", ...headers },
          signal: ended,
        });
        // a body that is destroyed emits an error, which needs a listener
        response.body.on("error", () => {});
        return response;
      },
      { toError: failure, discard: (late) => void late.body.destroy() },
    );

  return {
    name: "web",

    async describe(key, { signal } = {}) {
      ensureKey(key, "web: describe");
      const operation = `web: describe ${quoteKey(key)}`;
      const { statusCode, headers, body } = await request({ operation, signal }, toPath(key), {
        method: "HEAD",
      });
      await body.dump();
      if (statusCode !== 200) throw statusError(statusCode, headers, operation);
      return toObjectInfo(key, headers);
    },

    async open(key, { range, ifMatch, signal } = {}) {
      ensureKey(key, "web: open");
      const operation = `web: open ${quoteKey(key)}`;
      if (range) ensureRange(range, operation);
      const response = await request({ operation, signal }, toPath(key), {
        method: "GET",
        headers: definedMembers({
          range: range && toRangeHeader(range),
          "if-match": ifMatch === undefined ? undefined : `"${ifMatch}"`,
        }),
      });
      try {
        return toOpened(key, response, { range, ifMatch, signal, operation });
      } catch (error) {
        response.body.destroy();
        throw error;
      }
    },

    async list(options = {}) {
      const operation = "web: list";
      const response = await request({ operation, signal: options.signal }, "index.json", {
        method: "GET",
      });
      const keys = await readIndex(response, operation);
      return toPage(keys, options, operation);
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

type HeadersSent = Readonly<Record<string, string>>;

/** What was asked of `open`. */
interface OpenRequest {
  readonly range: ByteRange | undefined;
  readonly ifMatch: string | undefined;
  readonly signal: AbortSignal | undefined;
  readonly operation: string;
}

/** One answer is one version, so `info` describes the bytes of the body. */
function toOpened(
  key: string,
  { statusCode, headers, body }: Dispatcher.ResponseData,
  { range, ifMatch, signal, operation }: OpenRequest,
): OpenedObject {
  if (statusCode !== 200 && statusCode !== 206) throw statusError(statusCode, headers, operation);
  if (range && statusCode === 200)
    throw new SluiceError("unsupported", `${operation}: the server ignores ranges`);
  const delivered = range && parseContentRange(headers["content-range"]);
  const info = { ...toObjectInfo(key, headers), ...definedMembers({ size: delivered?.size }) };
  // not every server looks at If-Match
  if (ifMatch !== undefined && info.etag !== ifMatch)
    throw new SluiceError("precondition_failed", `${operation}: the object has changed`);
  if (range && delivered?.start !== range.start)
    throw new SluiceError("corrupt", `${operation}: another range came than was asked for`);
  // HTTP cannot ask for no bytes: one came that was not asked for
  const isEmpty = range !== undefined && range.end === range.start;
  const chunks = body[Symbol.asyncIterator]();
  return {
    info,
    ...definedMembers({
      range: delivered && {
        start: delivered.start,
        end: isEmpty ? delivered.start : delivered.end,
      },
    }),
    body: createBody({
      async next() {
        if (isEmpty) return undefined;
        try {
          return (await chunks.next()).value as Uint8Array | undefined;
        } catch (error) {
          throw new SluiceError("interrupted", `${operation}: the connection broke`, {
            cause: error,
          });
        }
      },
      release: () => void body.destroy(),
      signal,
    }),
  };
}
