import { createHash, randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { bearer, bytesSource, send, senders } from "./sending.ts";
import { startScriptedServer } from "./scripted-server.ts";

const big = randomBytes(1.25 * 2 ** 20 + 17);
const small = Buffer.from("small file");
const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

describe.each(Object.entries(senders))("over %s", (_name, sender) => {
  test("a large file goes in steps, arrives byte for byte, and its SHA-256 is known", async () => {
    await using server = await startScriptedServer();
    const counts: number[] = [];
    const [sent] = await send(server.origin, [bytesSource(big)], {
      sender,
      onSent: (bytes) => counts.push(bytes),
    });
    expect(sent).toMatchObject({ size: big.length, sha256: sha256(big) });
    const [held] = server.uploads.values();
    expect(held?.complete).toBe(true);
    expect(held?.bytes.equals(big)).toBe(true);
    expect(counts.at(-1)).toBe(big.length);
    expect(server.seen.map(({ method }) => method)).toEqual(["POST", "PATCH"]);
    for (const { headers } of server.seen) expect(headers.authorization).toBe(bearer);
  });

  test("a small file goes at once, with its digest in the header", async () => {
    await using server = await startScriptedServer();
    for (const bytes of [small, Buffer.alloc(0)]) {
      const [sent] = await send(server.origin, [bytesSource(bytes, "ä b.bin")], { sender });
      expect(sent?.sha256).toBe(sha256(bytes));
      const { method, headers, body } = server.seen.at(-1)!;
      expect(method).toBe("POST");
      expect(body.equals(bytes)).toBe(true);
      expect(headers["content-length"]).toBe(`${bytes.length}`);
      expect(headers["repr-digest"]).toBe(
        `sha-256=:${Buffer.from(sha256(bytes), "hex").toString("base64")}:`,
      );
      expect(headers["content-disposition"]).toContain("filename*=UTF-8''%C3%A4%20b.bin");
    }
  });

  test("files for servers of others are one form: field `file`, name, type, credentials [SEP-1306/5.upload/must-multipart] [SEP-1306/5.upload/must-field-name] [SEP-1306/5.upload/must-file-name] [SEP-1306/5.upload/must-content-type] [SEP-1306/5.upload/should-one-field-each]", async () => {
    await using server = await startScriptedServer();
    const files = [bytesSource(big, 'quo"te.bin'), bytesSource(small, "ö.txt", "text/csv")];
    const sent = await send(server.origin, files, { sender, wire: "multipart" });
    expect(sent.map((file) => file.sha256)).toEqual([sha256(big), sha256(small)]);
    const [{ headers, body }] = server.seen as [(typeof server.seen)[number]];
    expect(server.seen).toHaveLength(1);
    expect(headers.authorization).toBe(bearer);
    expect(headers["content-length"]).toBe(`${body.length}`);
    const form = await new Response(body as Uint8Array<ArrayBuffer>, {
      headers: { "content-type": headers["content-type"]! },
    }).formData();
    const parts = form.getAll("file") as File[];
    expect([...form.keys()]).toEqual(["file", "file"]);
    expect(parts.map(({ name }) => name)).toEqual(['quo"te.bin', "ö.txt"]);
    expect(Buffer.from(await parts[0]!.arrayBuffer()).equals(big)).toBe(true);
    expect(Buffer.from(await parts[1]!.arrayBuffer()).equals(small)).toBe(true);
    expect(parts.map(({ type }) => type)).toEqual(["application/octet-stream", "text/csv"]);
    expect(headers["content-type"]).toMatch(/^multipart\/form-data; boundary=/);
  });

  test("a redirect is not followed, whatever its code", async () => {
    await using other = await startScriptedServer();
    let code = 0;
    await using server = await startScriptedServer((req, res) => {
      req.resume();
      res.writeHead(code, { location: `${other.origin}/up` }).end();
      return true;
    });
    const trustedOrigins = [other.origin];
    for (const wire of ["multipart", "raw", "resumable"] as const)
      for (code of [301, 302, 303, 307, 308])
        await expect(
          send(server.origin, [bytesSource(small)], { sender, wire, trustedOrigins }),
        ).rejects.toMatchObject({ code: "untrusted" });
    code = 307;
    await expect(
      send(server.origin, [bytesSource(big)], { sender, trustedOrigins }),
    ).rejects.toMatchObject({ code: "untrusted" });
    expect(other.seen).toEqual([]);
  });

  test("an abort ends an upload that hangs with its own reason, and tells the server", async () => {
    await using server = await startScriptedServer((req) => {
      if (req.method !== "PATCH") return false;
      req.resume();
      stop.abort(reason);
      return true;
    });
    const stop = new AbortController();
    const reason = new Error("enough");
    await expect(
      send(server.origin, [bytesSource(big)], { sender, signal: stop.signal }),
    ).rejects.toBe(reason);
    expect(server.seen.at(-1)?.method).toBe("DELETE");
    expect(server.uploads.size).toBe(0);
  });

  test("credentials that were renewed meanwhile are tried, once", async () => {
    for (const wire of ["raw", "multipart", "resumable"] as const) {
      const tokens = ["old", "new", "newest"];
      const shown: unknown[] = [];
      await using server = await startScriptedServer((req, res) => {
        shown.push(req.headers.authorization);
        if (req.headers.authorization === "Bearer new") return false;
        req.resume().on("end", () => res.writeHead(401).end());
        return true;
      });
      const token = (): string => (tokens.length > 2 ? tokens.shift()! : tokens[0]!);
      const [sent] = await send(server.origin, [bytesSource(big)], { sender, wire, token });
      expect(sent?.sha256).toBe(sha256(big));
      expect(shown.slice(0, 2)).toEqual(["Bearer old", "Bearer new"]);
    }
  });

  test("a server that does not answer is given up", async () => {
    await using server = await startScriptedServer((req) => {
      req.resume();
      return true;
    });
    const timeouts = { answerMs: 50, minBytesPerSecond: 1e12 };
    await expect(
      send(server.origin, [bytesSource(small)], { sender, timeouts }),
    ).rejects.toMatchObject({ code: "timeout" });
  });

  test.each([
    [400, "protocol"],
    [401, "unauthenticated"],
    [403, "permission_denied"],
    [404, "not_found"],
    [409, "precondition_failed"],
    [410, "expired"],
    [413, "too_large"],
    [415, "unsupported"],
    [422, "corrupt"],
    [429, "throttled"],
    [503, "unavailable"],
    [507, "no_space"],
    [418, "protocol"],
  ])("HTTP %i is %s, without a word of the server", async (status, code) => {
    await using server = await startScriptedServer((req, res) => {
      req.resume();
      res.writeHead(status, { "content-type": "application/problem+json" });
      res.end('{"title":"secret words","detail":"secret words"}');
      return true;
    });
    await expect(
      send(server.origin, [bytesSource(small)], { sender, wire: "raw" }),
    ).rejects.toMatchObject({ code, message: expect.not.stringContaining("secret") });
  });
});
