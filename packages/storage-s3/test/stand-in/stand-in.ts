import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { GeneratedContent } from "@sluice/storage";
import { encodeForm, listObjects } from "./list-objects.ts";
import type {
  Deviation,
  Fault,
  ObjectMeta,
  S3StandIn,
  S3StandInOptions,
  SeenRequest,
} from "./options.ts";
import { etagOf, readPayload } from "./payload.ts";
import {
  abortUpload,
  completeUpload,
  createUpload,
  listParts,
  putPart,
  putWhole,
  type Receiving,
} from "./receive-object.ts";
import { Refusal } from "./refusal.ts";
import { sendObject } from "./send-object.ts";
import { readQuery, verifySignature } from "./signature.ts";
import { type Store, type StoredObject, toContent } from "./store.ts";
import { toXml, type XmlElements } from "./xml.ts";

export type { Deviation, S3StandIn, S3StandInOptions } from "./options.ts";

/**
 * Starts a small server that speaks the protocol of S3 on a free port: signatures in headers and in
 * URLs, `aws-chunked` with trailers, checksums, ranges, conditions, pages, multipart uploads, `response-*`
 * overrides, a CORS rule and faults. `test/server-cases.ts` says what it and real servers have in common.
 */
export async function startS3StandIn(options: S3StandInOptions = {}): Promise<S3StandIn> {
  const { bucket = "bucket", region = "us-east-1", now = Date.now, keepUploads = true } = options;
  const credentials = { accessKeyId: "STANDINACCESSKEY", secretAccessKey: "stand-in/secret+key" };
  const store: Store = { objects: new Map(), uploads: new Map() };
  const requests: SeenRequest[] = [];
  const faults: Fault[] = [];
  const answering = new Set<ServerResponse>();
  let sentBytes = 0;
  let events = 0;
  const deviates = (deviation: Deviation): boolean =>
    options.deviations?.includes(deviation) ?? false;

  const tell = (eventName: string, { name, etag, content }: StoredObject): void => {
    // lengths differ on purpose: S3 promises no width
    const sequencer =
      (++events).toString(16).toUpperCase().padStart(16, "0") + "0".repeat(events % 3);
    const object = { key: encodeForm(name), size: content.size, eTag: etag, sequencer };
    const s3 = { s3SchemaVersion: "1.0", bucket: { name: bucket }, object };
    const record = { eventVersion: "2.1", eventSource: "aws:s3", awsRegion: region, eventName, s3 };
    options.onEvent?.(JSON.stringify({ Records: [record] }));
  };
  const publish = (object: Omit<StoredObject, "lastModified">): void => {
    const stored = { ...object, lastModified: new Date(now()) };
    store.objects.set(object.name, stored);
    tell("ObjectCreated:Put", stored);
  };
  const remove = (name: string): void => {
    const object = store.objects.get(name);
    if (object === undefined) return;
    store.objects.delete(name);
    tell("ObjectRemoved:Delete", object);
  };
  const takeFault = (request: IncomingMessage, fits: (fault: Fault) => boolean) => {
    const target = `${request.method} ${request.url}`;
    const index = faults.findIndex((fault) => (fault.on?.test(target) ?? true) && fits(fault));
    const fault = faults[index];
    if (fault === undefined) return undefined;
    const { times = 1 } = fault;
    if (times > 1) faults[index] = { ...fault, times: times - 1 };
    else faults.splice(index, 1);
    return fault;
  };

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url = "", headers } = request;
    requests.push({ method, url, headers });
    allowOrigin(request, response, options.corsOrigins);
    if (method === "OPTIONS") return void response.writeHead(200).end();
    const fault =
      options.onRequest?.(`${method} ${url}`) ??
      takeFault(request, ({ status, silent, late, lost }) =>
        Boolean(status ?? silent ?? late ?? lost),
      );
    if (fault?.lost) loseAnswer(response);
    // read on, else nobody would notice that the connection ends
    if (fault?.silent) return void request.resume();
    if (fault?.status !== undefined) {
      if (fault.retryAfter !== undefined) response.setHeader("retry-after", fault.retryAfter);
      throw new Refusal(fault.status, fault.code ?? "SlowDown");
    }
    const path = decodeURIComponent(url.split("?")[0] ?? "");
    authenticate(request, path);
    if (path !== `/${bucket}` && !path.startsWith(`/${bucket}/`))
      throw new Refusal(404, "NoSuchBucket");
    const query = new Map(readQuery(url));
    const payload = await readPayload(request, deviates);
    if (fault?.late) return sendXml(response, errorOf(new Refusal(500, "InternalError")));
    const name = path.slice(bucket.length + 2);
    if (name === "") return answerBucket(method, query, response);
    if (Buffer.byteLength(name) > 1024) throw new Refusal(400, "KeyTooLongError");
    const receiving: Receiving = { store, name, keepUploads, deviates, publish };

    if (query.has("uploads")) return sendXml(response, createUpload(request, receiving));
    if (query.has("uploadId")) {
      if (method === "PUT") return sendTag(response, putPart(payload, query, receiving));
      if (method === "POST")
        return sendXml(response, completeUpload(request, payload, query, receiving));
      if (method === "GET") return sendXml(response, listParts(query, receiving));
      abortUpload(query, receiving);
      return void response.writeHead(204).end();
    }
    if (method === "PUT") return sendTag(response, putWhole(request, payload, receiving));
    if (method === "DELETE") {
      remove(name);
      return void response.writeHead(204).end();
    }
    if (method !== "GET" && method !== "HEAD") throw new Refusal(405, "MethodNotAllowed");
    const object = store.objects.get(name);
    if (object === undefined) throw new Refusal(404, "NoSuchKey");
    await sendObject(request, response, object, {
      query,
      deviates,
      takeFault: (ranged) =>
        takeFault(request, (one) => one.status === undefined && (ranged || !one.ignoreRange)),
      onSent: (bytes) => (sentBytes += bytes),
    });
  }

  function authenticate(request: IncomingMessage, path: string): void {
    if (deviates("accepts-any-signature")) return;
    const time = deviates("accepts-expired-urls") && request.url?.includes("X-Amz-Expires");
    const start = /X-Amz-Date=(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z/.exec(request.url ?? "");
    const [year, month, day, hour, minute, second] = (start ?? []).slice(1).map(Number);
    const signedAt = Date.UTC(year ?? 0, (month ?? 1) - 1, day, hour, minute, second);
    verifySignature(request, path, { ...credentials, region, now: time ? () => signedAt : now });
  }

  function answerBucket(
    method: string,
    query: ReadonlyMap<string, string>,
    response: ServerResponse,
  ): void {
    if (method === "HEAD") return void response.writeHead(200).end();
    if (method === "GET" && query.get("list-type") === "2")
      return sendXml(response, listObjects(bucket, store, query, deviates));
    if (method === "PUT") throw new Refusal(409, "BucketAlreadyOwnedByYou");
    throw new Refusal(501, "NotImplemented");
  }

  const server = createServer((request, response) => {
    answering.add(response);
    response.on("close", () => answering.delete(response));
    handle(request, response).catch((error: unknown) => refuse(request, response, error));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    bucket,
    region,
    credentials,
    requests,
    faults,
    put(name, content: Uint8Array | GeneratedContent, meta: ObjectMeta = {}) {
      const isBytes = content instanceof Uint8Array;
      // generated content is distinguished by when it came
      const etag = etagOf(isBytes ? content : Buffer.from(`${name} ${++events}`));
      publish({ name, content: isBytes ? toContent(content) : content, etag, meta });
    },
    remove,
    countUploads: () => store.uploads.size,
    countAnswering: () => answering.size,
    countBytes: () => sentBytes,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Breaks the connection where the answer would begin. */
function loseAnswer(response: ServerResponse): void {
  response.writeHead = () => response;
  response.end = () => {
    response.socket?.resetAndDestroy();
    return response;
  };
}

function allowOrigin(
  { headers }: IncomingMessage,
  response: ServerResponse,
  origins: readonly string[] | undefined,
): void {
  const { origin } = headers;
  if (origin === undefined || !(origins?.includes(origin) || origins?.includes("*"))) return;
  response.setHeader("access-control-allow-origin", origin);
  response.setHeader("access-control-allow-methods", "GET, HEAD");
  response.setHeader("access-control-allow-headers", "range, if-match");
  response.setHeader(
    "access-control-expose-headers",
    "ETag, Content-Range, Content-Length, Accept-Ranges, Content-Disposition",
  );
  response.setHeader("vary", "Origin");
}

function sendTag(response: ServerResponse, etag: string): void {
  response.writeHead(200, { etag: `"${etag}"`, "content-length": 0 }).end();
}

function sendXml(response: ServerResponse, elements: XmlElements, status = 200): void {
  const text = Buffer.from(toXml(elements));
  const headers = { "content-type": "application/xml", "content-length": text.length };
  response.writeHead(status, headers).end(text);
}

function errorOf({ code, message, details }: Refusal): XmlElements {
  return { Error: { Code: code, Message: message, ...details, RequestId: "STANDIN0REQUEST0" } };
}

function refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
  if (!(error instanceof Refusal) || response.headersSent) return void response.destroy();
  response.setHeader("x-amz-request-id", "STANDIN0REQUEST0");
  const { status, code } = error;
  if (code === "SlowDown") response.statusMessage = "Slow Down";
  // the answer must not be taken for that of a request whose body is still to be read
  if (!request.complete) response.setHeader("connection", "close");
  if (request.method === "HEAD" || status === 304) return void response.writeHead(status).end();
  sendXml(response, errorOf(error), status);
}
