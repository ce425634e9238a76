import {
  createServer,
  get,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import { RedirectError, type Provided, type Provider } from "../src/provide/provider.ts";
import { backendOf, createLate, receive, receiveText } from "./provide-fixture.ts";

const servers: Server[] = [];
/** Answers that have not come to an end, nor lost their connection. */
let answers = 0;

afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  server.on("request", (_, res: ServerResponse) => {
    answers += 1;
    res.on("close", () => (answers -= 1));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** A server that sends these bytes of HTTP to each connection, and resets it. */
function serveRaw(head: string, body: Uint8Array | string): Promise<string> {
  return serve((_, res) => {
    const { socket } = res;
    socket?.write(head);
    // reset once it is through
    socket?.write(body, () => setTimeout(() => socket.resetAndDestroy(), 20));
  });
}

const half = "x".repeat(500);

describe("a Response", () => {
  test("gives its body, its length and its type", async () => {
    const url = await serve((_, res) => {
      res.setHeader("Content-Type", "text/csv").end("a,b\n");
    });
    const opened = await backendOf(({ signal }) => fetch(url, { signal })).open("file");
    expect(opened.info).toEqual({ key: "file", size: 4, contentType: "text/csv" });
    await opened.body.cancel();
    expect(await receiveText(({ signal }) => fetch(url, { signal }))).toBe("a,b\n");
  });

  test("tells less than the provider does", async () => {
    const url = await serve((_, res) => {
      res.setHeader("Content-Type", "text/csv").end("a,b\n");
    });
    const provider: Provider = { open: () => fetch(url), mimeType: "text/plain" };
    const { info, body } = await backendOf(provider).open("file");
    await body.cancel();
    expect(info.contentType).toBe("text/plain");
  });

  test("is refused before the first byte if its length is not the declared one, and ended", async () => {
    const url = await serve((_, res) => {
      res.setHeader("Content-Length", 8_000_000).write("begun");
    });
    const told = backendOf({ open: () => fetch(url), describe: () => ({ size: 5 }) });
    await expect(told.open("file")).rejects.toMatchObject({ code: "corrupt" });
    await expect.poll(() => answers).toBe(0);
    const bounded = backendOf({ open: () => fetch(url), maxBytes: 1_000 });
    await expect(bounded.open("file")).rejects.toMatchObject({ code: "too_large" });
    await expect.poll(() => answers).toBe(0);
  });

  test("with the page of an error in place of the file is refused, unless the described length vouches for it", async () => {
    const page = "<html>An error occurred</html>";
    const url = await serve((_, res) => {
      res.setHeader("Content-Type", "text/html").end(page);
    });
    const pdf = { open: () => fetch(url), mimeType: "application/pdf" };
    await expect(backendOf(pdf).open("file")).rejects.toMatchObject({ code: "unavailable" });
    await expect.poll(() => answers).toBe(0);
    const described = { size: page.length, version: "1" };
    expect(await receiveText({ ...pdf, describe: () => described })).toBe(page);
    // its author calls any text a text
    expect(await receiveText({ ...pdf, mimeType: "text/plain" })).toBe(page);
  });

  test("has no known length if it is decoded on the way", async () => {
    const text = "packed ".repeat(1000);
    const url = await serve((_, res) => {
      res.setHeader("Content-Encoding", "gzip").end(gzipSync(text));
    });
    const { info, body } = await backendOf(() => fetch(url)).open("file");
    await body.cancel();
    expect(info.size).toBeUndefined();
    expect(await receiveText(() => fetch(url))).toBe(text);
  });

  test("has no known length if it comes in chunks, and ends whole", async () => {
    const url = await serve((_, res) => {
      res.write("a");
      res.end("b");
    });
    expect(await receiveText(() => fetch(url))).toBe("ab");
  });

  test("may be made by the provider itself", async () => {
    expect(await receiveText(() => new Response("text"))).toBe("text");
    expect(await receiveText(() => new Response(null, { status: 204 }))).toBe("");
    expect(await receiveText(() => new Response("text").body!)).toBe("text");
    const fault = new Error("a fault of the provider");
    const failing = new ReadableStream({ pull: (controller) => controller.error(fault) });
    expect((await receive(backendOf(() => new Response(failing)))).error).toBe(fault);
  });

  test.each([
    [400, "unavailable"],
    [401, "unavailable"],
    [403, "unavailable"],
    [404, "not_found"],
    [408, "unavailable"],
    [410, "not_found"],
    [416, "unavailable"],
    [429, "throttled"],
    [500, "unavailable"],
    [503, "unavailable"],
    [302, "unavailable"],
    [304, "unavailable"],
  ])("with status %i is %s, and its body is ended", async (status, code) => {
    const url = await serve((_, res) => {
      res.writeHead(status, { "Retry-After": "7", Location: "/elsewhere" });
      // more than the network takes by itself
      if (status === 304) res.end();
      else res.write(Buffer.alloc(8_000_000));
    });
    const opening = backendOf(() => fetch(url, { redirect: "manual" })).open("file");
    await expect(opening).rejects.toMatchObject({ code, retryAfterMs: 7_000 });
    await expect(opening).rejects.not.toThrow(url);
    await expect.poll(() => answers).toBe(0);
  });

  test.each([
    ["a length", `HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n`, half],
    ["chunks", `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n`, `1f4\r\n${half}\r\n`],
    [
      "a coding and a length",
      `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1000\r\n\r\n`,
      gzipSync(half).subarray(0, 20),
    ],
  ])("with %s that breaks off is interrupted", async (_, head, body) => {
    const url = await serveRaw(head, body);
    const { error } = await receive(backendOf(({ signal }) => fetch(url, { signal })));
    expect(error).toMatchObject({ code: "interrupted" });
    await expect.poll(() => answers).toBe(0);
  });

  test("is refused if its end is not marked, unless the size is declared", async () => {
    const url = await serveRaw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", half);
    const open = (): Promise<Response> => fetch(url);
    expect((await receive(backendOf(open))).error).toMatchObject({ code: "protocol" });
    const told = (size: number): Provider => ({ open, describe: () => ({ size }) });
    expect((await receive(backendOf(told(500)))).error).toBeUndefined();
    expect((await receive(backendOf(told(1_000)))).error).toMatchObject({ code: "interrupted" });
    // the twin that looks at the stream alone takes what was reset for a whole
    expect(await receiveText(async () => (await open()).body!)).toBe(half);
    await expect.poll(() => answers).toBe(0);
  });

  test("ends its connection when the client goes away, unread, in the middle or too late", async () => {
    const url = await serve((_, res) => void res.write(Buffer.alloc(8_000_000)));
    const backend = backendOf(() => fetch(url));
    await (await backend.open("file")).body.cancel();
    await expect.poll(() => answers).toBe(0);

    const caller = new AbortController();
    const { body } = await backend.open("file", { signal: caller.signal });
    const reader = body.getReader();
    await reader.read();
    caller.abort(new Error("gone"));
    await expect(reader.read()).rejects.toThrow("gone");
    await expect.poll(() => answers).toBe(0);

    const { late, give } = createLate<Provided>();
    const slow = backendOf({ open: () => late, idleMs: 20 });
    await expect(slow.open("file")).rejects.toMatchObject({ code: "timeout" });
    give(await fetch(url));
    await expect.poll(() => answers).toBe(0);
  });

  test("times out if it stalls, and its connection is ended", async () => {
    const url = await serve((_, res) => void res.write("begun"));
    const backend = backendOf({ open: () => fetch(url), idleMs: 50 });
    expect((await receive(backend)).error).toMatchObject({ code: "timeout" });
    await expect.poll(() => answers).toBe(0);
  });

  test("is a TypeError if it was read before", async () => {
    const response = new Response("text");
    response.body!.getReader();
    await expect(backendOf(() => response).open("file")).rejects.toThrow(TypeError);
  });
});

describe("a part of a resource, from a server", () => {
  const content = "0123456789";
  const describeIt = () => ({ size: content.length, version: "1" });

  function withServer(listener: RequestListener): Promise<Provider> {
    return serve(listener).then((url) => ({
      open: () => fetch(url),
      describe: describeIt,
      rewind: ({ start }) => fetch(url, { headers: { Range: `bytes=${start}-` } }),
    }));
  }

  test("is the range that it answers with", async () => {
    const provider = await withServer((req, res) => {
      const start = Number(/\d+/.exec(req.headers.range ?? "0")?.[0]);
      if (req.headers.range)
        res.writeHead(206, { "Content-Range": `bytes ${start}-9/10` }).end(content.slice(start));
      else res.end(content);
    });
    expect(await receiveText(provider, { range: { start: 3 } })).toBe("3456789");
    expect(await receiveText(provider, { range: { start: 3, end: 5 } })).toBe("34");
    expect(await receiveText(provider, { range: { start: 0, end: 5 } })).toBe("01234");
  });

  test("is cut out of the whole where the server ignores ranges", async () => {
    const provider = await withServer((_, res) => void res.end(content));
    expect(await receiveText(provider, { range: { start: 3, end: 5 } })).toBe("34");
  });

  test("is never another one", async () => {
    for (const range of ["bytes 4-9/10", "bytes 3-8/10", "bytes 3-10/11", "bytes */10", ""]) {
      const provider = await withServer((_, res) => {
        res.writeHead(206, range ? { "Content-Range": range } : {}).end("345678");
      });
      const opening = backendOf(provider).open("file", { range: { start: 3 } });
      await expect(opening, range).rejects.toMatchObject({ code: "corrupt" });
    }
  });

  test("is not taken for the whole", async () => {
    const url = await serve((_, res) => {
      res.writeHead(206, { "Content-Range": "bytes 3-9/10" }).end(content.slice(3));
    });
    await expect(backendOf(() => fetch(url)).open("file")).rejects.toMatchObject({
      code: "corrupt",
    });
  });
});

describe("another HTTP client", () => {
  test("gives its message, which is a Node stream", async () => {
    const url = await serve((_, res) => void res.end("text"));
    const open = (): Promise<IncomingMessage> =>
      new Promise((resolve, reject) => get(url, resolve).on("error", reject));
    expect(await receiveText(open)).toBe("text");
    const broken = await serveRaw(`HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n`, half);
    const { error } = await receive(
      backendOf(() => new Promise((resolve, reject) => get(broken, resolve).on("error", reject))),
    );
    expect(error).toMatchObject({ code: "ECONNRESET" });
  });
});

describe("a URL", () => {
  const expiresAt = Date.now() + 60_000;

  test("makes open reject with it, and is in no message", async () => {
    const url = "https://bucket.example/a?signature=secret";
    const error = await backendOf(() => ({ url, expiresAt }))
      .open("file")
      .catch((fault: unknown) => fault as RedirectError);
    expect(error).toBeInstanceOf(RedirectError);
    expect(error).toMatchObject({ name: "SluiceError", code: "unsupported", url, expiresAt });
    const { inspect } = await import("node:util");
    expect(inspect(error)).not.toContain("secret");
    expect(JSON.stringify(error)).not.toContain("secret");
  });

  test("is a TypeError if no client could get it", async () => {
    for (const given of [
      { url: "/relative", expiresAt },
      { url: "file:///etc/passwd", expiresAt },
      { url: "javascript:alert(1)", expiresAt },
      { url: "https://bucket.example/a", expiresAt: Number.NaN },
      { url: "https://bucket.example/a", expiresAt: "tomorrow" },
    ])
      await expect(backendOf(() => given as never).open("file")).rejects.toThrow(TypeError);
  });
});
