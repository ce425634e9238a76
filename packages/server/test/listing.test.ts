import { EXTENSION_ID } from "@sluice/core/internal";
import type { SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { alice, as, createHouse } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const names = Array.from({ length: 5 }, (_, n) => `secret-${n}.txt`);
const files = Object.fromEntries(names.map((name) => [name, name]));
const bob = { ...alice, subject: "bob" };

function setUp(options: Partial<SluiceOptions> = {}) {
  const house = createHouse({
    storage: createMemoryBackend(files),
    pageSize: 2,
    ...options,
  } as Partial<SluiceOptions>);
  return { ...house, talk: talkTo(house.sluice) };
}

describe.each(eras)("resources/list in the %s era", (era) => {
  const headers = as(alice);

  test("pages go on from each other and give every resource once [MCP/resources/may-paginate] [MCP/pagination/should-stable-cursors]", async () => {
    const { talk } = setUp();
    const walked: string[] = [];
    let cursor: string | undefined;
    do {
      const { message } = await talk(era, "resources/list", { params: { cursor }, headers });
      expect(message.result.resources.length).toBeLessThanOrEqual(2);
      walked.push(...message.result.resources.map(({ name }: { name: string }) => name));
      cursor = message.result.nextCursor;
    } while (cursor !== undefined);
    expect(walked).toEqual(names);
  });

  test("a cursor leads to the same page again, whatever was asked or added since [MCP/pagination/should-stable-cursors]", async () => {
    const storage = createMemoryBackend(files);
    const { talk } = setUp({ storage });
    const page = async (cursor?: string) =>
      (await talk(era, "resources/list", { params: { cursor }, headers })).message.result;
    const { nextCursor } = await page();
    const { resources } = await page(nextCursor);
    await page();
    storage.put("secret-0a.txt", "new");
    expect((await page(nextCursor)).resources).toEqual(resources);
  });

  test("a list of more than a hundred has pages, whatever the server is told [ARTICLE/12.1/must-paginate] [MCP/resources/may-paginate]", async () => {
    const many = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`n${n}`, ""]));
    const talk = talkTo(createHouse({ storage: createMemoryBackend(many) }).sluice);
    const { result } = (await talk(era, "resources/list", { headers })).message;
    expect(result.resources).toHaveLength(100);
    const params = { cursor: result.nextCursor };
    const rest = (await talk(era, "resources/list", { params, headers })).message.result;
    expect(rest.resources).toHaveLength(1);
    expect(rest).not.toHaveProperty("nextCursor");
  });

  test("a cursor that is altered, somebody else's, another server's or made up is -32602 [MCP/pagination/should-refuse-cursor]", async () => {
    const { talk } = setUp();
    const first = await talk(era, "resources/list", { headers });
    const cursor = first.message.result.nextCursor as string;
    const foreign = await talkTo(setUp().sluice)(era, "resources/list", { headers });
    const attempts = [
      { cursor: cursor.slice(0, -1) + (cursor.endsWith("A") ? "B" : "A"), headers },
      { cursor, headers: as(bob) },
      { cursor: foreign.message.result.nextCursor, headers },
      { cursor: "s:03f957e5.secret-1.txt", headers },
      { cursor: "", headers },
    ];
    for (const attempt of attempts) {
      const { message } = await talk(era, "resources/list", {
        params: { cursor: attempt.cursor },
        headers: attempt.headers,
      });
      expect([message.error?.code, message.error?.data.reason]).toEqual([-32602, "invalid"]);
    }
    const { message } = await talk(era, "resources/list", { params: { cursor }, headers });
    expect(message.result.resources).toHaveLength(2);
  });

  test("a cursor does not tell the name at which it stands", async () => {
    const { talk } = setUp({
      access: (_who, uri) => (/secret-[01]/.test(uri) ? "hide" : "allow"),
    });
    const { result } = (await talk(era, "resources/list", { headers })).message;
    // pages are filled up for what is hidden
    expect(result.resources).toHaveLength(2);
    const readable = Buffer.from(result.nextCursor.split(".")[1], "base64url").toString("latin1");
    expect(result.nextCursor + readable).not.toContain("secret");
  });

  test("the author's resources stand beside those of storage [MCP/resources/may-annotate]", async () => {
    const { talk } = setUp({
      describe: ({ key, size }, uri) =>
        key === "secret-0.txt"
          ? {
              title: `Letter of ${size} bytes`,
              description: uri,
              audience: ["user"],
              priority: 0.9,
            }
          : undefined,
    });
    const { resources } = (await talk(era, "resources/list", { headers })).message.result;
    expect(resources[0]).toEqual({
      uri: "files://demo/secret-0.txt",
      name: "secret-0.txt",
      title: "Letter of 12 bytes",
      description: "files://demo/secret-0.txt",
      mimeType: "text/plain",
      size: 12,
      annotations: {
        audience: ["user"],
        priority: 0.9,
        lastModified: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      },
      streamable: true,
      _meta: { [EXTENSION_ID]: { streamable: true, etag: expect.stringMatching(/^".+"$/) } },
    });
    expect(resources[1]).not.toHaveProperty("title");
  });

  test("an audience that is not known is left out, since clients refuse the whole page with null", async () => {
    const { talk } = setUp({ describe: () => ({ audience: null as never }) });
    const { message } = await talk(era, "resources/list", { headers });
    for (const { annotations } of message.result.resources)
      expect(annotations).not.toHaveProperty("audience");
  });

  test.each([-0.1, 1.1, Number.NaN])(
    "a priority of %d is left out, since clients refuse the whole page with it, and the operator hears of it [ARTICLE/4.2/annotations]",
    async (priority) => {
      const { talk, errors } = setUp({ describe: () => ({ priority }) });
      const { message } = await talk(era, "resources/list", { headers });
      expect(message.result.resources).toHaveLength(2);
      for (const { annotations } of message.result.resources)
        expect(annotations).not.toHaveProperty("priority");
      expect(errors).toMatchObject(
        [0, 1].map((n) => ({ message: expect.stringContaining(`secret-${n}.txt`) })),
      );
    },
  );

  test.each([
    [5_000, { cacheTtlMs: 5_000 }],
    [0, {}],
  ])(
    "results say how long they may be kept, in the modern era only: %i ms [MCP/caching/must-say] [MCP/caching/must-not-negative]",
    async (expected, options) => {
      const { talk } = setUp(options);
      const calls = {
        "resources/list": {},
        "resources/templates/list": {},
        "resources/read": { uri: "files://demo/secret-0.txt" },
      };
      for (const [method, params] of Object.entries(calls)) {
        const { ttlMs, cacheScope } = (await talk(era, method, { params, headers })).message.result;
        expect([ttlMs, cacheScope]).toEqual(
          era === "modern" ? [expected, "private"] : [undefined, undefined],
        );
      }
    },
  );

  test("a list is on record with what it showed and what it kept back [ARTICLE/8/audit]", async () => {
    const { talk, records } = setUp({
      access: (_who, uri) => (uri.includes("secret-1") ? "hide" : "allow"),
    });
    await talk(era, "resources/list", { headers });
    expect(records).toMatchObject([
      { action: "list", outcome: "complete", shown: 2, withheld: 1, revision: era },
    ]);
  });
});

test.each([{ pageSize: 0 }, { pageSize: 1.5 }, { cacheTtlMs: -1 }, { cacheTtlMs: NaN }])(
  "%o is refused when the server starts [MCP/caching/must-not-negative]",
  (options) => expect(() => createHouse(options)).toThrow(RangeError),
);
