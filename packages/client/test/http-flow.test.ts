import { createHash, randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { HopAnswer } from "../src/net/exchange.ts";
import { createHttpExchange } from "../src/net/node/http-exchange.ts";
import { startRawServer, type RawServer } from "./raw-server.ts";

const content = randomBytes(12_000_000);
const sha = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const lending = { blocks: 3, blockBytes: 2 ** 18 };

let server: RawServer;
beforeAll(async () => {
  server = await startRawServer({
    get(req, res) {
      const cut = Number(/cut=(\d+)/.exec(req.url ?? "")?.[1] ?? content.length);
      const sized = !req.url?.includes("chunked");
      res.writeHead(200, sized ? { "content-length": content.length } : {});
      if (cut === content.length) res.end(content);
      else res.write(content.subarray(0, cut), () => res.socket?.end());
    },
  });
});
afterAll(() => server[Symbol.asyncDispose]());

const exchange = createHttpExchange();
function get(path: string, signal = AbortSignal.timeout(15_000)): Promise<HopAnswer> {
  const url = new URL(path, server.origin);
  return exchange({ method: "GET", url, headers: {}, signal, scope: "any", connectMs: 5_000 });
}

/** Reads a body as a slow disk would: what is lent is looked at and given back much later. */
async function readSlowly(
  answer: HopAnswer,
  honest: boolean,
): Promise<{ sha256: string; lent: number }> {
  const parts: Buffer[] = [];
  const pending: Promise<void>[] = [];
  let lent = 0;
  await answer.body.pump((chunk, release) => {
    const index = parts.push(Buffer.alloc(0)) - 1;
    const keep = (): void => void (parts[index] = Buffer.from(chunk));
    if (!release) return keep();
    lent += chunk.length;
    if (!honest) release();
    const later = new Promise<void>((resolve) => setTimeout(resolve, index % 7));
    const done = later.then(keep).then(() => (honest ? release() : undefined));
    pending.push(done);
    return index % 5 === 0 ? done : undefined;
  }, lending);
  await Promise.all(pending);
  return { sha256: sha(Buffer.concat(parts)), lent };
}

test("lent memory keeps its bytes until it is given back, however slowly", async () => {
  for (let run = 0; run < 2; run++) {
    const { sha256, lent } = await readSlowly(await get("/"), true);
    expect(sha256).toBe(sha(content));
    expect(lent).toBeGreaterThan(content.length / 2);
  }
});

test(
  "a taker that gives memory back before it has used it gets other bytes: memory is reused",
  { tags: "slow" },
  async () => {
    const { sha256 } = await readSlowly(await get("/"), false);
    expect(sha256).not.toBe(sha(content));
  },
);

test(
  "nothing is lent of a body without a length, nor to a reader that asks for no memory",
  { tags: "slow" },
  async () => {
    const { sha256, lent } = await readSlowly(await get("/chunked"), true);
    expect([sha256, lent]).toEqual([sha(content), 0]);
    const hash = createHash("sha256");
    await (
      await get("/")
    ).body.pump((chunk, release) => {
      expect(release).toBeUndefined();
      hash.update(chunk);
    });
    expect(hash.digest("hex")).toBe(sha(content));
  },
);

test(
  "a body that is cut while it is lent is interrupted, wherever that is",
  { tags: "slow" },
  async () => {
    for (const cut of [0, 1, 65_536, 1_000_000, 5_000_000, content.length - 1]) {
      const reading = readSlowly(await get(`/?cut=${cut}`), true);
      await expect(reading, `${cut}`).rejects.toMatchObject({ code: "interrupted" });
    }
  },
);

test("an abort and a taker that throws end a lent body with their own reasons", async () => {
  const reason = new Error("enough of it");
  const abort = new AbortController();
  const aborted = (await get("/", abort.signal)).body.pump(() => abort.abort(reason), lending);
  await expect(aborted).rejects.toBe(reason);
  let taken = 0;
  const thrown = (await get("/")).body.pump((chunk, release) => {
    release?.();
    taken += chunk.length;
    if (taken > 3_000_000) throw reason;
  }, lending);
  await expect(thrown).rejects.toBe(reason);
  await expect.poll(() => server.open(), { timeout: 3_500 }).toBe(0);
});
