import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import { SluiceError } from "@sluice/core";
import { NodeExchange } from "./node-exchange.ts";

/** A response whose writers do not reach the network. */
export interface CapturedAnswer {
  /** What they wrote, from the first byte or the end on. Rejects with `interrupted` when the connection closes before. */
  readonly response: Promise<Response>;
}

type Written = string | Uint8Array;

/** Where to write to reach the network: the original methods of a captured response, else the response itself. */
export function wireOf(res: ServerResponse): ServerResponse {
  return NodeExchange.find(res.req)?.wire ?? res;
}

/**
 * Captures what handlers write to a response from now on: middleware cannot give another response to those behind it. What is to
 * be sent goes to {@link wireOf} it. Headers that were set before stay on the response.
 */
export function captureAnswer(res: ServerResponse): CapturedAnswer {
  const before = { ...res.getHeaders() };
  let state: "open" | "begun" | "ended" = "open";
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  let resolve: (response: Response) => void;
  let reject: (error: unknown) => void;
  const response = new Promise<Response>((onResponse, onError) => {
    resolve = onResponse;
    reject = onError;
  });
  const body = new ReadableStream<Uint8Array>({
    start: (given) => void (controller = given),
    cancel: () => void (controller = undefined),
  });

  function begin(): void {
    if (state !== "open") return;
    state = "begun";
    const headers = webHeaders(res.getHeaders());
    for (const name of res.getHeaderNames()) res.removeHeader(name);
    for (const [name, value] of Object.entries(before))
      if (value !== undefined) res.setHeader(name, value);
    const { statusCode: status } = res;
    const hasBody = status !== 204 && status !== 205 && status !== 304;
    res.statusCode = 200;
    resolve(new Response(hasBody ? body : null, { status, headers }));
  }

  function take(chunk: unknown, encoding: unknown): void {
    const bytes =
      typeof chunk === "string"
        ? Buffer.from(chunk, typeof encoding === "string" ? (encoding as BufferEncoding) : "utf8")
        : (chunk as Uint8Array);
    if (bytes.byteLength > 0) controller?.enqueue(bytes);
  }

  function finish(): void {
    state = "ended";
    controller?.close();
    controller = undefined;
  }

  const captured = {
    writeHead(status: number, ...rest: unknown[]) {
      res.statusCode = status;
      setHeaders(res, rest.at(-1));
      return res;
    },
    flushHeaders: begin,
    write(chunk: Written, ...rest: unknown[]) {
      begin();
      take(chunk, rest[0]);
      callLast(rest);
      return true;
    },
    end(...rest: unknown[]) {
      const [chunk, encoding] = rest;
      begin();
      if (chunk !== undefined && chunk !== null && typeof chunk !== "function")
        take(chunk, encoding);
      finish();
      callLast(rest);
      return res;
    },
  };
  const getters = {
    headersSent: () => state !== "open",
    writableEnded: () => state === "ended",
  };
  const originals = new Map<PropertyKey, unknown>();
  for (const [name, value] of Object.entries(captured)) {
    originals.set(name, (res[name as keyof ServerResponse] as () => unknown).bind(res));
    Object.defineProperty(res, name, { configurable: true, writable: true, value });
  }
  for (const [name, get] of Object.entries(getters))
    Object.defineProperty(res, name, { configurable: true, get });
  const prototype = Object.getPrototypeOf(res) as object;
  NodeExchange.of(res.req).wire = new Proxy(res, {
    get(target, name) {
      if (originals.has(name)) return originals.get(name);
      const value: unknown = Reflect.get(name in getters ? prototype : target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  });
  res.once("close", () => {
    if (state === "open")
      reject(
        new SluiceError("interrupted", "http: the connection closed before there was an answer"),
      );
    else if (state === "begun") controller?.error(new Error("http: the connection is closed"));
    controller = undefined;
  });
  return { response };
}

function callLast(rest: readonly unknown[]): void {
  const callback = rest.at(-1);
  if (typeof callback === "function") queueMicrotask(() => void callback());
}

/** Headers as `writeHead` takes them: an object, pairs, or names and values in turn. */
function setHeaders(res: ServerResponse, headers: unknown): void {
  if (Array.isArray(headers)) {
    const flat = headers.flat() as string[];
    for (let at = 0; at < flat.length; at += 2) res.appendHeader(flat[at]!, flat[at + 1]!);
  } else if (typeof headers === "object" && headers !== null)
    for (const [name, value] of Object.entries(headers as OutgoingHttpHeaders))
      if (value !== undefined) res.setHeader(name, value);
}

function webHeaders(headers: OutgoingHttpHeaders): Headers {
  const fields = new Headers();
  for (const [name, value] of Object.entries(headers))
    for (const each of Array.isArray(value) ? value : [value])
      if (each !== undefined && !hopByHop.has(name)) fields.append(name, String(each));
  return fields;
}

/** What a connection decides for itself. */
const hopByHop: ReadonlySet<string> = new Set(["transfer-encoding", "keep-alive"]);
