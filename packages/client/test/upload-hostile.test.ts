import { randomBytes } from "node:crypto";
import { createServer, type Server, type Socket, type AddressInfo } from "node:net";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { bearer, token, bytesSource, send, senders } from "./sending.ts";
import { startScriptedServer } from "./scripted-server.ts";

// more than is sent in one request
const big = randomBytes(2 ** 20 + 17);
const medium = big.subarray(0, 100_000);
const small = Buffer.from("small file");
/** More than connections hold without a reader. */
const endless = Buffer.alloc(24 * 2 ** 20);
const nodeSender = senders["Node's HTTP client"]!;

/** A server that says and does anything, below HTTP. */
async function startRaw(
  act: (socket: Socket) => void,
): Promise<{ origin: string; server: Server } & AsyncDisposable> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    act(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    server,
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

describe("addresses and credentials", () => {
  test.each([
    "https://elsewhere.example/up",
    "http://127.0.0.1:1/up",
    "http://localhost/up",
    "//elsewhere.example/up",
    "http://user:pass@127.0.0.1/up",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "data:text/plain,x",
    "http://169.254.169.254/latest",
    "/up",
    "",
  ])(
    "an upload to %j is refused before anything is sent [SEP-1306/privacy/must-use-tls]",
    async (url) => {
      const { acceptTarget } = await import("../src/upload/upload-target.ts");
      const { ClientSession } = await import("../src/upload/upload-target.ts");
      const session = new ClientSession(new URL("http://127.0.0.1:2532/mcp"), () => token);
      const claim = { method: "POST", wire: "raw", auth: "bound", sessionBound: false } as const;
      expect(() => acceptTarget({ ...claim, url }, { session, trustedOrigins: [] })).toThrow(
        expect.objectContaining({ code: "untrusted" }),
      );
    },
  );

  test.each([
    ["https://mcp.example/mcp", "http://mcp.example/up", false],
    ["https://mcp.example/mcp", "http://127.0.0.1:9/up", false],
    ["https://mcp.example/mcp", "http://files.example/up", false],
    ["http://127.0.0.1:2532/mcp", "http://files.example/up", false],
    ["https://mcp.example/mcp", "https://files.example/up", true],
    ["http://127.0.0.1:2532/mcp", "http://127.0.0.1:9/up", true],
  ])(
    "a server at %s: an upload to %s, which is trusted, is taken: %s [SEP-1306/privacy/must-use-tls]",
    async (endpoint, url, isTaken) => {
      const { acceptTarget } = await import("../src/upload/upload-target.ts");
      const { ClientSession } = await import("../src/upload/upload-target.ts");
      const session = new ClientSession(new URL(endpoint), () => token);
      const claim = { method: "POST", wire: "raw", auth: "bound", sessionBound: false } as const;
      const trustedOrigins = [new URL(url).origin];
      const accepted = (): unknown => {
        try {
          return acceptTarget({ ...claim, url }, { session, trustedOrigins }).url.href;
        } catch (error) {
          return (error as { code?: string }).code;
        }
      };
      expect(accepted()).toBe(isTaken ? url : "untrusted");
    },
  );

  test(
    "credentials go to the endpoint's own origin only, and nowhere when the URL is enough [SEP-1306/5.upload/must-authorize]",
    { tags: "slow" },
    async () => {
      await using own = await startScriptedServer();
      await using other = await startScriptedServer();
      for (const wire of ["raw", "multipart", "resumable"] as const)
        for (const sender of Object.values(senders)) {
          const source = bytesSource(wire === "resumable" ? big : medium);
          for (const auth of ["bound", "self"] as const) {
            await send(own.origin, [source], { sender, wire, auth });
            const expected = auth === "bound" ? bearer : undefined;
            expect(own.seen.at(-1)?.headers.authorization).toBe(expected);
          }
          await send(other.origin, [source], {
            sender,
            wire,
            endpoint: own.origin,
            trustedOrigins: [other.origin],
          });
        }
      expect(other.seen.length).toBeGreaterThan(5);
      for (const seen of other.seen) expect(JSON.stringify(seen.headers)).not.toContain("only-for");
    },
  );

  test("headers that a server chooses cannot be credentials, framing or ours", async () => {
    await using server = await startScriptedServer();
    const chosen = [
      "Authorization",
      "Cookie",
      "Host",
      "Content-Length",
      "Transfer-Encoding",
      "Content-Type",
      "Upload-Offset",
      "Mcp-Session-Id",
      "Proxy-Authorization",
      "Repr-Digest",
      "X-Forwarded-For",
    ];
    const headers = Object.fromEntries(chosen.map((name) => [name, "7"]));
    await send(server.origin, [bytesSource(small)], {
      wire: "raw",
      headers: { ...headers, "X-Signature": "abc" },
    });
    const [{ headers: seen, body }] = server.seen as [(typeof server.seen)[number]];
    expect(Object.values(seen)).not.toContain("7");
    expect(seen["x-signature"]).toBe("abc");
    expect(body.equals(small)).toBe(true);
  });

  test("a server at a public address cannot name one that is not", async () => {
    await using inside = await startScriptedServer();
    const trustedOrigins = ["https://127.0.0.1:9"];
    const { acceptTarget } = await import("../src/upload/upload-target.ts");
    const { ClientSession } = await import("../src/upload/upload-target.ts");
    const { scopeOf } = await import("../src/trust/classify-address.ts");
    const session = new ClientSession(new URL("https://mcp.example/mcp"));
    const target = acceptTarget(
      {
        url: "https://127.0.0.1:9/up",
        method: "POST",
        wire: "raw",
        auth: "self",
        sessionBound: false,
      },
      { session, trustedOrigins },
    );
    expect(scopeOf(target.scope)).toBe("public");
    const { sendTimeouts } = await import("../src/upload/send/sender.ts");
    // on the socket's own address, whatever was checked before
    const url = new URL(inside.origin);
    for (const host of ["127.0.0.1", "localhost"]) {
      url.hostname = host;
      await expect(
        nodeSender.send({
          method: "HEAD",
          url,
          headers: {},
          signal: new AbortController().signal,
          scope: "public",
          timeouts: sendTimeouts,
        }),
      ).rejects.toMatchObject({ code: "untrusted" });
    }
    expect(inside.seen).toEqual([]);
  });
});

describe("answers", () => {
  test("a success before the whole body was sent is an error", async () => {
    for (const wire of ["raw", "multipart"] as const) {
      await using server = await startScriptedServer((req, res) => {
        req.once("data", () => req.pause());
        res.writeHead(201).end();
        return true;
      });
      const larger = bytesSource(endless);
      await expect(send(server.origin, [larger], { wire })).rejects.toMatchObject({
        code: "protocol",
      });
    }
  });

  test("a refusal while the body is sent ends it with that refusal", async () => {
    await using server = await startScriptedServer((req, res) => {
      req.once("data", () => {
        req.pause();
        res.writeHead(413, { connection: "close" }).end();
      });
      return true;
    });
    const larger = bytesSource(endless);
    await expect(send(server.origin, [larger], { wire: "raw" })).rejects.toMatchObject({
      code: "too_large",
    });
  });

  test("a server that wants to refuse beforehand can: no byte of a large body is sent", async () => {
    let bytes = 0;
    await using server = await startRaw((socket) => {
      socket.on("data", (chunk) => {
        bytes += chunk.length;
        socket.end("HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
      });
    });
    await expect(send(server.origin, [bytesSource(big)], { wire: "raw" })).rejects.toMatchObject({
      code: "too_large",
    });
    expect(bytes).toBeLessThan(2_000);
  });

  test("interim answers without an end are given up", async () => {
    await using server = await startRaw((socket) => {
      const interim = "HTTP/1.1 104 Upload Resumption Supported\r\n\r\n".repeat(500);
      const flood = (): void => {
        if (!socket.destroyed) socket.write(interim, flood);
      };
      socket.once("data", flood).resume();
    });
    await expect(send(server.origin, [bytesSource(small)], { wire: "raw" })).rejects.toMatchObject({
      code: "protocol",
    });
  });

  test.each([
    ["malformed", "HTTP/1.1 abc\r\n\r\n", "protocol"],
    ["cut off", "HTTP/1.1 20", "interrupted"],
    [
      "of a protocol that was not asked for",
      "HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
      "interrupted",
    ],
    [
      "with headers over 16 KiB",
      `HTTP/1.1 201 Created\r\nx: ${"y".repeat(20_000)}\r\n\r\n`,
      "protocol",
    ],
  ])("a response that is %s is an error", async (_, answer, code) => {
    await using server = await startRaw((socket) => {
      socket.once("data", () => socket.end(answer));
    });
    await expect(send(server.origin, [bytesSource(small)], { wire: "raw" })).rejects.toMatchObject({
      code,
    });
  });

  test("a long or broken body does not turn a success into anything else", async () => {
    for (const body of ["x".repeat(10_000_000), '{"size":', "[".repeat(60_000)]) {
      await using server = await startScriptedServer((req, res) => {
        req.resume().on("end", () => {
          res.writeHead(201, { "content-type": "application/json" }).end(body);
        });
        return true;
      });
      const [sent] = await send(server.origin, [bytesSource(small)], { wire: "raw" });
      expect(sent?.size).toBe(small.length);
    }
  });

  test("a server that stops taking bytes is left", async () => {
    await using server = await startRaw((socket) => socket.pause());
    const timeouts = { idleMs: 60, answerMs: 60_000 };
    await expect(
      send(server.origin, [bytesSource(endless)], { wire: "raw", timeouts }),
    ).rejects.toMatchObject({ code: "interrupted", message: expect.stringContaining("stopped") });
  });

  test("a server that takes bytes too slowly to ever have them is left", async () => {
    await using server = await startScriptedServer();
    const timeouts = { minBytesPerSecond: 1e15, rateWindowMs: 5 };
    await expect(
      send(server.origin, [bytesSource(endless)], { wire: "raw", timeouts }),
    ).rejects.toMatchObject({ code: "timeout", message: expect.stringContaining("too slowly") });
  });
});

test("nothing stays open after uploads that failed", async () => {
  await using server = await startScriptedServer((req) => {
    req.socket.destroy();
    return true;
  });
  for (const wire of ["raw", "multipart", "resumable"] as const)
    await expect(send(server.origin, [bytesSource(big)], { wire })).rejects.toMatchObject({
      code: "interrupted",
    });
  await expect.poll(() => server.open()).toBe(0);
});
