import { SluiceError } from "@sluice/core";
import { createMemoryBackend, wrapBackend, type StorageBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { docs, media, mounted, createTwo, seen } from "./mounting.ts";
import { alice, as } from "./redeeming.ts";
import { eras } from "./talking.ts";

const folder = (count: number, of = "f"): StorageBackend =>
  createMemoryBackend(
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`${of}${n}.txt`, "1"])),
  );

describe.each(eras)("a list of several mounts in the %s era", (era) => {
  test.each([1, 3, 100])(
    "pages of %i lead through all mounts in their order, each resource once",
    async (pageSize) => {
      const { pages } = mounted(
        [
          { baseUri: "z://first/", storage: folder(4) },
          { baseUri: "empty://one/", storage: folder(0) },
          { baseUri: "a://second/", storage: folder(3) },
          { baseUri: "empty://two/", storage: folder(0) },
        ],
        { pageSize },
      );
      const given = await pages(era);
      expect(given.flat()).toEqual([
        ...[0, 1, 2, 3].map((n) => `z://first/f${n}.txt`),
        ...[0, 1, 2].map((n) => `a://second/f${n}.txt`),
      ]);
      expect(Math.max(...given.map(({ length }) => length))).toBeLessThanOrEqual(pageSize);
    },
  );

  test.each([1, 3, 100])(
    "the author's resources stand before the mounts, with pages of %i",
    async (pageSize) => {
      const { pages } = mounted(
        [
          { baseUri: docs, storage: folder(2) },
          { baseUri: media, storage: folder(2) },
        ],
        {
          pageSize,
          register: (mcp) => {
            for (const name of ["one", "two"])
              mcp.registerResource(name, `own://${name}/`, {}, () => ({ contents: [] }));
          },
        },
      );
      expect((await pages(era)).flat()).toEqual([
        "own://one/",
        "own://two/",
        ...[docs, media].flatMap((base) => [`${base}f0.txt`, `${base}f1.txt`]),
      ]);
    },
  );

  test.each([1, 3, 100])(
    "a mount whose objects are all hidden adds nothing, with pages of %i",
    async (pageSize) => {
      const { pages, records } = mounted(
        [
          { baseUri: docs, storage: folder(2) },
          { baseUri: "hidden://all/", storage: folder(30), access: () => "hide" },
          { baseUri: media, storage: folder(2) },
        ],
        { pageSize },
      );
      expect((await pages(era)).flat()).toEqual(
        [docs, media].flatMap((base) => [`${base}f0.txt`, `${base}f1.txt`]),
      );
      expect(records.map(({ withheld }) => withheld ?? 0).reduce((a, b) => a + b)).toBe(30);
    },
  );

  test("120 mounts have one cursor; an answer looks at 50 of them, however empty they are", async () => {
    let asked = 0;
    const count = (storage: StorageBackend): StorageBackend =>
      wrapBackend(storage, { list: (list) => (options) => (asked++, list(options)) });
    const { pages, ask } = mounted(
      Array.from({ length: 120 }, (_, n) => ({
        baseUri: `m${n}://acme/`,
        storage: count(folder(n % 40 === 39 ? 1 : 0)),
      })),
    );
    const first = await ask(era, "resources/list");
    expect(asked).toBe(50);
    expect(first).toMatchObject({
      resources: [{ uri: "m39://acme/f0.txt" }],
      nextCursor: expect.any(String),
    });
    expect((await pages(era)).flat()).toEqual([39, 79, 119].map((n) => `m${n}://acme/f0.txt`));
  });

  test("an answer that withheld ten thousand objects goes on in the next mount with the next page", async () => {
    let asked = 0;
    const last = wrapBackend(folder(1), { list: (list) => (options) => (asked++, list(options)) });
    const many = folder(10_000);
    const { ask } = mounted([
      { baseUri: docs, storage: many, access: () => "hide" },
      { baseUri: media, storage: last },
    ]);
    const { resources, nextCursor } = await ask(era, "resources/list");
    expect([resources, asked]).toEqual([[], 0]);
    const page = await ask(era, "resources/list", { cursor: nextCursor });
    expect(page.resources).toHaveLength(1);
    expect(page).not.toHaveProperty("nextCursor");
  });

  test("a mount that fails is an error that can be tried again; what stands before it is told", async () => {
    const down = wrapBackend(folder(2), {
      list: () => () => Promise.reject(new SluiceError("unavailable", "down: acme-bucket-17")),
    });
    const { ask } = mounted([
      { baseUri: docs, storage: folder(2) },
      { baseUri: "down://acme/", storage: down },
      { baseUri: media, storage: folder(2) },
    ]);
    const first = await ask(era, "resources/list");
    expect(first.resources.map(({ uri }: { uri: string }) => uri)).toEqual([
      `${docs}f0.txt`,
      `${docs}f1.txt`,
    ]);
    const next = await ask(era, "resources/list", { cursor: first.nextCursor });
    expect(next.error.data.reason).toBe("busy");
    expect(JSON.stringify(next)).not.toContain("acme-bucket");
    // the others serve as before
    const read = await ask(era, "resources/read", { uri: `${media}f0.txt` });
    expect(read.contents[0].text).toBe("1");
    const { resourceTemplates } = await ask(era, "resources/templates/list");
    expect(resourceTemplates).toHaveLength(3);
  }, 30_000);

  test("a cursor of a mount that went away, or of another server's mounts, is -32602", async () => {
    const { docsStorage, mediaStorage } = createTwo();
    const { host } = mounted([{ baseUri: docs, storage: docsStorage }]).sluice;
    const here = [
      { baseUri: docs, storage: docsStorage },
      { baseUri: media, storage: mediaStorage },
    ];
    const { keys } = host;
    const before = mounted(here, { keys, pageSize: 2 });
    const { nextCursor } = await before.ask(era, "resources/list");
    expect(
      (await before.ask(era, "resources/list", { cursor: nextCursor })).resources,
    ).toHaveLength(2);
    const after = [
      mounted(here.slice(0, 1), { keys }),
      mounted([here[0]!, { baseUri: "other://acme/", storage: mediaStorage }], { keys }),
      mounted(here.toReversed(), { keys }),
      mounted(here),
    ];
    for (const { ask, errors } of after) {
      const { error } = await ask(era, "resources/list", { cursor: nextCursor });
      expect([error?.code, error?.data.reason]).toEqual([-32602, "invalid"]);
      expect(errors).toEqual([]);
    }
  });

  test("a cursor of mounts is -32602 in a server with one storage below the same base", async () => {
    const { docsStorage, mediaStorage } = createTwo();
    const mounts = [
      { baseUri: "files://demo/", storage: docsStorage },
      { baseUri: media, storage: mediaStorage },
    ];
    const { sluice, ask } = mounted(mounts, { pageSize: 1 });
    const { nextCursor } = await ask(era, "resources/list");
    const { keys } = sluice.host;
    const { talk } = mounted(undefined as never, {
      keys,
      storage: docsStorage,
      baseUri: "files://demo/",
    });
    const params = { cursor: nextCursor };
    const { message } = await talk(era, "resources/list", { params, headers: as(alice) });
    expect(message.error).toMatchObject({ code: -32602, data: { reason: "invalid" } });
  });

  test("a cursor of another principal, and an altered one, are -32602 in any mount", async () => {
    const { docsStorage, mediaStorage } = createTwo();
    const { ask } = mounted(
      [
        { baseUri: docs, storage: docsStorage },
        { baseUri: media, storage: mediaStorage },
      ],
      { pageSize: 1 },
    );
    let cursor: string | undefined;
    for (let page = 0; page < 3; page++) {
      ({ nextCursor: cursor } = await ask(era, "resources/list", { cursor }));
      const last = cursor!.at(-1) === "A" ? "B" : "A";
      for (const [sent, who] of [
        [cursor, { subject: "bob" }],
        [cursor!.slice(0, -1) + last, {}],
        [cursor!.replace(/^.{8}/, "AAAAAAAA"), {}],
      ]) {
        const { error } = await ask(era, "resources/list", { cursor: sent }, who as object);
        expect([error?.code, error?.data.reason]).toEqual([-32602, "invalid"]);
      }
    }
  });

  test("a cursor names neither the mount nor the object at which it stands", async () => {
    const { ask } = mounted(
      [
        { baseUri: docs, storage: folder(2, "secret") },
        { baseUri: media, storage: folder(1) },
      ],
      { pageSize: 1 },
    );
    const { nextCursor } = await ask(era, "resources/list");
    const readable = nextCursor
      .split(".")
      .map((part: string) => Buffer.from(part, "base64url").toString("latin1"))
      .join("");
    for (const name of ["secret", "docs", "acme", "/"]) expect(nextCursor).not.toContain(name);
    expect(readable).not.toContain("secret");
  });

  test("the last object of a mount and the first of the next one can share a page", async () => {
    const { pages } = mounted(
      [
        { baseUri: docs, storage: folder(2) },
        { baseUri: media, storage: folder(2) },
      ],
      { pageSize: 3 },
    );
    expect((await pages(era)).map(({ length }) => length)).toEqual([3, 1]);
  });

  test("one backend in two mounts is listed below both bases", async () => {
    const storage = folder(2);
    const { pages } = mounted(
      [
        { baseUri: docs, storage },
        { baseUri: media, storage },
      ],
      { pageSize: 1 },
    );
    expect((await pages(era)).flat()).toHaveLength(4);
  });
});

test("a list that forgot to ask the access rule of a mount would show what it hides", async () => {
  // the broken twin: a mount whose rule was lost
  const rules = (access?: () => "hide") =>
    mounted([
      { baseUri: docs, storage: folder(1) },
      { baseUri: media, storage: folder(1), ...(access && { access }) },
    ]);
  expect((await rules(() => "hide").pages("modern")).flat()).toEqual([`${docs}f0.txt`]);
  expect((await rules().pages("modern")).flat()).toHaveLength(2);
});

test("an unlisted page of a mount that is down tells no more than any other error", async () => {
  const fail = (code: "unavailable" | "permission_denied") =>
    mounted([
      {
        baseUri: docs,
        storage: wrapBackend(folder(1), {
          list: () => () => Promise.reject(new SluiceError(code, `${docs} of acme-bucket-17`)),
        }),
      },
    ]);
  for (const code of ["unavailable", "permission_denied"] as const) {
    const exchange = await fail(code).talk("modern", "resources/list", { headers: as(alice) });
    expect(seen(exchange)).not.toMatch(/acme|docs:/);
  }
}, 30_000);
