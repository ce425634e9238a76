// @module-tag slow
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseRange } from "@sluice/core/internal";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { type ResourceStream, streamResource, type TransferCount } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { createRawClient } from "./raw-client.ts";
import { replyUrl, startRawServer, type RawServer } from "./raw-server.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sluice-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const content = Buffer.alloc(8 * 2 ** 20 + 1, "The quick brown fox ");
const sha256 = createHash("sha256").update(content).digest("hex");
const uri = "x://a/b.bin";

/** What a server does that has enough to do. */
interface Temper {
  /** The status with which a request is refused, by the number of others that are open. */
  refuses(asked: number, open: number): number | undefined;
  readonly retryAfter?: string;
  /** Breaks a response off after this many bytes. */
  readonly maxBytes?: number;
  /** Ends the connection of a refused request without an answer. */
  readonly silent?: boolean;
}

interface BusyServer extends RawServer {
  /** Bytes of bodies that went out. */
  sent(): number;
  /** Breaks off every answer. */
  cut(): void;
  /** Requests for bytes that were answered with some, and that were refused. */
  readonly answers: { served: number; refused: number; most: number };
}

/** A server of one file in ranges, piece by piece, that refuses requests as it likes. */
async function startBusyServer(temper: Temper): Promise<BusyServer> {
  let sent = 0;
  const sending = new Set<ServerResponse>();
  let asked = 0;
  const answers = { served: 0, refused: 0, most: 0 };
  const server = await startRawServer({
    stream: (request, res) => replyUrl(res, request, `${server.origin}/d`),
    get(req, res) {
      const status = temper.refuses(++asked, sending.size);
      if (status !== undefined) return refuse(res, status);
      answers.served += 1;
      sending.add(res);
      answers.most = Math.max(answers.most, sending.size);
      res.once("close", () => sending.delete(res));
      send(req, res);
    },
  });

  function refuse(res: ServerResponse, status: number): void {
    answers.refused += 1;
    const { retryAfter } = temper;
    const wait = retryAfter === undefined ? {} : { "retry-after": retryAfter };
    if (temper.silent) res.destroy();
    else res.writeHead(status, wait).end();
  }

  function send(req: IncomingMessage, res: ServerResponse): void {
    const found = parseRange(req.headers.range, content.length);
    const { start, end } = typeof found === "object" ? found : { start: 0, end: content.length };
    const part = { "content-range": `bytes ${start}-${end - 1}/${content.length}` };
    res.writeHead(found === undefined ? 200 : 206, {
      "content-length": end - start,
      "mcp-resource-uri": uri,
      etag: '"v1"',
      ...(found !== undefined && part),
    });
    const step = (at: number): void => {
      if (res.destroyed) return;
      // a reset could overtake bytes that the client has not read yet
      if (at - start >= (temper.maxBytes ?? Infinity)) return void res.socket?.end();
      const to = Math.min(at + pieceBytes, end);
      const piece = content.subarray(at, to);
      sent += piece.length;
      if (to === end) return void res.end(piece);
      res.write(piece, () => setTimeout(step, 1, to));
    };
    step(start);
  }

  return Object.assign(server, {
    sent: () => sent,
    cut: () => sending.forEach((res) => res.destroy()),
    answers,
  });
}

const pieceBytes = 16_384;

function open(
  server: RawServer,
  options: Parameters<typeof streamResource>[2] = {},
): Promise<ResourceStream> {
  return streamResource(createRawClient(server.url, withStreaming()), uri, {
    timeouts: { pauseScale: 0 },
    ...options,
  });
}

const maxRatio = 1.05;
const most = 3;
const moods: Readonly<Record<string, Temper>> = {
  "no more than three at once, 429": { refuses: (_asked, now) => (now >= most ? 429 : undefined) },
  "no more than three at once, 503 and Retry-After": {
    refuses: (_asked, now) => (now >= most ? 503 : undefined),
    retryAfter: "1",
  },
  "no more than three at once, an hour of Retry-After": {
    refuses: (_asked, now) => (now >= most ? 429 : undefined),
    retryAfter: "3600",
  },
  "no more than three at once, connections cut": {
    refuses: (_asked, now) => (now >= most ? 503 : undefined),
    silent: true,
  },
  "no more than one at once": { refuses: (_asked, now) => (now >= 1 ? 429 : undefined) },
  "the fifth request": { refuses: (asked) => (asked === 5 ? 429 : undefined) },
  "every third request": { refuses: (asked) => (asked % 3 === 0 ? 503 : undefined) },
};

/** Moods of which another one takes the same way. */
const alike: ReadonlySet<string> = new Set([
  "no more than three at once, 503 and Retry-After",
  "no more than three at once, an hour of Retry-After",
  "the fifth request",
]);
const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.info(`not ${[...alike].join(", ")}: these run with SLUICE_DEEP`);

