import { SluiceError, type Principal } from "@sluice/core";
import type { MountOptions } from "@sluice/server";
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { docs, mounted, seen, type Mounted, type MountedOptions } from "./mounting.ts";
import { alice, as, bodyOf } from "./redeeming.ts";
import { eras } from "./talking.ts";

const drive = "drive://me/";
const bob = { ...alice, subject: "bob" };
const eve = { ...alice, subject: "eve" };
const shared: MountOptions = {
  baseUri: docs,
  storage: createMemoryBackend({ "a.txt": "of all" }),
};

/** Alice and Bob have a drive of their own with the same names; Eve has none. */
function drives(options: MountedOptions = {}, rules: Partial<MountOptions> = {}) {
  const of: Record<string, StorageBackend | undefined> = {
    alice: createMemoryBackend({ "a.txt": "of alice", "alice.txt": "hers" }),
    bob: createMemoryBackend({ "a.txt": "of bob", "bob.txt": "his" }),
  };
  const storage = (principal: Principal | undefined) => of[principal?.subject ?? ""];
  const house = mounted([{ baseUri: drive, storage, ...rules } as MountOptions, shared], options);
  return { ...house, of };
}

/** The server that Eve must not tell from the one with drives. */
const without = (): Mounted => mounted([shared]);

const redeem = async (house: Pick<Mounted, "redeem">, token: string, who: Principal) => {
  const reply = await house.redeem(token, { headers: as(who) });
  return `${reply.status} ${await bodyOf(reply)}`;
};

describe.each(eras)("a mount of each principal in the %s era", (era) => {
  test("lists, completes, reads, links and streams what is the caller's, and nothing else", async () => {
    const house = drives();
    for (const who of [alice, bob]) {
      const { subject } = who;
      expect((await house.pages(era, who)).flat()).toEqual([
        `${drive}a.txt`,
        `${drive}${subject}.txt`,
        `${docs}a.txt`,
      ]);
      const ref = { type: "ref/resource", uri: `${drive}{+key}` };
      const completed = await house.ask(
        era,
        "completion/complete",
        { ref, argument: { name: "key", value: "" } },
        who,
      );
      expect(completed.completion.values).toEqual(["a.txt", `${subject}.txt`]);
      const uri = `${drive}a.txt`;
      const { contents } = await house.ask(era, "resources/read", { uri }, who);
      expect(contents[0].text).toBe(`of ${subject}`);
      for (const name of ["read_file", "link"])
        expect(
          JSON.stringify(await house.ask(era, "tools/call", { name, arguments: { uri } }, who)),
        ).toContain(`of ${subject}`);
      const { slot } = await house.talk(era, "resources/stream", {
        params: { uri },
        headers: as(who),
      });
      expect(await bodyOf(slot.reply!)).toBe(`of ${subject}`);
      const other = `${drive}${who === alice ? "bob" : "alice"}.txt`;
      const missing = await house.ask(era, "resources/read", { uri: other }, who);
      expect(missing.error.data.reason).toBe("not_found");
    }
  });

  test("a URL of one caller works neither for another nor for a caller without the mount", async () => {
    const house = drives();
    const token = await house.tokenOf(`${drive}a.txt`, alice);
    expect(await redeem(house, token, alice)).toBe("200 of alice");
    for (const who of [bob, eve]) expect(await redeem(house, token, who)).toMatch(/^404 /);
  });

  test("Bob's cursor does not lead to Alice's resources", async () => {
    const house = drives({ pageSize: 1 });
    const { nextCursor } = await house.ask(era, "resources/list", {}, bob);
    for (const who of [alice, eve]) {
      const { error } = await house.ask(era, "resources/list", { cursor: nextCursor }, who);
      expect([error.code, error.data.reason]).toEqual([-32602, "invalid"]);
    }
  });

  const uris = [
    `${drive}a.txt`,
    `${drive}none.txt`,
    `${drive}%61.txt`,
    `${drive}a b.txt`,
    `${drive}%zz`,
    `${drive}x%2fy`,
    `${drive}?q`,
    `${drive}x/../a.txt`,
    drive,
    "DRIVE://me/a.txt",
  ];
  const asked: [string, (uri: string) => object][] = [
    ["resources/read", (uri) => ({ uri })],
    ["resources/stream", (uri) => ({ uri })],
    ["resources/subscribe", (uri) => ({ uri })],
    ["resources/unsubscribe", (uri) => ({ uri })],
    ["tools/call", (uri) => ({ name: "read_file", arguments: { uri } })],
    ["tools/call", (uri) => ({ name: "link", arguments: { uri } })],
    [
      "completion/complete",
      (uri) => ({
        ref: { type: "ref/resource", uri: uri === drive ? `${drive}{+key}` : uri },
        argument: { name: "key", value: "" },
      }),
    ],
  ];
  test.each(asked)(
    "%s of a mount that the caller does not have is, to the byte, that of one that is not configured",
    async (method, paramsOf) => {
      const [having, empty] = [drives(), without()];
      for (const uri of uris) {
        const params = { ...paramsOf(uri) };
        const answers = await Promise.all(
          [having, empty].map(({ talk }) => talk(era, method, { params, headers: as(eve) })),
        );
        const [first, second] = answers.map(seen);
        expect(`${uri} ${first}`).toBe(`${uri} ${second}`);
      }
      expect(having.errors).toEqual(empty.errors);
    },
  );

  test.each(["resources/list", "resources/templates/list", "tools/list"])(
    "%s does not name a mount that the caller does not have",
    async (method) => {
      const [having, empty] = [drives(), without()];
      const [first, second] = await Promise.all(
        [having, empty].map(async ({ talk }) =>
          seen(await talk(era, method, { headers: as(eve) })),
        ),
      );
      expect(first).toBe(second);
      expect(first).not.toContain("drive://");
    },
  );

  test("the check sees the difference where a mount is hidden by its access rule alone", async () => {
    // the broken twin: every object of the mount is hidden, and the mount itself is there
    const [having, empty] = [
      drives({}, { storage: createMemoryBackend({ "a.txt": "" }), access: () => "hide" }),
      without(),
    ];
    const [first, second] = await Promise.all(
      [having, empty].map(({ talk }) =>
        talk(era, "resources/read", { params: { uri: `${drive}a.txt` }, headers: as(eve) }),
      ),
    );
    expect(seen(first!)).not.toBe(seen(second!));
  });

  test("the author's resources below a drive stay, even for a caller without a drive", async () => {
    const house = drives({
      register: (mcp) =>
        mcp.registerResource("help", `${drive}help.txt`, {}, ({ href: uri }) => ({
          contents: [{ uri, text: "how to get a drive" }],
        })),
    });
    for (const who of [alice, eve]) {
      const { contents } = await house.ask(era, "resources/read", { uri: `${drive}help.txt` }, who);
      expect(contents[0].text).toBe("how to get a drive");
    }
  });

  test("a principal whose storage changes sees the new one at once, and nothing of the old one", async () => {
    const house = drives();
    const token = await house.tokenOf(`${drive}alice.txt`, alice);
    house.of["alice"] = createMemoryBackend({ "new.txt": "new" });
    expect((await house.pages(era, alice)).flat()).toEqual([`${drive}new.txt`, `${docs}a.txt`]);
    expect(await redeem(house, token, alice)).toMatch(/^404 /);
    delete house.of["alice"];
    expect((await house.pages(era, alice)).flat()).toEqual([`${docs}a.txt`]);
    expect(await redeem(house, token, alice)).toMatch(/^404 /);
  });

  test("a cursor of a drive that was taken away is -32602", async () => {
    const house = drives({ pageSize: 1 });
    const { nextCursor } = await house.ask(era, "resources/list", {}, alice);
    delete house.of["alice"];
    const { error } = await house.ask(era, "resources/list", { cursor: nextCursor }, alice);
    expect([error.code, error.data.reason]).toEqual([-32602, "invalid"]);
  });

  test("a mount whose storage function throws is a fault, which says nothing of it", async () => {
    const storage = () => {
      throw new SluiceError("unavailable", "directory of acme-tenant-4 is down");
    };
    const house = mounted([
      { baseUri: drive, storage },
      { baseUri: docs, storage: createMemoryBackend({ "a.txt": "of all" }) },
    ]);
    for (const [method, params] of [
      ["resources/list", {}],
      ["resources/read", { uri: `${drive}a.txt` }],
      ["resources/stream", { uri: `${drive}a.txt` }],
    ] as const) {
      const { error } = await house.ask(era, method, params);
      expect(error.data.reason).toBe("busy");
      expect(JSON.stringify(error)).not.toContain("acme");
    }
    const { contents } = await house.ask(era, "resources/read", { uri: `${docs}a.txt` });
    expect(contents[0].text).toBe("of all");
  });
});

