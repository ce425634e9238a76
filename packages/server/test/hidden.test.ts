import { SluiceError, type Principal } from "@sluice/core";
import type { AccessDecision, AccessRule, SluiceOptions } from "@sluice/server";
import { createMemoryBackend, wrapBackend, type StorageBackend } from "@sluice/storage";
import { describe, expect, test, vi } from "vitest";
import { alice, as, createHouse, type House } from "./redeeming.ts";
import { eras, talkTo, type Exchange } from "./talking.ts";

const open = { principal: () => ({ issuer: "i", subject: "s", clientId: "c" }) };
const secret = "files://demo/drafts/secret.bin";
const key = "drafts/secret.bin";

/** Storage with and without the secret, and the calls that it got. */
function createStorage(withSecret: boolean): { storage: StorageBackend; calls: string[] } {
  const calls: string[] = [];
  const memory = createMemoryBackend({ "a.bin": "0123456789" });
  if (withSecret) memory.put(key, "secret");
  const storage = wrapBackend(memory, {
    describe: (call) => (asked, options) => {
      calls.push(`describe ${asked.split("/").length}`);
      return call(asked, options);
    },
    open: (call) => (asked, options) => {
      calls.push(`open ${asked.split("/").length}`);
      return call(asked, options);
    },
  });
  return { storage, calls };
}

/** Two servers that must not be told apart: one hides what it has, the other has nothing to hide. */
function createPair(more: Partial<SluiceOptions> = {}) {
  const [hiding, empty] = [true, false].map((withSecret) => {
    const { storage, calls } = createStorage(withSecret);
    const access = (_principal: Principal | undefined, uri: string): AccessDecision =>
      uri === secret ? "hide" : "allow";
    const house = createHouse({ ...open, storage, access, ...more } as Partial<SluiceOptions>);
    return { house, calls, talk: talkTo(house.sluice) };
  }) as [Pairing, Pairing];
  return { hiding, empty };
}

interface Pairing {
  readonly house: House;
  readonly calls: string[];
  readonly talk: ReturnType<typeof talkTo>;
}

/** Everything of an exchange that a client can see. */
const seen = ({ status, message, slot }: Exchange): string =>
  JSON.stringify({ status, message, fault: slot.fault, reply: slot.reply?.status });

describe.each(eras)("%s era", (era) => {
  test.each(["resources/read", "resources/stream"])(
    "%s of what is hidden is, to the byte and to the call to storage, that of what is missing [ARTICLE/12.2/should-control-access]",
    async (method) => {
      const { hiding, empty } = createPair();
      const spellings = [secret, "files://demo/drafts/%73ecret.bin"];
      for (const uri of spellings) {
        const answers = await Promise.all(
          [hiding, empty].map(({ talk }) => talk(era, method, { params: { uri } })),
        );
        expect(seen(answers[0]!)).toBe(seen(answers[1]!));
        expect(answers[0]!.message.error?.data).toMatchObject({ reason: "not_found" });
      }
      expect(hiding.calls).toEqual(empty.calls);
      expect(hiding.calls.length).toBeGreaterThanOrEqual(spellings.length);
    },
  );

  test.each([
    ["one here and there", (n: number) => n % 3 === 1],
    ["the first ones", (n: number) => n < 7],
    ["the last ones", (n: number) => n >= 10],
    ["all but one", (n: number) => n !== 9],
    ["all", () => true],
    ["none", () => false],
  ])("the pages are those of a server without what is hidden: %s", async (_, isHidden) => {
    const names = Array.from({ length: 20 }, (__, n) => `f${n + 10}`);
    const hiddenNames = new Set(names.filter((__, n) => isHidden(n)));
    const full = createMemoryBackend(Object.fromEntries(names.map((name) => [name, "x"])));
    const visible = names.filter((name) => !hiddenNames.has(name));
    const infos = await Promise.all(visible.map((name) => full.describe(name)));
    const without = wrapBackend(full, {
      list:
        () =>
        async ({ cursor = "0", limit = 100 } = {}) => {
          const end = Number(cursor) + limit;
          return {
            objects: infos.slice(Number(cursor), end),
            ...(end < infos.length && { cursor: String(end) }),
          };
        },
    });
    const pagesOf = async (options: Partial<SluiceOptions>): Promise<unknown[]> => {
      const talk = talkTo(createHouse({ ...open, pageSize: 5, ...options }).sluice);
      const pages: unknown[] = [];
      let cursor: string | undefined;
      do {
        const { status, message } = await talk(era, "resources/list", { params: { cursor } });
        cursor = message.result.nextCursor;
        // cursors are sealed: each is another text
        pages.push(status, { ...message, result: { ...message.result, nextCursor: !!cursor } });
      } while (cursor !== undefined);
      return pages;
    };
    const access = (_principal: Principal | undefined, uri: string): AccessDecision =>
      hiddenNames.has(uri.slice(-3)) ? "hide" : "allow";
    expect(await pagesOf({ storage: full, access })).toEqual(await pagesOf({ storage: without }));
  });

  test("a folder in which all is hidden equals a missing one to the byte; an archived object does not", async () => {
    const answers = await Promise.all(
      [true, false].map(async (isThere) => {
        const storage = wrapBackend(createMemoryBackend({ archived: "x" }), {
          describe: (call) => async (asked, options) => {
            if (isThere && asked === "drafts") throw new SluiceError("unsupported", "a folder");
            return call(asked, options);
          },
          open: (call) => async (asked, options) => {
            if (asked === "archived") throw new SluiceError("unsupported", "restore it first");
            if (isThere && asked === "drafts") throw new SluiceError("unsupported", "a folder");
            return call(asked, options);
          },
        });
        const access = (_principal: Principal | undefined, uri: string): AccessDecision =>
          uri.startsWith("files://demo/drafts/") ? "hide" : "allow";
        const talk = talkTo(createHouse({ ...open, storage, access }).sluice);
        const ask = async (method: string, name: string): Promise<string> =>
          seen(await talk(era, method, { params: { uri: `files://demo/${name}` } }));
        expect(await ask("resources/read", "archived")).toContain("unsupported");
        return [await ask("resources/read", "drafts"), await ask("resources/stream", "drafts")];
      }),
    );
    expect(answers[0]).toEqual(answers[1]);
    expect(answers[0]).toEqual([expect.stringContaining("not_found"), expect.anything()]);
  });

  test("deny is another answer", async () => {
    const { hiding } = createPair({ access: () => "deny" });
    const { message } = await hiding.talk(era, "resources/read", { params: { uri: secret } });
    expect(message.error?.data.reason).toBe("forbidden");
  });
});

