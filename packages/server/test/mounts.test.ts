import { ResourceTemplate } from "@modelcontextprotocol/server";
import { EXTENSION_ID } from "@sluice/core/internal";
import { createSluice, type MountOptions, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend, wrapBackend, type StorageBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { createTwo, docs, media, mounted, type MountedOptions } from "./mounting.ts";
import { alice, as, bodyOf, endpoint, headerOf } from "./redeeming.ts";
import { declares, eras, talkTo } from "./talking.ts";

const { docsStorage, mediaStorage } = createTwo();

/** A mount of docs that is as `rules` say, and one of media. */
const two = (rules: Partial<MountOptions> = {}, options: MountedOptions = {}) =>
  mounted(
    [
      { baseUri: docs, storage: docsStorage, ...rules } as MountOptions,
      { baseUri: media, storage: mediaStorage },
    ],
    options,
  );

const signing = (of: StorageBackend, origin: string): StorageBackend => ({
  ...of,
  presign: async (key) => ({ url: `${origin}/${key}?sig`, expiresAt: Date.now() }),
});

describe.each(eras)("two mounts in the %s era", (era) => {
  const headers = as(alice);
  const stream = (house: ReturnType<typeof two>, uri: string) =>
    house.talk(era, "resources/stream", { params: { uri }, headers });

  test("each mount has its template in the list, marked where the server streams", async () => {
    const streaming = await two().ask(era, "resources/templates/list");
    expect(streaming.resourceTemplates).toEqual(
      [docs, media].map((base) => ({
        name: base,
        uriTemplate: `${base}{+key}`,
        description: `Any resource below ${base} by its path`,
        streamable: true,
        _meta: { [EXTENSION_ID]: { streamable: true } },
      })),
    );
    const plain = await two({}, { attach: { stream: false } }).ask(era, "resources/templates/list");
    expect(plain.resourceTemplates).toHaveLength(2);
    expect(JSON.stringify(plain)).not.toMatch(/streamable|sluice:/);
  });

  test("the templates of the author stay beside those of the mounts", async () => {
    const { ask } = two(
      {},
      {
        register: (mcp) => {
          const template = new ResourceTemplate("own://{x}", { list: undefined });
          mcp.registerResource("own", template, {}, () => ({ contents: [] }));
        },
      },
    );
    const { resourceTemplates } = await ask(era, "resources/templates/list");
    expect(resourceTemplates.map(({ uriTemplate }: any) => uriTemplate)).toEqual([
      "own://{x}",
      `${docs}{+key}`,
      `${media}{+key}`,
    ]);
  });

  test("the variable of each template is completed from its own storage", async () => {
    const { ask } = two();
    const values = async (base: string, value: string) => {
      const ref = { type: "ref/resource", uri: `${base}{+key}` };
      const params = { ref, argument: { name: "key", value } };
      return (await ask(era, "completion/complete", params)).completion.values;
    };
    expect(await values(docs, "")).toEqual(["a.txt", "b.txt"]);
    expect(await values(media, "")).toEqual(["a.txt", "clip.bin"]);
  });

  test("read, read tool, link and stream take each object from the mount of its URI", async () => {
    const house = two();
    for (const [base, text] of [
      [docs, "of docs"],
      [media, "of media"],
    ] as const) {
      const uri = `${base}a.txt`;
      const read = await house.ask(era, "resources/read", { uri });
      expect(read.contents).toMatchObject([{ uri, text }]);
      const call = (name: string) => house.ask(era, "tools/call", { name, arguments: { uri } });
      expect((await call("read_file")).content).toMatchObject([{ text }, {}]);
      expect((await call("link")).content).toMatchObject([
        { type: "resource_link", uri },
        { type: "text", text },
      ]);
      const { slot } = await stream(house, uri);
      expect(slot.reply?.status).toBe(200);
      expect(await bodyOf(slot.reply!)).toBe(text);
    }
    expect(house.errors).toEqual([]);
  });

  test.each([
    "docs://other/a.txt",
    "docs://acme",
    "docs://acm/a.txt",
    "nothing://at/all",
    "sluice:a.txt",
  ])("%s is below no mount and leads nowhere", async (uri) => {
    const house = two();
    const read = await house.ask(era, "resources/read", { uri });
    expect(read.error?.code).toBe(-32602);
    const streamed = await stream(house, uri);
    expect(streamed.message.error?.data).toEqual({ reason: "not_found", uri });
    const { isError } = await house.ask(era, "tools/call", {
      name: "read_file",
      arguments: { uri },
    });
    expect(isError).toBe(true);
    const linked = await house.ask(era, "tools/call", { name: "link", arguments: { uri } });
    expect(linked.content[0].text).toBe(`${uri}: No such resource`);
    expect(JSON.stringify([read, streamed.message])).not.toMatch(/media|one of 2/);
  });

  test.each([
    `${docs}%61.txt`,
    `${docs}x/../a.txt`,
    `${docs}x/%2e%2e/a.txt`,
    "DOCS://acme/a.txt",
    `${media}x/../a.txt`,
    `${media}..%2fa.txt`,
  ])("%s leads around no access rule of a mount", async (uri) => {
    const asked: string[] = [];
    const access = (_who: unknown, of: string) => {
      asked.push(of);
      return "hide" as const;
    };
    const house = mounted([
      { baseUri: docs, storage: docsStorage, access },
      { baseUri: media, storage: mediaStorage, access },
    ]);
    const read = await house.ask(era, "resources/read", { uri });
    expect(read.error?.code).toBe(-32602);
    const { slot, message } = await stream(house, uri);
    expect([slot.reply, message.result]).toEqual([undefined, undefined]);
    for (const of of asked) expect([`${docs}a.txt`, `${media}a.txt`]).toContain(of);
    expect(JSON.stringify([read, message])).not.toContain("of docs");
  });

  test("the author's resources below a mount stay the author's", async () => {
    const house = two(
      {},
      {
        register: (mcp) =>
          mcp.registerResource("own", `${docs}b.txt`, {}, () => ({
            contents: [{ uri: `${docs}b.txt`, text: "the author's" }],
          })),
      },
    );
    const uri = `${docs}%62.txt`;
    const read = await house.ask(era, "resources/read", { uri: `${docs}b.txt` });
    expect(read.contents[0].text).toBe("the author's");
    expect((await house.ask(era, "resources/read", { uri })).error.data.reason).toBe("not_found");
    for (const spelling of [uri, `${docs}b.txt`])
      expect((await stream(house, spelling)).message.error?.data.reason).toBe("stream_unsupported");
    expect((await stream(house, `${docs}a.txt`)).slot.reply?.status).toBe(200);
  });

  test("access of a mount comes before that of the Sluice, which the others keep", async () => {
    const house = two({ access: () => "allow" }, { access: () => "hide" });
    expect((await house.pages(era)).flat()).toEqual([`${docs}a.txt`, `${docs}b.txt`]);
    expect((await stream(house, `${docs}a.txt`)).slot.reply?.status).toBe(200);
    const { error } = (await stream(house, `${media}a.txt`)).message;
    expect(error?.data.reason).toBe("not_found");
  });

  test("a mount with a rule of its own is not under the page rule of the Sluice", async () => {
    const accessPage = (_who: unknown, uris: readonly string[]) => uris.map(() => "hide" as const);
    const house = two({ access: () => "allow" }, { access: () => "hide", accessPage });
    expect((await house.pages(era)).flat()).toEqual([`${docs}a.txt`, `${docs}b.txt`]);
    const own = two({ access: () => "allow", accessPage });
    expect((await own.pages(era)).flat()).toEqual([`${media}a.txt`, `${media}clip.bin`]);
  });

  test("delivery and redirectOrigins of a mount come before those of the Sluice", async () => {
    const [near, far] = ["https://near.example", "https://far.example"];
    const house = mounted(
      [
        {
          baseUri: docs,
          storage: signing(docsStorage, near),
          delivery: "redirect",
          redirectOrigins: [near],
        },
        { baseUri: media, storage: signing(mediaStorage, far) },
        // its storage signs URLs to an origin that only another mount allows
        { baseUri: "odd://acme/", storage: signing(mediaStorage, near), delivery: "auto" },
      ],
      { delivery: "direct", redirectOrigins: [far] },
    );
    const first = (await stream(house, `${docs}a.txt`)).slot.reply!;
    expect([first.status, headerOf(first, "location")]).toEqual([302, `${near}/a.txt?sig`]);
    const second = (await stream(house, `${media}a.txt`)).slot.reply!;
    expect(await bodyOf(second)).toBe("of media");
    const third = (await stream(house, "odd://acme/a.txt")).slot.reply!;
    expect(third.status).toBe(200);
    expect(await bodyOf(third)).toBe("of media");
  });

  test("describe and maxReadBytes of a mount come before those of the Sluice", async () => {
    const house = two(
      { describe: () => ({ title: "of the mount" }), maxReadBytes: 3 },
      { describe: () => ({ title: "of the Sluice" }), maxReadBytes: 100 },
    );
    const { resources } = await house.ask(era, "resources/list");
    expect(resources.map(({ title }: any) => title)).toEqual([
      ...Array.from({ length: 2 }, () => "of the mount"),
      ...Array.from({ length: 2 }, () => "of the Sluice"),
    ]);
    const read = (base: string) => house.ask(era, "resources/read", { uri: `${base}a.txt` });
    expect((await read(docs)).error.data.reason).toBe("too_large");
    expect((await read(media)).contents[0].text).toBe("of media");
  });

  test("limits of a mount count its own streams, beside those of the Sluice", async () => {
    const house = two(
      { limits: { streams: { perPrincipal: 1 } } },
      { limits: { streams: { perPrincipal: 3 } } },
    );
    const reason = async (base: string) => {
      const { message, slot } = await stream(house, `${base}a.txt`);
      return message.error?.data.reason ?? slot.reply?.transfer;
    };
    const held: any = await reason(docs);
    expect(await reason(docs)).toBe("busy");
    const others: any[] = [await reason(media), await reason(media)];
    // the permit that the refused one took of the Sluice was released
    expect(others.map((each) => typeof each)).toEqual(["object", "object"]);
    expect(await reason(media)).toBe("busy");
    for (const each of [held, ...others]) {
      await each.source.body.cancel?.();
      each.end({ outcome: "aborted", bytes: 0 });
    }
    const again: any = await reason(docs);
    await again.source.body.cancel?.();
    again.end({ outcome: "aborted", bytes: 0 });
  });

  test("the read tool names the first five bases that every caller has", async () => {
    const many = Array.from({ length: 7 }, (_, n) => ({
      baseUri: `m${n}://acme/`,
      storage: n === 1 ? () => undefined : docsStorage,
    }));
    const { tools } = await mounted(many).ask(era, "tools/list");
    const { description } = tools.find(({ name }: { name: string }) => name === "read_file");
    const named = [...description.matchAll(/m\d(?=:)/g)].map(([name]) => name);
    expect(named).toEqual(["m0", "m2", "m3", "m4", "m5"]);
  });
});

test("each mount is read over stdio-like exchanges without HTTP, and none is marked as streamable", async () => {
  const house = two();
  const talk = talkTo(house.sluice);
  const { message } = await talk("modern", "resources/read", {
    params: { uri: `${media}a.txt` },
    capabilities: declares(),
    headers: as(alice),
    hasSlot: false,
  });
  expect(message.result.contents[0].text).toBe("of media");
});

describe("options that cannot work say what to do", () => {
  const storage = createMemoryBackend();
  const rest: SluiceOptions = { endpoint, keys: "ephemeral", anonymous: true };
  const at = (...bases: string[]) => ({ mounts: bases.map((baseUri) => ({ baseUri, storage })) });

  test.each<[string, object, RegExp]>([
    ["no mount", { mounts: [] }, /mounts is empty; name one storage/],
    ["mounts that are not an array", { mounts: { docs: storage } }, /mounts must be an array of/],
    [
      "a base that lies below another one",
      at("docs://a/", "docs://a/b/"),
      /docs:\/\/a\/b\/ lies below docs:\/\/a\/; give each storage a base URI of its own/,
    ],
    [
      "a base far behind in the list",
      at("docs://a/b/", "media://x/", "docs://a/"),
      /docs:\/\/a\/b\/ lies below docs:\/\/a\//,
    ],
    ["a base twice", at("docs://a/", "docs://a/"), /docs:\/\/a\/ is there twice/],
    [
      "a base that is not canonical",
      at("DOCS://a/"),
      /"DOCS:\/\/a\/" is not a base URI; write it like/,
    ],
    ["a base without a slash at its end", at("docs://a"), /is not a base URI/],
    ["a base with a way up", at("docs://a/../"), /is not a base URI/],
    [
      "a mount without a base",
      { mounts: [{ storage }] },
      /mounts\[0\]\.baseUri must be the base URI/,
    ],
    [
      "a mount without storage",
      { mounts: [{ baseUri: "docs://a/" }] },
      /mounts\[0\]\.storage must be a backend/,
    ],
    ["a mount that is nothing", { mounts: [undefined] }, /mounts\[0\]\.storage must be a backend/],
    [
      "mounts and storage",
      { ...at("docs://a/"), storage },
      /pass mounts, or storage and baseUri, and not both/,
    ],
    ["mounts and a base", { ...at("docs://a/"), baseUri: "docs://b/" }, /not both/],
    ["neither", {}, /createSluice: storage must be a backend/],
    [
      "a page rule of a mount without its rule",
      { mounts: [{ baseUri: "docs://a/", storage, accessPage: () => [] }], access: () => "allow" },
      /accessPage also needs access/,
    ],
    [
      "a delivery of a mount that does not exist",
      { mounts: [{ baseUri: "docs://a/", storage, delivery: "mail" }] },
      /delivery must be "auto"/,
    ],
    [
      "an origin of a mount with a path",
      { mounts: [{ baseUri: "docs://a/", storage, redirectOrigins: ["https://a.example/x"] }] },
      /redirectOrigins are exact origins/,
    ],
  ])("%s is a TypeError", (_name, options, message) => {
    const given = () => createSluice({ ...rest, ...options });
    expect(given).toThrow(TypeError);
    expect(given).toThrow(message);
  });

  test("a limit of a mount must be a whole number from 1, else a RangeError", () => {
    for (const perPrincipal of [0, 1.5, Number.NaN])
      expect(() =>
        mounted([{ baseUri: docs, storage, limits: { streams: { perPrincipal } } }]),
      ).toThrow(RangeError);
  });

  test("a warning names the mount whose delivery can never be a redirect", () => {
    const told: string[] = [];
    mounted(
      [
        {
          baseUri: docs,
          storage: docsStorage,
          delivery: "redirect",
          redirectOrigins: ["https://a.example"],
        },
        { baseUri: media, storage: mediaStorage },
      ],
      { onWarning: (message) => void told.push(message) },
    );
    expect(told).toEqual([expect.stringContaining(`every resource below ${docs}`)]);
  });
});

test("baseUris are those of the mounts in their order, and names are unlike", () => {
  const { sluice } = two();
  expect(sluice.baseUris).toEqual([docs, media]);
  const { nameOf } = sluice.host;
  expect(nameOf(`${docs}a.txt`)).not.toBe(nameOf(`${media}a.txt`));
  expect(nameOf(`${docs}%61.txt`)).toBe(nameOf(`${docs}a.txt`));
  expect(() => nameOf("other://acme/a.txt")).toThrow(/not below one of 2 base URIs/);
});

test("each backend is asked in its own mount only", async () => {
  const asked: string[] = [];
  const heard = (name: string, storage: StorageBackend) =>
    wrapBackend(storage, {
      describe: (look) => (key, options) => (asked.push(`${name} ${key}`), look(key, options)),
      open: (open) => (key, options) => (asked.push(`${name} ${key}`), open(key, options)),
    });
  const house = mounted([
    { baseUri: docs, storage: heard("docs", docsStorage) },
    { baseUri: media, storage: heard("media", mediaStorage) },
  ]);
  await house.ask("modern", "resources/read", { uri: `${media}a.txt` });
  expect(new Set(asked)).toEqual(new Set(["media a.txt"]));
});
