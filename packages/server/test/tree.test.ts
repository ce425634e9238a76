import { SluiceError } from "@sluice/core";
import { EXTENSION_ID, treeBounds, TreeReader } from "@sluice/core/internal";
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { withBody } from "@sluice/storage/plugin";
import type { SluiceOptions } from "@sluice/server";
import type { Reply } from "@sluice/server/internal";
import { describe, expect, test } from "vitest";
import { alice, createHouse, headerOf, type House } from "./redeeming.ts";
import { declares, eras, talkTo, type TalkOptions } from "./talking.ts";

const method = "dev.sluice/stream-tree";
const capabilities = declares({ tree: treeBounds, maxStreamSize: 4 * 2 ** 20 });
const base = "files://demo/";
const uriOf = (name: string): string => base + name;

/** What arrived at each index: text, a reason, or `"void"` for a file that is not to be trusted. */
type Arrived = Record<number, string | { reason: string }>;

interface Tree {
  readonly house: House;
  readonly reply: Reply | undefined;
  readonly fault: { readonly data?: any } | undefined;
  /** Reads the response to its end, as a transport does. */
  readonly read: () => Promise<Arrived>;
}

/** Asks a server for files in one response. */
async function ask(
  names: readonly string[],
  options: Partial<SluiceOptions> = {},
  { talk = {}, era = "modern" }: { talk?: TalkOptions; era?: (typeof eras)[number] } = {},
): Promise<Tree> {
  const house = createHouse({ principal: () => alice, ...options });
  const params = { uris: names.map(uriOf) };
  const exchange = await talkTo(house.sluice)(era, method, { params, capabilities, ...talk });
  const { reply, fault } = exchange.slot;
  const read = async (): Promise<Arrived> => {
    const transfer = reply!.transfer!;
    let bytes = 0;
    const reader = new TreeReader({ files: names.length, ...bounds });
    const arrived: Arrived = {};
    let i = -1;
    let text = "";
    for await (const chunk of transfer.source.body) {
      bytes += chunk.length;
      for (const event of reader.read(chunk)) {
        if (event.kind === "head") [i, text] = [event.head.i, ""];
        if (event.kind === "bytes") text += Buffer.from(event.bytes).toString();
        if (event.kind === "trailer") arrived[i] = event.trailer.ok ? text : "void";
        if (event.kind === "refusal")
          arrived[event.refusal.i] = { reason: event.refusal.error.reason };
      }
    }
    reader.ensureEnded();
    transfer.end({ outcome: "complete", bytes });
    return arrived;
  };
  return { house, reply, fault: fault ?? exchange.message.error, read };
}

const bounds = { maxBytes: treeBounds.maxBytes, maxFileBytes: 4 * 2 ** 20 };

/** Storage of these files whose bodies a test can spoil, each in its own way. */
function spoiled(
  files: Record<string, string | Uint8Array>,
  bodyOf: (key: string, bytes: Uint8Array) => ReadableStream<Uint8Array> | undefined,
): StorageBackend {
  const inner = createMemoryBackend(files);
  return {
    ...inner,
    async open(key, options) {
      const { info, ...opened } = await inner.open(key, options);
      const bytes = new Uint8Array(await new Response(opened.body).arrayBuffer());
      return withBody(
        { info, range: undefined },
        () => bodyOf(key, bytes) ?? new Response(bytes).body!,
      );
    },
  };
}

type Step = Uint8Array | Error | (() => void);

/** A body that takes these steps when it is read. */
function streamOf(...steps: readonly Step[]): ReadableStream<Uint8Array> {
  const left = [...steps];
  return new ReadableStream(
    {
      pull(controller) {
        const step = left.shift();
        if (!step) return controller.close();
        if (step instanceof Error) return controller.error(step);
        if (step instanceof Uint8Array) return controller.enqueue(step);
        step();
        controller.enqueue(left.shift() as Uint8Array<ArrayBuffer>);
      },
    },
    { highWaterMark: 0 },
  );
}

