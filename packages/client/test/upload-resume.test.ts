import { createHash, randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { bytesSource, send, senders } from "./sending.ts";
import { startScriptedServer, type Script, type ScriptedServer } from "./scripted-server.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
// more than is sent in one request
const big = randomBytes(2 ** 20 + 17);
// fewer than 64 KiB between two cuts would not count as progress
const cuts = deep ? 150 : 6;
const large = randomBytes((deep ? 16 : 1.25) * 2 ** 20 + 17);

/** Breaks connections once the given places of the file have come. */
function cutAt(places: readonly number[], how: "destroy" | "resetAndDestroy"): Script {
  const left = places.toSorted((one, other) => one - other);
  return (req, _res, server) => {
    const held = server.uploads.get(req.url ?? "");
    if (req.method !== "PATCH" || !held) return false;
    req.on("data", () => {
      if (held.bytes.length < (left[0] ?? Infinity)) return;
      left.shift();
      req.socket[how]();
    });
    return false;
  };
}

function cut(req: IncomingMessage): true {
  req.socket.destroy();
  return true;
}

function whole(server: ScriptedServer): Buffer {
  const [held] = server.uploads.values();
  expect(held?.complete).toBe(true);
  return held!.bytes;
}

describe.each(Object.entries(senders))("over %s", (_name, sender) => {
  test.each(["destroy", "resetAndDestroy"] as const)(
    "an upload whose connection breaks at many places (%s) arrives byte for byte",
    async (how) => {
      const places = Array.from({ length: cuts }, (_, at) =>
        Math.floor(((at + 0.5) * large.length) / cuts),
      );
      await using server = await startScriptedServer(cutAt([0, ...places], how));
      const [sent] = await send(server.origin, [bytesSource(large)], { sender });
      expect(whole(server).equals(large)).toBe(true);
      expect(sent?.size).toBe(large.length);
      expect(server.seen.filter(({ method }) => method === "HEAD").length).toBeGreaterThan(2);
    },
  );

  test("an answer that is lost after the last byte is asked for, and nothing is sent twice", async () => {
    let lost = false;
    await using server = await startScriptedServer((req, _res, { uploads }) => {
      const held = uploads.get(req.url ?? "");
      if (req.method !== "PATCH" || !held || lost) return false;
      lost = true;
      req.on("data", (chunk: Buffer) => (held.bytes = Buffer.concat([held.bytes, chunk])));
      req.on("end", () => {
        held.complete = true;
        req.socket.destroy();
      });
      return true;
    });
    await send(server.origin, [bytesSource(big)], { sender });
    expect(whole(server).equals(big)).toBe(true);
    expect(server.seen.map(({ method }) => method)).toEqual(["POST", "PATCH", "HEAD"]);
  });

  test("a 409 with the right offset is gone on from", async () => {
    let first = true;
    await using server = await startScriptedServer((req, res, { uploads }) => {
      const held = uploads.get(req.url ?? "");
      if (req.method !== "PATCH" || !held || !first) return false;
      first = false;
      req.resume().on("end", () => {
        held.bytes = big.subarray(0, 1_000);
        res.writeHead(409, { "upload-offset": "1000", "upload-complete": "?0" }).end();
      });
      return true;
    });
    await send(server.origin, [bytesSource(big)], { sender });
    expect(whole(server).equals(big)).toBe(true);
  });

  test(
    "a 409 because bytes of a broken connection came after all is asked about, and is the end",
    { tags: "slow" },
    async () => {
      let patches = 0;
      await using server = await startScriptedServer((req, res, { uploads }) => {
        const held = uploads.get(req.url ?? "");
        if (req.method !== "PATCH" || !held) return false;
        const isFirst = patches++ === 0;
        req.resume().on("end", () => {
          if (isFirst) {
            req.socket.destroy();
            return;
          }
          held.bytes = big;
          held.complete = true;
          res.writeHead(409, { "upload-offset": `${big.length}`, "upload-complete": "?1" }).end();
        });
        return true;
      });
      await send(server.origin, [bytesSource(big)], { sender });
      expect(server.seen.map(({ method }) => method)).toEqual([
        "POST",
        "PATCH",
        "HEAD",
        "PATCH",
        "HEAD",
      ]);
    },
  );

  test("steps are no longer than the server takes", async () => {
    await using server = await startScriptedServer((req, res) => {
      if (req.method === "POST") res.setHeader("upload-limit", "max-append-size=500000, max-age=9");
      return false;
    });
    await send(server.origin, [bytesSource(big)], { sender });
    expect(whole(server).equals(big)).toBe(true);
    const lengths = server.seen.map(({ headers }) => Number(headers["content-length"]));
    expect(lengths).toEqual([0, 500_000, 500_000, big.length - 1_000_000]);
  });

  test("a file over the server's limit is not begun", async () => {
    await using server = await startScriptedServer((req, res) => {
      if (req.method === "POST") res.setHeader("upload-limit", "max-size=1000");
      return false;
    });
    await expect(send(server.origin, [bytesSource(big)], { sender })).rejects.toMatchObject({
      code: "too_large",
    });
    expect(server.seen.some(({ method }) => method === "PATCH")).toBe(false);
  });

  test("a server that breaks every connection at once is given up after five tries", async () => {
    await using server = await startScriptedServer((req) => {
      if (req.method !== "PATCH") return false;
      req.socket.destroy();
      return true;
    });
    await expect(send(server.origin, [bytesSource(big)], { sender })).rejects.toMatchObject({
      code: "interrupted",
    });
    expect(server.seen.filter(({ method }) => method === "PATCH")).toHaveLength(6);
    expect(server.uploads.size).toBe(0);
  });

  const lies: Record<string, Record<string, string>> = {
    "more than was ever sent": { "upload-offset": `${big.length - 1}`, "upload-complete": "?0" },
    "more than there is": { "upload-offset": "99999999", "upload-complete": "?0" },
    "no number": { "upload-offset": "1e3", "upload-complete": "?0" },
    "less than zero": { "upload-offset": "-1", "upload-complete": "?0" },
    nothing: {},
    "that a part is the whole": { "upload-offset": "0", "upload-complete": "?1" },
  };
  test.each(Object.entries(lies))(
    "a server that claims to have %s is refused",
    async (_, headers) => {
      await using server = await startScriptedServer((req, res) => {
        if (req.method === "PATCH") return cut(req);
        if (req.method !== "HEAD") return false;
        res.writeHead(204, headers).end();
        return true;
      });
      const short = { ...sender, maxStepBytes: 2 ** 20 };
      await expect(
        send(server.origin, [bytesSource(big)], { sender: short }),
      ).rejects.toMatchObject({
        code: "protocol",
      });
    },
  );

  test("a server that has less than it said before is refused", async () => {
    await using server = await startScriptedServer((req, res, { uploads }) => {
      const held = uploads.get(req.url ?? "");
      if (req.method === "PATCH" && held) {
        if (req.headers["upload-offset"] !== "0") return cut(req);
        return false;
      }
      if (req.method !== "HEAD") return false;
      res.writeHead(204, { "upload-offset": "10", "upload-complete": "?0" }).end();
      return true;
    });
    const limited: Parameters<typeof send>[2] = { sender: { ...sender, maxStepBytes: 2 ** 20 } };
    await expect(send(server.origin, [bytesSource(big)], limited)).rejects.toMatchObject({
      code: "protocol",
    });
  });

  test("a server that names another size or digest has another file", async () => {
    for (const json of [{ size: 5 }, { sha256: "0".repeat(64) }])
      for (const wire of ["raw", "multipart", "resumable"] as const) {
        await using server = await startScriptedServer((req, res) => {
          const isLast = req.method === "PATCH" || wire !== "resumable";
          if (!isLast) return false;
          req.resume().on("end", () => {
            res.writeHead(201, { "content-type": "application/json", "upload-complete": "?1" });
            res.end(JSON.stringify(json));
          });
          return true;
        });
        await expect(
          send(server.origin, [bytesSource(big)], { sender, wire }),
        ).rejects.toMatchObject({ code: "corrupt" });
      }
  });

  test("a server that says 2xx and never that it is complete is given up", async () => {
    await using server = await startScriptedServer((req, res, { uploads }) => {
      const held = uploads.get(req.url ?? "");
      if (!held || (req.method !== "PATCH" && req.method !== "HEAD")) return false;
      req.on("data", (chunk: Buffer) => (held.bytes = Buffer.concat([held.bytes, chunk])));
      const answer = (): void =>
        void res
          .writeHead(204, { "upload-offset": `${held.bytes.length}`, "upload-complete": "?0" })
          .end();
      req.on("end", answer).resume();
      return true;
    });
    await expect(send(server.origin, [bytesSource(big)], { sender })).rejects.toMatchObject({
      code: "interrupted",
    });
  });

  test("the rest of a file goes to the same origin only", async () => {
    await using other = await startScriptedServer();
    await using server = await startScriptedServer((req, res) => {
      req.resume();
      res.writeHead(201, { location: `${other.origin}/elsewhere` }).end();
      return true;
    });
    const trustedOrigins = [other.origin];
    await expect(
      send(server.origin, [bytesSource(big)], { sender, trustedOrigins }),
    ).rejects.toMatchObject({ code: "untrusted" });
    expect(other.seen).toEqual([]);
  });
});

test("bytes that an earlier run sent are not sent again, and count for the digest", async () => {
  await using server = await startScriptedServer();
  server.uploads.set("/up/old", {
    bytes: big.subarray(0, 1_000_000),
    length: big.length,
    complete: false,
  });
  const [sent] = await send(server.origin, [bytesSource(big)], {
    begun: { location: `${server.origin}/up/old`, keep: true },
  });
  expect(server.seen.map(({ method }) => method)).toEqual(["HEAD", "PATCH"]);
  expect(whole(server).equals(big)).toBe(true);
  expect(server.seen[1]!.headers["content-length"]).toBe(`${big.length - 1_000_000}`);
  expect(sent?.sha256).toBe(createHash("sha256").update(big).digest("hex"));
});

test("an upload to be resumed later stays at the server when it ends early", async () => {
  await using server = await startScriptedServer((req) => {
    if (req.method !== "PATCH") return false;
    req.socket.destroy();
    return true;
  });
  let location = "";
  const begun = { keep: true, onLocation: (where: string) => void (location = where) };
  await expect(send(server.origin, [bytesSource(big)], { begun })).rejects.toMatchObject({
    code: "interrupted",
  });
  expect(server.seen.some(({ method }) => method === "DELETE")).toBe(false);
  expect(server.uploads.has(new URL(location).pathname)).toBe(true);
});

test.each([
  ["nothing of it", 404, 0],
  ["a part of it", 204, 1_000],
  ["more than was sent", 204, 2 ** 30],
  ["nothing that it says", undefined, 0],
] as const)(
  "a sender whose upload is refused reports what the server kept: %s",
  async (_what, status, offset) => {
    await using server = await startScriptedServer((req, res) => {
      if (req.method === "POST") return false;
      req.resume().on("end", () => {
        if (req.method === "PATCH") res.writeHead(507).end();
        else if (status === undefined) req.socket.destroy();
        else res.writeHead(status, { "upload-offset": `${offset}`, "upload-complete": "?0" }).end();
      });
      return true;
    });
    const reports: number[] = [];
    await expect(
      send(server.origin, [bytesSource(big)], {
        begun: { keep: true },
        onSent: (bytes) => void reports.push(bytes),
      }),
    ).rejects.toMatchObject({ code: "no_space" });
    expect(Math.max(...reports)).toBeGreaterThan(100_000);
    expect(reports.at(-1)).toBe(offset > big.length ? 0 : offset);
  },
);
