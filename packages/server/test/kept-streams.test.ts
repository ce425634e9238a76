import { SluiceError } from "@sluice/core";
import type { AccessDecision, SluiceOptions } from "@sluice/server";
import { wrapBackend } from "@sluice/storage";
import type { KeptObject } from "@sluice/storage/plugin";
import { describe, expect, test, vi } from "vitest";
import { bytes, createKeeping, first } from "./keeping.ts";
import { alice, bodyOf, createHouse, headerOf } from "./redeeming.ts";
import { declares, eras, talkTo, type TalkOptions } from "./talking.ts";

const uri = "files://demo/a.bin";

/** Streams an object that lies in memory. */
function createKeeper(options: Partial<SluiceOptions> = {}) {
  const keeping = createKeeping();
  const house = createHouse({
    storage: keeping.storage,
    principal: () => alice,
    ...options,
  } as Partial<SluiceOptions>);
  const talk = talkTo(house.sluice);
  const stream = (era: (typeof eras)[number], more: TalkOptions = {}) =>
    talk(era, "resources/stream", { params: { uri }, ...more });
  return { ...keeping, ...house, stream };
}

describe.each(eras)("%s era: a stream of an object that lies in memory", (era) => {
  test("asks storage once, and gives the bytes, their headers, a download URL and a record", async () => {
    const { stream, opened, described, records } = createKeeper();
    const { slot } = await stream(era);
    const reply = slot.reply!;
    expect([opened, described]).toEqual([["a.bin"], ["a.bin"]]);
    expect([headerOf(reply, "content-length"), headerOf(reply, "etag")]).toEqual(["10", '"v1"']);
    expect(headerOf(reply, "cache-control")).toBe("private, no-store, no-transform");
    expect(headerOf(reply, "link")).toMatch(/rel="stream"$/);
    expect(await bodyOf(reply)).toBe("0123456789");
    expect(records).toMatchObject([
      { action: "stream", outcome: "complete", mode: "direct", bytes: 10, uri, revision: era },
    ]);
  });

  test("shares no header and no byte with the next one", async () => {
    const { stream } = createKeeper();
    const [one, two] = [(await stream(era)).slot.reply!, (await stream(era)).slot.reply!];
    (one.headers as string[]).push("Set-Cookie", "a=b");
    const three = (await stream(era)).slot.reply!;
    expect([two, three].map((reply) => reply.headers.includes("Set-Cookie"))).toEqual([
      false,
      false,
    ]);
    expect(new Set([one, two, three].map((reply) => headerOf(reply, "link"))).size).toBe(3);
    expect(three.headers.filter((field) => field === "Link")).toHaveLength(1);
    for await (const chunk of one.transfer!.source.body) chunk.fill(0);
    expect([await bodyOf(two), await bodyOf(three)]).toEqual(["0123456789", "0123456789"]);
  });

  test("has the headers of its version, and of the URI that was asked for", async () => {
    const { stream, keep } = createKeeper();
    await stream(era);
    keep({ info: { key: "a.bin", size: 3, etag: "v2" }, bytes: bytes.subarray(0, 3) });
    const reply = (await stream(era)).slot.reply!;
    expect([headerOf(reply, "etag"), headerOf(reply, "content-length")]).toEqual(['"v2"', "3"]);
    expect(await bodyOf(reply)).toBe("012");
    const spelled = "files://demo/%61.bin";
    const other = (await stream(era, { params: { uri: spelled } })).slot.reply!;
    expect(headerOf(other, "mcp-resource-uri")).toBe(spelled);
  });

  test("is the one of storage once it no longer lies there", async () => {
    const { stream, keep } = createKeeper();
    await stream(era);
    keep();
    expect(await bodyOf((await stream(era)).slot.reply!)).toBe("slow bytes");
  });

  test("is described if it has another name, so that the rules are asked about that name", async () => {
    const asked: string[] = [];
    const link: KeptObject = { info: { key: "secret.bin", size: 10, etag: "v1" }, bytes };
    const { stream, keep, opened } = createKeeper({
      access: (_principal, asking) => {
        asked.push(asking);
        return asking.endsWith("secret.bin") ? "hide" : "allow";
      },
    });
    keep(link);
    const { slot } = await stream(era);
    expect([slot.reply, slot.fault]).toEqual([undefined, expect.anything()]);
    expect([asked, opened]).toEqual([[uri, "files://demo/secret.bin"], []]);
  });

  test.each<[AccessDecision, boolean]>([
    ["hide", false],
    ["hide", true],
    ["deny", false],
    ["deny", true],
  ])("is refused by rules that say %s (later: %s), on each call", async (decision, isLater) => {
    let decided: AccessDecision = "allow";
    const { stream, opened, described } = createKeeper({
      access: () => (isLater ? Promise.resolve(decided) : decided),
    });
    expect((await stream(era)).slot.reply?.status).toBe(200);
    decided = decision;
    opened.length = described.length = 0;
    const { slot } = await stream(era);
    expect([slot.reply, slot.fault]).toEqual([undefined, expect.anything()]);
    expect([...opened, ...described]).not.toContain("a.bin");
  });

  test("is refused where it is larger than the client takes", async () => {
    const { stream } = createKeeper();
    const { slot } = await stream(era, { capabilities: declares({ maxStreamSize: 9 }) });
    expect([slot.reply, slot.fault]).toEqual([undefined, expect.anything()]);
    const fits = await stream(era, { capabilities: declares({ maxStreamSize: 10 }) });
    expect(fits.slot.reply?.status).toBe(200);
  });

  test("takes a permit of its principal until its bytes are sent", async () => {
    const { stream } = createKeeper({ limits: { streams: { perPrincipal: 1 } } });
    const { slot } = await stream(era);
    expect((await stream(era)).slot.reply).toBeUndefined();
    slot.reply!.transfer!.end({ outcome: "complete", bytes: 10 });
    expect((await stream(era)).slot.reply?.status).toBe(200);
  });

  test("is what its author says of it, which is asked before any byte leaves", async () => {
    const { stream } = createKeeper({ describe: () => ({ streamable: false }) });
    const { slot } = await stream(era);
    expect([slot.reply, slot.fault]).toEqual([undefined, expect.anything()]);
    const typed = createKeeper({ describe: () => ({ mimeType: "image/png" }) });
    expect(headerOf((await typed.stream(era)).slot.reply!, "content-type")).toBe("image/png");
  });

  test.each(["direct", "downloadUrl"] as const)(
    "is not made for a client that has gone: %s",
    async (delivery) => {
      const gone = new AbortController();
      const { stream, records } = createKeeper({
        delivery,
        principal: () => {
          gone.abort();
          return alice;
        },
      });
      const { slot } = await stream(era, { signal: gone.signal });
      await vi.waitFor(() => expect(records).toMatchObject([{ outcome: "aborted", bytes: 0 }]));
      expect([slot.reply, records[0]?.grant]).toEqual([undefined, undefined]);
    },
  );

  test("is not sent without a record where records are required", async () => {
    const { stream } = createKeeper({
      audit: { required: true, sink: () => Promise.reject(new Error("disk full")) },
    });
    const { slot } = await stream(era);
    expect([slot.reply, slot.fault]).toEqual([undefined, expect.anything()]);
  });

  test("is not found behind a `describe` of its own, which is asked and obeyed", async () => {
    const { storage, opened } = createKeeping();
    const refuse = (): Promise<never> =>
      Promise.reject(new SluiceError("not_found", "it waits for its scan"));
    const refused = await createKeeper({ storage: { ...storage, describe: refuse } }).stream(era);
    expect([refused.slot.reply, refused.slot.fault?.data.reason]).toEqual([undefined, "not_found"]);
    expect(opened).toEqual([]);
    const typed = wrapBackend(storage, {
      describe: (inner) => async (key) => ({ ...(await inner(key)), contentType: "a/b" }),
    });
    const told = createKeeper({ storage: typed, delivery: "downloadUrl" });
    expect((await told.stream(era)).message.result.mimeType).toBe("a/b");
  });

  test.each<[string, KeptObject | undefined, string]>([
    [
      "changes",
      { info: { ...first.info, size: 3, etag: "v2" }, bytes: bytes.subarray(0, 3) },
      "012",
    ],
    ["leaves memory", undefined, "slow bytes"],
  ])(
    "has the bytes of when its way is chosen, where the object %s while storage signs no URL",
    async (_what, next, sent) => {
      const { storage, keep } = createKeeping();
      const presign = async (): Promise<undefined> => {
        keep(next);
        return undefined;
      };
      const redirectOrigins = ["https://store.example.com"];
      const { stream } = createKeeper({ storage: { ...storage, presign }, redirectOrigins });
      expect(await bodyOf((await stream(era)).slot.reply!)).toBe(sent);
    },
  );

  test("is refused where the object has grown since it was described, and no longer fits", async () => {
    const { storage, keep } = createKeeping();
    const small = { info: { ...first.info, size: 3, etag: "v0" }, bytes: bytes.subarray(0, 3) };
    const grow = (): "direct" => (keep(first), "direct");
    const { stream } = createKeeper({ storage, delivery: grow });
    keep(small);
    const { slot } = await stream(era, { capabilities: declares({ maxStreamSize: 9 }) });
    expect([slot.reply, slot.fault?.data.reason]).toEqual([undefined, "too_large"]);
  });

  test("is not made for a client that went while its way was chosen", async () => {
    const gone = new AbortController();
    const delivery = (): "direct" => (gone.abort(), "direct");
    const { stream, records } = createKeeper({ delivery });
    const { slot } = await stream(era, { signal: gone.signal });
    await vi.waitFor(() => expect(records).toMatchObject([{ outcome: "aborted", bytes: 0 }]));
    expect([slot.reply, records[0]?.grant]).toEqual([undefined, undefined]);
  });

  test("leaves as a download URL where its type could pose as an answer of the protocol", async () => {
    const { stream, keep } = createKeeper({ delivery: "direct" });
    keep({ info: { ...first.info, contentType: "application/json" }, bytes });
    const { slot, message } = await stream(era);
    expect(slot.reply).toBeUndefined();
    expect(message.result.downloadUrl).toMatch(/\/streams\//);
  });
});