describe.each(eras)("%s era", (era) => {
  test("files come whole in the order of the call, each with a record of its own", async () => {
    const { house, reply, read } = await ask(["b.bin", "a.bin"], {}, { era });
    expect([reply!.status, headerOf(reply!, "content-type")]).toEqual([
      200,
      "application/vnd.sluice.tree",
    ]);
    expect(headerOf(reply!, "cache-control")).toBe("private, no-store, no-transform");
    expect(await read()).toEqual({ 0: "other", 1: "0123456789" });
    const file = { action: "stream", outcome: "complete", mode: "direct", revision: era };
    const principal = expect.any(String);
    expect(house.records).toMatchObject([
      { ...file, uri: uriOf("b.bin"), bytes: 5, principal },
      { ...file, uri: uriOf("a.bin"), bytes: 10, principal },
      { action: "tree", outcome: "complete", shown: 2, bytes: 0, principal },
    ]);
    expect(house.errors).toEqual([]);
  });

  test("a client that declared no bounds gets an error, and no bytes", async () => {
    for (const declaration of [{}, declares(), declares({ tree: { maxFiles: 0, maxBytes: 1 } })]) {
      const talk = { capabilities: declaration };
      const { reply, fault } = await ask(["a.bin"], {}, { era, talk });
      expect(reply).toBeUndefined();
      expect(fault!.data.reason).toBe("client_capability");
    }
  });

  test("a call is refused if no response takes bytes, as over WebSocket", async () => {
    const { fault } = await ask(["a.bin"], {}, { era, talk: { hasSlot: false } });
    expect(fault!.data.reason).toBe("stream_unsupported");
  });

  test("a call for none, or for more than the lesser bound, is invalid", async () => {
    expect((await ask([], {}, { era })).fault!.data.reason).toBe("invalid");
    const two = declares({ tree: { maxFiles: 2, maxBytes: 100 } });
    const talk = { capabilities: two };
    expect((await ask(["a", "b", "c"], {}, { era, talk })).fault!.data.reason).toBe("invalid");
    expect((await ask(["a.bin", "b.bin"], {}, { era, talk })).fault).toBeUndefined();
    const many = Array.from({ length: treeBounds.maxFiles + 1 }, () => "a.bin");
    const all = { capabilities: declares({ tree: { maxFiles: 1e9, maxBytes: 1e9 } }) };
    expect((await ask(many, {}, { era, talk: all })).fault!.data.reason).toBe("invalid");
  });
});

test("many files at once have none that a call for one would not give, and the rest arrives", async () => {
  const files = { "a.bin": "open", "hidden.bin": "h", "denied.bin": "d", "z.bin": "last" };
  const { house, read } = await ask(
    ["hidden.bin", "a.bin", "denied.bin", "gone.bin", "../up.bin", "z.bin"],
    {
      storage: createMemoryBackend(files),
      access: (_, uri) =>
        uri.includes("hidden") ? "hide" : uri.includes("denied") ? "deny" : "allow",
    },
  );
  expect(await read()).toEqual({
    0: { reason: "not_found" },
    1: "open",
    2: { reason: "forbidden" },
    3: { reason: "not_found" },
    4: { reason: "invalid" },
    5: "last",
  });
  const outcomes = house.records.map(({ action, outcome, reason }) => [action, outcome, reason]);
  expect(outcomes).toHaveLength(7);
  expect(outcomes).toEqual(
    expect.arrayContaining([
      ["stream", "denied", "hidden"],
      ["stream", "complete", undefined],
      ["stream", "denied", "permission_denied"],
      ["stream", "denied", "not_found"],
      ["stream", "denied", "invalid_argument"],
      ["tree", "complete", undefined],
    ]),
  );
});

test("a file whose permission is withdrawn before its turn is refused", async () => {
  const names = Array.from({ length: 40 }, (_, at) => `${at}.bin`);
  const files = Object.fromEntries(names.map((name) => [name, new Uint8Array(100_000)]));
  let isOpen = true;
  const { reply } = await ask(names, {
    storage: createMemoryBackend(files),
    access: () => (isOpen ? "allow" : "deny"),
  });
  const reader = new TreeReader({ files: names.length, ...bounds });
  let [sent, refused] = [0, 0];
  for await (const chunk of reply!.transfer!.source.body)
    for (const event of reader.read(chunk)) {
      if (event.kind === "trailer") sent += 1;
      if (event.kind === "refusal") refused += 1;
      if (sent === 5) isOpen = false;
    }
  expect(sent + refused).toBe(40);
  expect(refused).toBeGreaterThan(20);
});

