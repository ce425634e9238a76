import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** One HTTP request that an upload server saw, whole or not. */
interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  /** What of the body came. */
  body: Buffer;
}

/** What a script does instead of what the server would. `true`: the request is done with. */
export type Script = (
  req: IncomingMessage,
  res: ServerResponse,
  server: ScriptedServer,
) => boolean | void;

/** A resumable upload as the server holds it. */
interface HeldUpload {
  bytes: Buffer;
  readonly length: number;
  complete: boolean;
}

export interface ScriptedServer {
  readonly origin: string;
  readonly seen: SeenRequest[];
  /** By path. */
  readonly uploads: Map<string, HeldUpload>;
  /** Connections open now. */
  open(): number;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * A server that takes resumable uploads as draft-ietf-httpbis-resumable-upload has them, and anything
 * else with 201; `script` comes before it, to be as bad as a test needs.
 */
export async function startScriptedServer(script?: Script): Promise<ScriptedServer> {
  const seen: SeenRequest[] = [];
  const uploads = new Map<string, HeldUpload>();
  const sockets = new Set<Socket>();
  const server = createServer((req, res) => {
    const entry: SeenRequest = {
      method: req.method ?? "",
      path: req.url ?? "",
      headers: req.headers,
      body: Buffer.alloc(0),
    };
    seen.push(entry);
    req.on("error", () => {});
    if (script?.(req, res, served)) return;
    const held = uploads.get(entry.path);
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => {
      if (held && req.method === "PATCH") append(held, req, chunk);
      else chunks.push(chunk);
    });
    req.on("end", () => {
      entry.body = Buffer.concat(chunks);
      answer(entry, held, req, res);
    });
  });

  function append(held: HeldUpload, req: IncomingMessage, chunk: Buffer): void {
    if (offsets.get(req) === undefined) {
      offsets.set(req, Number(req.headers["upload-offset"]) === held.bytes.length);
    }
    if (offsets.get(req)) held.bytes = Buffer.concat([held.bytes, chunk]);
  }

  function answer(
    entry: SeenRequest,
    held: HeldUpload | undefined,
    req: IncomingMessage,
    res: ServerResponse,
  ): void {
    const { method, headers, body } = entry;
    if (held && method === "DELETE") {
      uploads.delete(entry.path);
      return void res.writeHead(204).end();
    }
    if (held && method === "PATCH") {
      const wrong = offsets.get(req) === false;
      if (wrong) return void res.writeHead(409, state(held)).end();
      if (headers["upload-complete"] === "?1") held.complete = held.bytes.length === held.length;
      res.writeHead(held.complete ? 201 : 204, {
        ...state(held),
        "content-type": "application/json",
      });
      return void res.end(held.complete ? JSON.stringify(described(held.bytes)) : undefined);
    }
    if (method === "HEAD") return void res.writeHead(held ? 204 : 404, held && state(held)).end();
    if (headers["upload-complete"] === "?0") {
      const path = `${entry.path}/${uploads.size}`;
      uploads.set(path, {
        bytes: body,
        length: Number(headers["upload-length"]),
        complete: false,
      });
      return void res.writeHead(201, { location: path, "upload-complete": "?0" }).end();
    }
    res.writeHead(201, { "content-type": "application/json" });
    // a form is more than its file
    const isForm = headers["content-type"]?.startsWith("multipart/");
    res.end(JSON.stringify(isForm ? { status: "completed" } : described(body)));
  }

  const offsets = new WeakMap<IncomingMessage, boolean>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const served: ScriptedServer = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    uploads,
    open: () => sockets.size,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return served;
}

function state({ bytes, length, complete }: HeldUpload): Record<string, string> {
  return {
    "upload-offset": `${bytes.length}`,
    "upload-length": `${length}`,
    "upload-complete": complete ? "?1" : "?0",
  };
}

function described(bytes: Buffer): object {
  return { size: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") };
}
