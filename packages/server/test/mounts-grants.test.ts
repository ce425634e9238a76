import { createKeyRing, createSealer, generateKey } from "@sluice/core";
import type { MountOptions } from "@sluice/server";
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { createTwo, docs, media, mounted, type Mounted, type MountedOptions } from "./mounting.ts";
import { alice, as, bodyOf, createHouse, endpoint } from "./redeeming.ts";

const bob = { ...alice, subject: "bob" };

/** Content whose version is its key's alone, so that no version tells two mounts apart. */
function sameVersions(content: string): StorageBackend {
  const memory = createMemoryBackend({ "a.txt": content });
  const info = { key: "a.txt", size: content.length, etag: "one" };
  return {
    ...memory,
    describe: async () => info,
    open: async (key, options) => ({ ...(await memory.open(key, options)), info }),
  };
}

const redeemed = async ({ redeem }: Pick<Mounted, "redeem">, token: string, who = alice) => {
  const reply = await redeem(token, { headers: as(who) });
  return { status: reply.status, text: await bodyOf(reply) };
};

/** Two mounts with one key, size and version; the contents differ. */
function twins(options: MountedOptions = {}): Mounted {
  return mounted(
    [
      { baseUri: docs, storage: sameVersions("docs!") },
      { baseUri: media, storage: sameVersions("media") },
    ],
    options,
  );
}

describe.each(["sealed", "stored"] as const)("%s download URLs of several mounts", (tokens) => {
  const grant = { tokens };

  test("open the object of their own mount, where another one has the same key, size and version", async () => {
    const house = twins({ grant });
    for (const [base, text] of [
      [docs, "docs!"],
      [media, "media"],
    ] as const)
      expect(await redeemed(house, await house.tokenOf(`${base}a.txt`))).toEqual({
        status: 200,
        text,
      });
  });

  test("revoking a resource ends those of one mount", async () => {
    const house = twins({ grant });
    const [ofDocs, ofMedia] = [
      await house.tokenOf(`${docs}a.txt`),
      await house.tokenOf(`${media}a.txt`),
    ];
    await house.sluice.revoke({ resource: `${docs}%61.txt` });
    expect((await redeemed(house, ofDocs)).status).toBe(404);
    expect(await redeemed(house, ofMedia)).toEqual({ status: 200, text: "media" });
  });
});

describe("download URLs when the mounts change", () => {
  /** The same server later, with other mounts. */
  const restarted = (keys: Mounted["sluice"]["host"]["keys"], ...mounts: MountOptions[]) =>
    mounted(mounts, { keys });
  const { docsStorage, mediaStorage } = createTwo();
  const ofDocs = { baseUri: docs, storage: docsStorage };
  const ofMedia = { baseUri: media, storage: mediaStorage };

  test("a URL outlives another order of the mounts, and mounts beside its own", async () => {
    const first = mounted([ofDocs, ofMedia]);
    const { keys } = first.sluice.host;
    const token = await first.tokenOf(`${media}a.txt`);
    const more = { baseUri: "more://acme/", storage: docsStorage };
    for (const later of [
      restarted(keys, ofMedia, ofDocs),
      restarted(keys, more, ofMedia),
      restarted(keys, ofMedia),
    ])
      expect(await redeemed(later, token)).toEqual({ status: 200, text: "of media" });
  });

  test("a URL dies with its mount, with the bytes of any 404, and the record names the grant", async () => {
    const first = mounted([ofDocs, ofMedia]);
    const { keys } = first.sluice.host;
    const token = await first.tokenOf(`${media}a.txt`);
    const later = restarted(keys, ofDocs, { baseUri: "other://acme/", storage: mediaStorage });
    const missing = await redeemed(later, await later.tokenOf(`${docs}a.txt`), bob);
    expect(await redeemed(later, token)).toEqual({ status: 404, text: missing.text });
    expect(later.records.at(-1)).toMatchObject({
      action: "download",
      outcome: "denied",
      reason: "not_found",
      grant: expect.any(String),
    });
    expect(later.records.at(-1)).not.toHaveProperty("uri");
  });

  test("one storage keeps its names: the key alone, which a mount does not open, nor the other way around", async () => {
    const keys = createKeyRing([generateKey()]);
    const single = createHouse({ keys, storage: docsStorage, baseUri: docs });
    expect(single.sluice.host.nameOf(`${docs}a.txt`)).toBe("a.txt");
    const many = restarted(keys, ofDocs);
    const name = many.sluice.host.nameOf(`${docs}a.txt`);
    expect(name).toMatch(/^\/[0-9a-f]{8}\/a\.txt$/);
    expect(restarted(keys, ofMedia, ofDocs).sluice.host.nameOf(`${docs}a.txt`)).toBe(name);
    const { etag } = await docsStorage.describe("a.txt");
    const sealer = createSealer({ keys, audience: endpoint });
    const terms = { use: "window", ttlMs: 60_000, principal: alice, etag: etag! } as const;
    const sealed = (key: string) => sealer.seal("download", { key, ...terms }).token;
    expect(await redeemed(single, sealed("a.txt"))).toEqual({ status: 200, text: "of docs" });
    // twin of a server without prefixes: what one names, the other would open
    expect((await redeemed(single, sealed(name))).status).toBe(404);
    expect((await redeemed(many, sealed("a.txt"))).status).toBe(404);
  });

  test("names without the prefix would let a URL of one mount open the same key in another", async () => {
    // the broken twin: two storages that share keys and names, as two servers with one endpoint would
    const keys = createKeyRing([generateKey()]);
    const wrong = ["docs!", "media"].map((content) =>
      createHouse({ keys, storage: sameVersions(content) }),
    );
    const [minting, opening] = wrong as [Mounted, Mounted];
    const principal = { principal: alice, mayMint: true, maxTtlMs: 60_000 };
    const minted = await minting.sluice.host.mint(
      principal,
      minting.sluice.host.nameOf("files://demo/a.txt"),
      "one",
    );
    expect(await redeemed(opening, minted!.token)).toEqual({ status: 200, text: "media" });
  });
});