test("a redemption of what is hidden is, to the byte and to the call to storage, that of what is missing", async () => {
  const { hiding, empty } = createPair();
  for (const headers of [as(alice), { ...as(alice), range: "bytes=1-" }])
    for (const method of ["GET", "HEAD"] as const) {
      const replies = await Promise.all(
        [hiding, empty].map(({ house }) => {
          const principal = open.principal();
          const { token } = house.seal("download", { key, principal });
          return house.redeem(token, { headers, method });
        }),
      );
      expect(replies[0]?.status).toBe(404);
      expect(JSON.stringify(replies[0])).toBe(JSON.stringify(replies[1]));
    }
  expect(hiding.calls).toEqual(empty.calls);
  expect(hiding.calls).toHaveLength(4);
});

test("a storage that is down says so of what is hidden, too", async () => {
  const down = wrapBackend(createMemoryBackend({ [key]: "secret" }), {
    describe: () => () => Promise.reject(new SluiceError("unavailable", "disk: away")),
  });
  const talk = talkTo(
    createHouse({ ...open, storage: down, access: () => "hide", onError: () => {} }).sluice,
  );
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  try {
    const asked = talk("modern", "resources/stream", { params: { uri: secret } });
    await vi.runAllTimersAsync();
    expect((await asked).message.error?.data.reason).toBe("busy");
  } finally {
    vi.useRealTimers();
  }
});

test("a storage that has an answer to every key gives none of it for what is hidden", async () => {
  let cancelled = 0;
  const endless: StorageBackend = {
    name: "endless",
    describe: async (asked) => ({ key: asked, size: 1 }),
    open: async (asked) => ({
      info: { key: asked, size: 1 },
      body: new ReadableStream<Uint8Array>({ cancel: () => void (cancelled += 1) }),
    }),
    list: async () => ({ objects: [] }),
  };
  const house = createHouse({ ...open, storage: endless, access: () => "hide" });
  for (const method of ["resources/read", "resources/stream"]) {
    const { message } = await talkTo(house.sluice)("modern", method, { params: { uri: secret } });
    expect(message.error?.data.reason).toBe("not_found");
  }
  const { token } = house.seal("download", { key, principal: open.principal() });
  expect((await house.redeem(token)).status).toBe(404);
  expect(cancelled).toBe(2);
});

test("a key of the greatest length can be hidden", async () => {
  const longest = `${"f/".repeat(511)}xy`;
  const house = createHouse({ ...open, access: () => "hide" });
  const { token } = house.seal("download", { key: longest, principal: open.principal() });
  expect((await house.redeem(token)).status).toBe(404);
  expect(house.records[0]?.reason).toBe("hidden");
});

