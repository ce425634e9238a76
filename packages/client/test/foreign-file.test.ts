import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { openForeignFile as openPortable } from "../src/internal.ts";
import { openForeignFile } from "../src/internal-node.ts";
import { createOpenForeignFile } from "../src/foreign/foreign-file.ts";
import { createHttpExchange } from "../src/net/node/http-exchange.ts";

const never = new AbortController().signal;

/** Serves in this process; gives its origin. */
async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function textOf(url: string, trustedOrigins: string[], open = openForeignFile) {
  const file = await open(url, { trustedOrigins, signal: never });
  let text = "";
  await file.read((chunk) => {
    text += Buffer.from(chunk).toString();
    return undefined;
  }, never);
  const { size, mimeType, name } = file;
  return { size, mimeType, name, text };
}

test("a file of a trusted origin is read, with what its server says of it, and no credentials go there", async () => {
  const asked: (string | undefined)[] = [];
  const origin = await serve((request, response) => {
    asked.push(request.headers.authorization, request.headers.cookie);
    response.writeHead(200, { "content-type": "text/csv; charset=utf-8", "content-length": "3" });
    response.end("1;2");
  });
  for (const open of [openForeignFile, openPortable])
    expect(await textOf(`${origin}/a/table.csv?sig=x`, [origin], open)).toMatchObject({
      mimeType: "text/csv",
      name: "table.csv",
      text: "1;2",
    });
  expect(asked).toEqual([undefined, undefined, undefined, undefined]);
});

test("a trusted loopback origin is taken wherever it stands in the list, and no other port of the machine", async () => {
  const origin = await serve((_request, response) => response.end("here"));
  const other = await serve((_request, response) => response.end("another"));
  const trusted = ["http://store.internal:9000", "https://*.example.com", origin];
  expect(await textOf(`${origin}/a`, trusted)).toMatchObject({ text: "here" });
  for (const url of [`${other}/a`, "http://store.internal:9000/a"])
    await expect(textOf(url, trusted)).rejects.toMatchObject({ code: "untrusted" });
});

test.each([
  "http://example.com/a",
  "https://127.0.0.1/a",
  "https://10.0.0.1/a",
  "https://169.254.169.254/latest/meta-data",
  "https://[::1]/a",
  "https://user:pass@example.com/a",
  "https://example.com:8443/a",
  "file:///etc/passwd",
  "data:text/plain,a",
  "/relative",
  "https://ex ample.com/",
  "https://2130706433/",
  "https://0x7f.1/",
  "https://0/",
  "https://127.0.0.1./a",
  "https://[::ffff:127.0.0.1]/a",
  "https://[::ffff:7f00:1]/a",
  "https://[::127.0.0.1]/a",
  "https://[64:ff9b::7f00:1]/a",
  "https://[2002:7f00:1::]/a",
  "https://[fe80::1]/a",
  "https://[fd00:ec2::254]/a",
  "https://[fe80::1%25eth0]/a",
  "https://①②⑦.0.0.1/a",
  "https://example.com@127.0.0.1/a",
  "https:\\\\127.0.0.1/a",
  "https:/127.0.0.1/a",
  "https://example.com/a#b",
  "ftp://example.com/a",
  "",
])("%s is refused before anything is sent", async (url) => {
  const opening = openForeignFile(url, { signal: never });
  await expect(opening).rejects.toMatchObject({ code: "untrusted" });
});

test("a name that leads to a private address is refused when it is connected to, also the second time", async () => {
  let lookups = 0;
  const lookup = ((_name: string, _options: object, callback: (...args: unknown[]) => void) => {
    lookups += 1;
    callback(null, [{ address: "127.0.0.1", family: 4 }]);
  }) as never;
  const open = createOpenForeignFile(createHttpExchange({ lookup }));
  for (let n = 0; n < 2; n++)
    await expect(open("https://rebinding.example/a", { signal: never })).rejects.toMatchObject({
      code: "untrusted",
    });
  expect(lookups).toBe(2);
});

test("a redirect is held to the same rules at each hop, and there are at most five", async () => {
  const inner = await serve((_request, response) => response.end("inner"));
  const origin = await serve((request, response) => {
    const target = decodeURIComponent(request.url!.slice("/to/".length));
    const left = Number(/^\/left\/(\d)/.exec(request.url!)?.[1] ?? 0);
    const location = left > 0 ? `/left/${left - 1}` : request.url === "/left/0" ? "" : target;
    if (request.url !== "/left/0") response.writeHead(302, { location });
    response.end("here");
  });
  expect(await textOf(`${origin}/left/5`, [origin])).toMatchObject({ text: "here" });
  await expect(textOf(`${origin}/left/6`, [origin])).rejects.toMatchObject({ code: "protocol" });
  for (const target of [`${inner}/a`, "https://169.254.169.254/", "https://localhost:1/"])
    await expect(
      textOf(`${origin}/to/${encodeURIComponent(target)}`, [origin]),
      target,
    ).rejects.toMatchObject({ code: "untrusted" });
  // the twin: an origin that is trusted, too
  const both = [origin, inner];
  const redirected = await textOf(`${origin}/to/${encodeURIComponent(`${inner}/a`)}`, both);
  expect(redirected).toMatchObject({ text: "inner" });
});

test("a response without an end, with a content coding, or with an error status is refused", async () => {
  const origin = await serve((request, response) => {
    if (request.url === "/close") response.useChunkedEncodingByDefault = false;
    if (request.url === "/gzip") response.setHeader("content-encoding", "gzip");
    if (request.url === "/404") response.statusCode = 404;
    if (request.url === "/cut") {
      response.writeHead(200, { "content-length": "10" });
      response.write("123");
      setTimeout(() => response.destroy(), 20);
    } else {
      response.write("a");
      response.end();
    }
  });
  for (const [path, code] of [
    ["/close", "protocol"],
    ["/gzip", "protocol"],
    ["/404", "not_found"],
    ["/cut", "interrupted"],
  ] as const)
    await expect(textOf(origin + path, [origin]), path).rejects.toMatchObject({ code });
});

test("a reader that gives up ends the request", async () => {
  let closed: (() => void) | undefined;
  const isClosed = new Promise<void>((resolve) => (closed = resolve));
  const origin = await serve((_request, response) => {
    response.on("close", () => closed!());
    response.writeHead(200, { "content-length": "1000000" });
    response.write("begun");
  });
  const stop = new AbortController();
  const file = await openForeignFile(origin, { trustedOrigins: [origin], signal: never });
  const reading = file.read(() => {
    stop.abort(new Error("enough"));
    return undefined;
  }, stop.signal);
  await expect(reading).rejects.toThrow("enough");
  await isClosed;
});

test("only trusted origins are taken if addresses cannot be checked", async () => {
  const opening = openPortable("https://example.com/a", { signal: never });
  await expect(opening).rejects.toMatchObject({ code: "unsupported" });
});