describe("keys in mounts", () => {
  test("a key of 1,024 bytes has a download URL in a mount, of each kind", async () => {
    const key = `${"k".repeat(1_020)}.txt`;
    for (const tokens of ["sealed", "stored"] as const) {
      const storage = createMemoryBackend({ [key]: "long" });
      const house = mounted([{ baseUri: docs, storage }], { grant: { tokens } });
      const token = await house.tokenOf(docs + key);
      expect(await redeemed(house, token)).toEqual({ status: 200, text: "long" });
    }
  });

  test("a key that looks like the name of another mount stays a key", async () => {
    const other = mounted([{ baseUri: media, storage: createMemoryBackend() }]);
    const tag = other.sluice.host.nameOf(`${media}x`).slice(1, -2);
    const house = mounted([
      { baseUri: docs, storage: createMemoryBackend({ [`${tag}/a.txt`]: "in docs" }) },
      { baseUri: media, storage: createMemoryBackend({ "a.txt": "in media" }) },
    ]);
    const token = await house.tokenOf(`${docs}${tag}/a.txt`);
    expect(await redeemed(house, token)).toEqual({ status: 200, text: "in docs" });
  });
});

test("records of calls and of redemptions name the URI of the mount, and never a name in tokens", async () => {
  const house = twins();
  const token = await house.tokenOf(`${media}%61.txt`);
  await redeemed(house, token);
  await house.ask("modern", "resources/read", { uri: `${docs}a.txt` });
  expect(house.records.map(({ action, uri }) => [action, uri])).toEqual([
    ["stream", `${media}%61.txt`],
    ["download", `${media}a.txt`],
    ["read", `${docs}a.txt`],
  ]);
});

test("access is asked again at redemption by the rule of the mount, with the URI", async () => {
  const asked: string[] = [];
  let isOpen = true;
  const house = mounted([
    { baseUri: docs, storage: sameVersions("docs!") },
    {
      baseUri: media,
      storage: sameVersions("media"),
      access: (_who, uri, action) => {
        asked.push(`${action} ${uri}`);
        return isOpen ? "allow" : "hide";
      },
    },
  ]);
  const token = await house.tokenOf(`${media}a.txt`);
  expect((await redeemed(house, token)).status).toBe(200);
  isOpen = false;
  expect((await redeemed(house, token)).status).toBe(404);
  expect(asked).toEqual(Array.from({ length: 3 }, () => `stream ${media}a.txt`));
  expect((await redeemed(house, await house.tokenOf(`${docs}a.txt`))).status).toBe(200);
});
