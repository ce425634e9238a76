import { Agent, type IncomingMessage, request as send, type ServerResponse } from "node:http";
import type { ContainerClient } from "@azure/storage-blob";
import type { ErrorPage } from "@sluice/storage/conformance";
import { answerGenerated, type GeneratedBlob } from "./generated-blob.ts";
import { type HttpService, refuse, startHttpService } from "./http-service.ts";

/** A fault of the next request, or to the next body of a blob. */
export type Fault =
  | {
      readonly kind: "refuse";
      readonly status: number;
      readonly code?: string;
      readonly headers?: Record<string, string>;
    }
  | { readonly kind: "ignore-range" }
  /** The request is done, and the connection breaks in place of an answer. */
  | { readonly kind: "lost" }
  | ({ readonly kind: "page" } & ErrorPage)
  | { readonly kind: "validator"; readonly named: "none" | "other" }
  | { readonly kind: "reset" | "truncate" | "stall" | "corrupt"; readonly at: number };

/** Azurite behind a proxy that can do what Azurite cannot: break, and hold blobs of any size. */
export interface FaultProxy extends HttpService {
  next(fault: Fault): void;
  /** Names of blobs that may not be read. */
  readonly denied: Set<string>;
  /** Blobs that only the proxy has. */
  readonly generated: Map<string, GeneratedBlob>;
  /** Bytes of content that left so far. */
  countBytes(): number;
}

/** Starts a proxy before the container of an Azurite; its URLs differ only in the origin. */
export async function startFaultProxy(
  container: ContainerClient,
  onRequest: (target: string) => Fault | undefined = () => undefined,
): Promise<FaultProxy> {
  const target = new URL(container.url);
  const agent = new Agent({ keepAlive: true });
  const denied = new Set<string>();
  const generated = new Map<string, GeneratedBlob>();
  let fault: Fault | undefined;
  let bytes = 0;

  const takeFault = (isBody: boolean): Fault | undefined => {
    const isAny = fault?.kind === "refuse" || fault?.kind === "lost";
    const found = fault && (isAny || isBody) ? fault : undefined;
    if (found) fault = undefined;
    return found;
  };
  const onBytes = (count: number): void => void (bytes += count);

  const service = await startHttpService((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", target);
    const name = pathname.startsWith(`${target.pathname}/`)
      ? decodeURIComponent(pathname.slice(target.pathname.length + 1))
      : "";
    const isBody = request.method === "GET" && name !== "" && !searchParams.has("comp");
    const found = onRequest(`${request.method} ${request.url}`) ?? takeFault(isBody);
    if (found?.kind === "refuse")
      return refuse(request, response, found.status, found.code, found.headers);
    if (denied.has(name)) return refuse(request, response, 403, "AuthorizationPermissionMismatch");
    const blob = generated.get(name);
    if (blob) return void answerGenerated(blob, request, response, onBytes);
    if (found?.kind === "page") {
      const length = { "content-length": Buffer.byteLength(found.text) };
      response.writeHead(200, { "content-type": found.type, ...(found.isCounted && length) });
      return void response.end(found.text);
    }
    if (found?.kind === "ignore-range") return void answerWhole(container, name, response);
    const { method, url, headers } = request;
    const forwarded = send({
      agent,
      host: target.hostname,
      port: target.port,
      method,
      path: url,
      headers,
    });
    forwarded.on("response", (answer) => {
      if (found?.kind === "lost") {
        answer.resume();
        response.socket?.resetAndDestroy();
        return;
      }
      if (found?.kind === "validator") {
        const { etag: _, ...rest } = answer.headers;
        const named = found.named === "other" ? { etag: '"0x2"' } : {};
        response.writeHead(answer.statusCode ?? 502, { ...rest, ...named });
      } else response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      relay(answer, response, found, isBody ? onBytes : () => {});
    });
    forwarded.on("error", () => response.destroy());
    response.on("close", () => forwarded.destroy());
    request.pipe(forwarded);
  });

  return {
    ...service,
    next: (next) => void (fault = next),
    denied,
    generated,
    countBytes: () => bytes,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      agent.destroy();
    },
  };
}

/** Passes the answer on until the fault is due. */
function relay(
  answer: IncomingMessage,
  response: ServerResponse,
  fault: Fault | undefined,
  onBytes: (count: number) => void,
): void {
  const at = fault && "at" in fault ? fault.at : Infinity;
  let sent = 0;
  answer.on("data", (part: Buffer) => {
    const left = at - sent;
    const isDue = left < part.byteLength;
    if (isDue && fault?.kind === "corrupt") part[left] = (part[left] ?? 0) ^ 1;
    const passed = isDue && fault?.kind !== "corrupt" ? part.subarray(0, Math.max(0, left)) : part;
    sent += part.byteLength;
    onBytes(passed.byteLength);
    const goOn = response.write(passed);
    if (isDue && fault?.kind !== "corrupt") return breakOff(answer, response, fault?.kind);
    if (goOn) return;
    answer.pause();
    response.once("drain", () => answer.resume());
  });
  answer.on("end", () => response.end());
}

function breakOff(
  answer: IncomingMessage,
  response: ServerResponse,
  how: string | undefined,
): void {
  answer.removeAllListeners("data").removeAllListeners("end").resume();
  // written bytes have to leave before the connection ends
  if (how === "reset") setImmediate(() => response.socket?.resetAndDestroy());
  if (how === "truncate") response.socket?.end();
}

async function answerWhole(
  container: ContainerClient,
  name: string,
  response: ServerResponse,
): Promise<void> {
  const bytes = await container.getBlobClient(name).downloadToBuffer();
  response.writeHead(200, { "content-length": bytes.byteLength, etag: '"0x1"' });
  response.end(bytes);
}