test("a walk over a drive finds the caller's objects, and for a caller without one nothing to walk", async () => {
  const { host } = drives().sluice;
  const signal = AbortSignal.timeout(10_000);
  const walk = async (uri: string, principal: Principal): Promise<string[]> => {
    const paths: string[] = [];
    for await (const { path } of host.walk({ uri, principal, signal })) paths.push(path);
    return paths;
  };
  expect(await walk(drive, alice)).toEqual(["a.txt", "alice.txt"]);
  for (const uri of [drive, `${drive}x/`, `${drive}%zz/`, `${drive}x`, "other://me/"])
    await expect(walk(uri, eve)).rejects.toMatchObject({ code: "not_found" });
});

test("the anonymous have the mount that the function gives for them", async () => {
  const house = mounted(
    [
      {
        baseUri: drive,
        storage: (principal) =>
          createOnce(principal === undefined ? "of the public" : "of a principal"),
      },
    ],
    { anonymous: true },
  );
  const talk = (headers: Record<string, string>) =>
    house.talk("modern", "resources/read", { params: { uri: `${drive}a.txt` }, headers });
  expect((await talk({})).message.result.contents[0].text).toBe("of the public");
  expect((await talk(as(alice))).message.result.contents[0].text).toBe("of a principal");
});

const made = new Map<string, StorageBackend>();

function createOnce(content: string): StorageBackend {
  let backend = made.get(content);
  if (!backend) made.set(content, (backend = createMemoryBackend({ "a.txt": content })));
  return backend;
}