test("another name that storage knows an object by does not lead around the rules", async () => {
  const memory = createMemoryBackend({ "a.bin": "0123456789", [key]: "secret" });
  // as a link does, or a file system that takes names without their case
  const real = (asked: string): string => (asked.toLowerCase() === key ? key : asked);
  let cancelled = 0;
  const storage = wrapBackend(memory, {
    describe: (call) => (asked, options) => call(real(asked), options),
    open: (call) => async (asked, options) => {
      const opened = await call(real(asked), options);
      const body = new ReadableStream<Uint8Array>({ cancel: () => void (cancelled += 1) });
      return { info: opened.info, body };
    },
  });
  const house = createHouse({
    ...open,
    storage,
    access: (_principal, uri) => (uri === secret ? "hide" : "allow"),
  });
  for (const method of ["resources/read", "resources/stream"]) {
    const params = { uri: "files://demo/DRAFTS/secret.bin" };
    const { message } = await talkTo(house.sluice)("modern", method, { params });
    expect(message.error?.data.reason).toBe("not_found");
  }
  const { token } = house.seal("download", {
    key: "Drafts/secret.bin",
    principal: open.principal(),
  });
  expect((await house.redeem(token)).status).toBe(404);
  expect(cancelled).toBe(2);
});

describe("a page", () => {
  const files = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`f${n + 10}`, "x"]));
  const list = async (house: House): Promise<string[]> => {
    const { message } = await talkTo(house.sluice)("modern", "resources/list");
    return (message.result?.resources ?? []).map(({ name }: { name: string }) => name);
  };
  const even = (uri: string): AccessDecision =>
    Number(uri.slice(-1)) % 2 === 0 ? "allow" : "hide";
  const storage = createMemoryBackend(files);

  test("is decided in one call where there is a rule for pages, and else each by itself, 16 at a time", async () => {
    const pages: number[] = [];
    const single = vi.fn<AccessRule>();
    const paged = createHouse({
      ...open,
      storage,
      access: single,
      accessPage: (_principal, uris) => {
        pages.push(uris.length);
        return uris.map(even);
      },
    });
    let [running, most] = [0, 0];
    const each = createHouse({
      ...open,
      storage,
      access: async (_principal, uri) => {
        most = Math.max(most, (running += 1));
        await Promise.resolve();
        running -= 1;
        return even(uri);
      },
    });
    const names = await list(paged);
    expect(names).toHaveLength(30);
    expect(pages).toEqual([60]);
    expect(single).not.toHaveBeenCalled();
    expect(await list(each)).toEqual(names);
    expect(most).toBe(16);
  });

  test(
    "is filled over thousands of hidden entries in few calls to storage, and skips nothing behind them",
    { tags: "slow" },
    async () => {
      const names = Array.from({ length: 3_000 }, (_, n) => `g${n + 1_000}`);
      let calls = 0;
      const long = wrapBackend(
        createMemoryBackend(Object.fromEntries(names.map((name) => [name, "x"]))),
        {
          list: (call) => (options) => {
            calls += 1;
            return call(options);
          },
        },
      );
      const isShown = (name: string): boolean => /g(100.|2900|39..)$/.test(name);
      const house = createHouse({
        ...open,
        storage: long,
        pageSize: 8,
        access: (_principal, uri) => (isShown(uri) ? "allow" : "hide"),
      });
      const shown: string[] = [];
      let cursor: string | undefined;
      do {
        const params = { cursor };
        const { message } = await talkTo(house.sluice)("modern", "resources/list", { params });
        shown.push(...message.result.resources.map(({ name }: { name: string }) => name));
        cursor = message.result.nextCursor;
      } while (cursor !== undefined);
      expect(shown).toEqual(names.filter(isShown));
      expect(calls).toBeLessThan(200);
    },
  );

  test("is an error and not a list if its rule fails or decides too few", async () => {
    for (const accessPage of [() => [], () => Promise.reject(new Error("directory down"))]) {
      const house = createHouse({ ...open, storage, access: () => "allow", accessPage });
      const { message } = await talkTo(house.sluice)("modern", "resources/list");
      expect(message.error?.data.reason).toBe("internal");
      expect(house.errors).toHaveLength(1);
    }
  });

  test("with a decision that nobody knows shows nothing", async () => {
    const nonsense = ["yes", "", undefined, true] as unknown as AccessDecision[];
    for (const decision of nonsense)
      expect(await list(createHouse({ ...open, storage, access: () => decision }))).toEqual([]);
  });

  test("rule needs one for single resources beside it", () => {
    expect(() => createHouse({ accessPage: () => [] })).toThrow(TypeError);
  });
});

test("the record says what was hidden, and how many entries of a page were kept back", async () => {
  const { hiding } = createPair();
  await hiding.talk("legacy", "resources/read", { params: { uri: secret } });
  await hiding.talk("modern", "resources/list");
  expect(hiding.house.records).toMatchObject([
    { action: "read", outcome: "denied", reason: "hidden", uri: secret, revision: "legacy" },
    { action: "list", outcome: "complete", shown: 1, withheld: 1, revision: "modern" },
  ]);
});
