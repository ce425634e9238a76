import {
  type ByteRange,
  callService,
  createReadableBody,
  defineBackend,
  definedMembers,
  ensureCondition,
  formatIfMatch,
  formatRange,
  listPage,
  type OpenedObject,
  readExtent,
  type ServiceCall,
  sliceBody,
  SluiceError,
} from "@sluice/storage/plugin";
import { Agent, type Dispatcher } from "undici";
import { failure, statusError, text } from "./errors.ts";
import { pageOf, readIndex } from "./list.ts";
import { toObjectInfo } from "./object-info.ts";

/** Settings of {@link createWebBackend}. */
export interface WebBackendOptions {
  /** The prefix of every object's URL, up to and with the last slash. Its `index.json` is an array of the keys. */
  readonly baseUrl: string;
}

/** Creates a read-only backend over the files of a web server. */
export function createWebBackend({ baseUrl }: WebBackendOptions) {
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

  return defineBackend({
    name: "web",

    async describe(key, { operation, signal }) {
      const { statusCode, headers, body } = await request({ operation, signal }, toPath(key), {
        method: "HEAD",
      });
      await body.dump();
      if (statusCode !== 200) throw statusError(statusCode, headers, operation);
      return toObjectInfo(key, headers);
    },

    async open(key, { range, ifMatch, signal, operation }) {
      const response = await request({ operation, signal }, toPath(key), {
        method: "GET",
        headers: definedMembers({
          range: range && formatRange(toAskedRange(range)),
          "if-match": formatIfMatch(ifMatch, operation),
        }),
      });
      try {
        return toOpened(key, response, { range, ifMatch, signal, operation });
      } catch (error) {
        response.body.destroy();
        throw error;
      }
    },

    list({ operation, ...options }) {
      return listPage(options, { operation, store: baseUrl }, async (asked) => {
        const call = { operation, signal: options.signal };
        const index = await request(call, "index.json", { method: "GET" });
        return pageOf(await readIndex(index, operation), asked);
      });
    },

    close: () => agent.destroy(),
  });
}

/** Segments are encoded one by one: a key is text, in which %2F is not a slash and ? not a query. */
function toPath(key: string): string {
  return key.split("/").map(encodeURIComponent).join("/");
}

/** HTTP cannot ask for no bytes: an empty range asks for one. */
function toAskedRange({ start, end }: ByteRange): ByteRange {
  return end === undefined ? { start } : { start, end: Math.max(end, start + 1) };
}

type HeadersSent = Readonly<Record<string, string>>;

/** The request to `open`. */
interface OpenRequest {
  readonly range: ByteRange | undefined;
  readonly ifMatch: string | undefined;
  readonly signal: AbortSignal | undefined;
  readonly operation: string;
}

/** One answer is one version, so `info` describes the bytes of the body. */
function toOpened(
  key: string,
  { statusCode, headers, body: stream }: Dispatcher.ResponseData,
  { range, ifMatch, signal, operation }: OpenRequest,
): OpenedObject {
  if (statusCode !== 200 && statusCode !== 206) throw statusError(statusCode, headers, operation);
  if (range && statusCode === 200)
    throw new SluiceError("unsupported", `${operation}: the server ignores ranges`);
  const described = toObjectInfo(key, headers);
  const answer = {
    status: statusCode,
    contentType: described.contentType,
    contentLength: described.size,
    contentRange: text(headers["content-range"]),
    etag: text(headers.etag),
  };
  const { size, sent } = readExtent(answer, { operation, range: range && toAskedRange(range) });
  const info = { ...described, size };
  // not every server looks at If-Match
  ensureCondition(info, { ifMatch }, operation);
  const body = createReadableBody(stream, { operation, signal });
  if (!range) return { info, body };
  if (range.end !== range.start) return { info, range: sent, body };
  // one byte came that was not asked for
  const nothing = { start: range.start, end: range.start };
  return { info, range: nothing, body: sliceBody(body, { start: 0, end: 0 }) };
}