test.each(Object.entries(moods).filter(([name]) => isDeep || !alike.has(name)))(
  "a server that refuses some of sixteen connections is fetched from over fewer, every byte once: %s",
  async (name, temper) => {
    const ratios: number[] = [];
    // a disk that stalls lets more pile up on the way than an answer that is cut short can take back
    while (ratios.length < 3 && (ratios.at(-1) ?? Infinity) >= maxRatio) {
      await using server = await startBusyServer(temper);
      let received = 0;
      const onProgress = ({ bytes }: TransferCount): void => void (received = bytes);
      const stream = await open(server);
      const saved = await stream.saveTo(directory, { connections: 16, onProgress });
      expect([saved.sha256, received]).toEqual([sha256, content.length]);
      expect(server.answers.refused).toBeGreaterThan(0);
      expect(await readdir(directory)).toEqual(["b.bin"]);
      await rm(saved.path);
      ratios.push(server.sent() / content.length);
    }
    const ratio = ratios.at(-1)!;
    process.stdout.write(`over the wire: ${ratio.toFixed(3)} × of the file (${name})\n`);
    expect(ratio).toBeLessThan(maxRatio);
  },
);

test("connections that the server takes are used, and those that it refuses are not opened again", async () => {
  const server = await startBusyServer(moods["no more than three at once, 429"]!);
  await using _ = server;
  await (await open(server)).saveTo(directory, { connections: 16 });
  expect(server.answers.most).toBe(most);
  // each but the last gives up once
  expect(server.answers.refused).toBeLessThan(16);
});

test.each([1, 8])(
  "a server that refuses everything from some byte on ends a save over %i connections, which keeps what it has",
  async (connections) => {
    let isOver = false;
    const temper: Temper = { refuses: () => (isOver ? 429 : undefined), retryAfter: "7" };
    const server = await startBusyServer(temper);
    await using _ = server;
    const stream = await open(server);
    let received = 0;
    const saving = stream.saveTo(directory, {
      connections,
      resume: true,
      onProgress: ({ bytes }) => {
        received = bytes;
        if (isOver || bytes < content.length / 2) return;
        isOver = true;
        server.cut();
      },
    });
    await expect(saving).rejects.toMatchObject({
      code: "throttled",
      retryAfterMs: 7_000,
      retryable: true,
    });
    expect(received).toBeLessThan(content.length);
    // the last connection tries a few times and no more
    expect(server.answers.refused).toBeLessThan(connections + 6);
    isOver = false;
    const saved = await (await open(server)).saveTo(directory, { resume: true, connections });
    expect(saved.sha256).toBe(sha256);
    expect(saved.resumedBytes).toBeGreaterThan(500_000);
  },
);

test.each([1, 8])(
  "pauses that a server asks for again and again have an end, over %i connections",
  async (connections) => {
    // each answer brings just enough to begin the count of tries anew
    let isBusy = false;
    const temper: Temper = {
      refuses() {
        isBusy = !isBusy;
        return isBusy ? undefined : 429;
      },
      retryAfter: "10",
      maxBytes: 100_000,
    };
    await using server = await startBusyServer(temper);
    // two or three pauses reach the limit long before the bytes of a busy machine do
    const timeouts = { pauseScale: 0.1, totalMs: 3_000 };
    const saving = (await open(server, { timeouts })).saveTo(directory, { connections });
    // whichever of the two was met last
    const code = expect.stringMatching(/^(throttled|interrupted)$/);
    await expect(saving).rejects.toMatchObject({ code });
    // ten seconds and up to half of that more, ten times as fast
    expect(server.answers.refused).toBeLessThan(connections + 12);
    expect(await readdir(directory)).toEqual([]);
  },
);

test("connections that all break at once are mended, and nothing is printed on the terminal", async () => {
  const warnings: Error[] = [];
  const note = (warning: Error): void => void warnings.push(warning);
  process.on("warning", note);
  onTestFinished(() => void process.off("warning", note));
  const server = await startBusyServer({ refuses: () => undefined });
  await using _ = server;
  let isCut = false;
  const stream = await open(server, { timeouts: { pauseScale: 0.5 } });
  const saved = await stream.saveTo(directory, {
    connections: 16,
    onProgress() {
      if (isCut || server.answers.most < 12) return;
      isCut = true;
      server.cut();
    },
  });
  expect([saved.sha256, isCut, warnings]).toEqual([sha256, true, []]);
});

test("an abort ends a pause that the server asked for, and keeps what arrived", async () => {
  let isOver = false;
  const temper: Temper = { refuses: () => (isOver ? 503 : undefined), retryAfter: "60" };
  await using server = await startBusyServer(temper);
  const abort = new AbortController();
  const options = { signal: abort.signal, timeouts: { pauseScale: 1 } };
  const saving = (await open(server, options)).saveTo(directory, {
    connections: 4,
    resume: true,
    onProgress({ bytes }) {
      if (isOver || bytes < content.length / 2) return;
      isOver = true;
      server.cut();
    },
  });
  const outcome = saving.catch((error: unknown) => error);
  await expect.poll(() => server.answers.refused).toBe(4);
  const reason = new Error("enough");
  abort.abort(reason);
  expect(await outcome).toBe(reason);
  expect(await readdir(directory)).toHaveLength(2);
});