test("each file counts as a call, so that many at once are not a way around the rate", async () => {
  let left = 3;
  const limiter = {
    consume: async (_key: string, points: number) => {
      left -= points;
      if (left < 0) throw { msBeforeNext: 5_000 };
    },
  };
  const { read } = await ask(["a.bin", "b.bin", "a.bin"], {
    rates: { requests: { perPrincipal: limiter } },
  });
  expect(await read()).toEqual({ 0: "0123456789", 1: "other", 2: { reason: "busy" } });
});

test("bytes of files count for the rate, of files that break as well", async () => {
  const consumed: number[] = [];
  const limiter = { consume: async (_key: string, points: number) => void consumed.push(points) };
  const large = new Uint8Array(300_000);
  const { read } = await ask(["a.bin", "large.bin"], {
    rates: { bytes: { perPrincipal: limiter } },
    storage: spoiled({ "a.bin": "0123456789", "large.bin": large }, (key) =>
      key === "a.bin" ? undefined : streamOf(large.subarray(0, 9), new Error("broke")),
    ),
    onError: () => {},
  });
  await read();
  expect(consumed.filter((points) => points > 1)).toEqual([10, 300_000]);
});

test("a response holds one permit from its call until its end, however it ends", async () => {
  const limits = { streams: { perPrincipal: 1 } };
  const house = createHouse({ principal: () => alice, limits });
  const talk = talkTo(house.sluice);
  const params = { uris: [uriOf("a.bin")] };
  const call = () => talk("modern", method, { params, capabilities });
  const first = (await call()).slot.reply!;
  expect((await call()).slot.fault!.data.reason).toBe("busy");
  first.transfer!.end({ outcome: "aborted", bytes: 0 });
  const second = (await call()).slot.reply!;
  await new Response(second.transfer!.source.body).arrayBuffer();
  second.transfer!.end({ outcome: "complete", bytes: 1 });
  expect((await call()).slot.reply).toBeDefined();
});

test("limits of a mount count once for the whole response", async () => {
  const { read } = await ask(["a.bin", "b.bin"], {
    mounts: [
      {
        baseUri: base,
        storage: createMemoryBackend({ "a.bin": "a", "b.bin": "b" }),
        limits: { streams: { perPrincipal: 1 } },
      },
    ],
  });
  expect(await read()).toEqual({ 0: "a", 1: "b" });
});

test("a file that another way serves is left to a call of its own", async () => {
  const files = { "a.bin": "x", "direct.bin": "d", "large.bin": new Uint8Array(4 * 2 ** 20 + 1) };
  const { read } = await ask(["a.bin", "large.bin", "direct.bin"], {
    storage: createMemoryBackend(files),
    delivery: ({ uri }) => (uri.endsWith("a.bin") ? "redirect" : "direct"),
  });
  expect(await read()).toEqual({
    0: { reason: "stream_unsupported" },
    1: { reason: "too_large" },
    2: "d",
  });
});

test("a file larger than the client takes is refused, and so are those beyond its bytes", async () => {
  const files = { "a.bin": "12345", "b.bin": "123", "c.bin": "1234567" };
  const talk = { capabilities: declares({ tree: { maxFiles: 9, maxBytes: 7 }, maxStreamSize: 6 }) };
  const { read } = await ask(
    ["a.bin", "b.bin", "c.bin"],
    { storage: createMemoryBackend(files) },
    { talk },
  );
  expect(await read()).toEqual({
    0: "12345",
    1: { reason: "too_large" },
    2: { reason: "too_large" },
  });
});

const large = new Uint8Array(600_000).fill(120);
const changed = new SluiceError("precondition_failed", "fs: changed");

/** Ways in which a file is another one than its head said, and what arrives. */
const changes: Readonly<
  Record<string, readonly [file: Uint8Array, steps: readonly (Uint8Array | Error)[], unknown]>
> = {
  "shrinks while it is read": [large, [large.subarray(0, 400_000)], "void"],
  "grows while it is read": [large, [large, large], "void"],
  "is replaced while it is read": [large, [large.subarray(0, 300_000), changed], "void"],
  "breaks before its first byte": [large, [new Error("broke")], "void"],
  "is small and shrinks": [large.subarray(0, 9), [large.subarray(0, 8)], { reason: "internal" }],
  "is small and grows": [large.subarray(0, 9), [large], { reason: "internal" }],
  "is small and is replaced": [large.subarray(0, 9), [changed], { reason: "interrupted" }],
  "is small and breaks": [large.subarray(0, 9), [new Error("broke")], { reason: "internal" }],
};

test.each(Object.entries(changes))(
  "a file that %s is never a clean wrong one, and the next arrives",
  async (_, [file, steps, expected]) => {
    const { house, read } = await ask(["x.bin", "b.bin"], {
      storage: spoiled({ "x.bin": file, "b.bin": "next" }, (key) =>
        key === "x.bin" ? streamOf(...steps) : undefined,
      ),
    });
    expect(await read()).toEqual({ 0: expected, 1: "next" });
    const records = house.records.filter(({ uri }) => uri === uriOf("x.bin"));
    expect(records).toMatchObject([{ action: "stream", outcome: "failed" }]);
  },
);

test("a large file arrives whole, with the digest that storage knows", async () => {
  const { read } = await ask(["x.bin"], { storage: spoiled({ "x.bin": large }, () => undefined) });
  expect(await read()).toEqual({ 0: Buffer.from(large).toString() });
});

test("no more than eight files are open ahead of a reader that reads nothing", async () => {
  let opened = 0;
  const names = Array.from({ length: 100 }, (_, at) => `${at}.bin`);
  const storage = spoiled(
    Object.fromEntries(names.map((name) => [name, new Uint8Array(200_000)])),
    () => undefined,
  );
  const { open } = storage;
  const counting: StorageBackend = {
    ...storage,
    open: (key, options) => ((opened += 1), open(key, options)),
  };
  const { reply, house } = await ask(names, { storage: counting });
  const reader = reply!.transfer!.source.body.getReader();
  await reader.read();
  await expect.poll(() => opened).toBeGreaterThanOrEqual(8);
  // one batch was read: the files in it, and those ahead
  expect(opened).toBeLessThanOrEqual(10);
  await reader.cancel();
  reply!.transfer!.end({ outcome: "aborted", bytes: 1 });
  await expect.poll(() => house.records.length).toBe(opened + 1);
  expect(house.records.every(({ outcome }) => outcome === "aborted")).toBe(true);
});

test("files wait in memory only as far as responses may hold bytes", async () => {
  const names = Array.from({ length: 8 }, (_, at) => `${at}.bin`);
  const files = Object.fromEntries(names.map((name) => [name, new Uint8Array(100_000)]));
  /** Files that the second of two responses has read when its first batch comes. */
  const readAhead = async (maxBytes: number): Promise<number> => {
    let bodies = 0;
    const house = createHouse({
      principal: () => alice,
      limits: { responseBytes: { perPrincipal: maxBytes, perProcess: maxBytes } },
      storage: spoiled(files, (_, bytes) => streamOf(() => void (bodies += 1), bytes)),
    });
    const params = { uris: names.map(uriOf) };
    const readers = [];
    for (let each = 0; each < 2; each += 1) {
      bodies = 0;
      const { slot } = await talkTo(house.sluice)("modern", method, { params, capabilities });
      const reader = slot.reply!.transfer!.source.body.getReader();
      await reader.read();
      readers.push(reader);
    }
    for (const reader of readers) await reader.cancel();
    return bodies;
  };
  expect(await readAhead(850_000)).toBeLessThanOrEqual(3);
  expect(await readAhead(2 ** 24)).toBe(8);
});

test("without its required record a file is refused", async () => {
  const audit = {
    required: true,
    sink: (record: { uri?: string; outcome: string }) => {
      if (record.uri?.endsWith("b.bin") && record.outcome === "begun") throw new Error("full");
    },
  };
  const { read } = await ask(["a.bin", "b.bin"], { audit });
  expect(await read()).toEqual({ 0: "0123456789", 1: { reason: "busy" } });
});

test("servers declare their bounds where a response can take bytes", async () => {
  const { sluice } = createHouse({ principal: () => alice });
  const { message } = await talkTo(sluice)("modern", "server/discover");
  expect(message.result.capabilities.extensions[EXTENSION_ID]).toEqual({ tree: treeBounds });
});
