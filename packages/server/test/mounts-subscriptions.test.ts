import { McpServer } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import type { AccessDecision, MountOptions, SluiceOptions } from "@sluice/server";
import {
  createMemoryBackend,
  wrapBackend,
  type MemoryBackend,
  type StorageBackend,
} from "@sluice/storage";
import { describe, expect, test, vi } from "vitest";
import { docs, media } from "./mounting.ts";
import { alice, as, createHouse } from "./redeeming.ts";
import { openSession } from "./session.ts";

const bob = { ...alice, subject: "bob" };
const files = { "a.txt": "1", "b.txt": "1" };

/** Memory that counts its watches. */
function watched(): { memory: MemoryBackend; storage: StorageBackend; watches: () => number } {
  const memory = createMemoryBackend(files);
  let open = 0;
  const storage = wrapBackend(memory, {
    watch: (watch) =>
      async function* (options) {
        open++;
        try {
          yield* watch(options);
        } finally {
          open--;
        }
      },
  });
  return { memory, storage, watches: () => open };
}

async function connect(mounts: readonly MountOptions[], options: Partial<SluiceOptions> = {}) {
  const house = createHouse({
    principal: () => alice,
    mounts,
    ...options,
  } as Partial<SluiceOptions>);
  const mcp = house.sluice.attach(new McpServer({ name: "test", version: "1.0.0" }));
  const session = await openSession(mcp);
  const heard = () => session.notifications.map(({ method, params }) => params?.uri ?? method);
  return {
    ...house,
    ...session,
    heard,
    follow: (uri: string) => session.call("resources/subscribe", { uri }),
    /** Waits until something was heard, and gives all that was. */
    async next(change: () => void): Promise<string[]> {
      session.notifications.length = 0;
      change();
      await vi.waitFor(() => expect(session.notifications).not.toEqual([]), { timeout: 10_000 });
      return heard();
    },
  };
}

const listChanged = "notifications/resources/list_changed";

describe("a session over two mounts", () => {
  test("hears of what it follows in each, by its URI, and of nothing else", async () => {
    const [one, two] = [watched(), watched()];
    const session = await connect([
      { baseUri: docs, storage: one.storage },
      { baseUri: media, storage: two.storage },
    ]);
    await session.follow(`${docs}a.txt`);
    await session.follow(`${media}b.txt`);
    await expect.poll(() => one.watches() + two.watches()).toBe(2);
    const touch = (): void => {
      for (const { memory } of [one, two])
        for (const key of ["a.txt", "b.txt"]) memory.put(key, String(Math.random()));
    };
    await session.next(touch);
    await vi.waitFor(() => expect(session.heard()).toHaveLength(2));
    expect(session.heard().toSorted()).toEqual([`${docs}a.txt`, `${media}b.txt`]);
    await session.call("resources/unsubscribe", { uri: `${docs}a.txt` });
    await expect.poll(() => one.watches()).toBe(0);
    expect(await session.next(touch)).toEqual([`${media}b.txt`]);
    await session.close();
    await expect.poll(() => two.watches()).toBe(0);
  });

  test("one backend in two mounts is watched once, and tells of each change by the URI of each", async () => {
    const one = watched();
    const session = await connect([
      { baseUri: docs, storage: one.storage },
      { baseUri: media, storage: one.storage },
    ]);
    await session.follow(`${docs}a.txt`);
    await session.follow(`${media}a.txt`);
    await session.follow(`${media}b.txt`);
    await expect.poll(() => one.watches()).toBe(1);
    await session.next(() => one.memory.put("a.txt", "2"));
    await vi.waitFor(() => expect(session.heard()).toHaveLength(2));
    expect(session.heard().toSorted()).toEqual([`${docs}a.txt`, `${media}a.txt`]);
    await session.close();
    await expect.poll(() => one.watches()).toBe(0);
  });

  test("access is asked by the rule of the mount, just before a change is told", async () => {
    const [one, two] = [watched(), watched()];
    let decision: AccessDecision = "allow";
    const session = await connect([
      { baseUri: docs, storage: one.storage, access: () => decision },
      { baseUri: media, storage: two.storage },
    ]);
    await session.follow(`${docs}a.txt`);
    await session.follow(`${media}a.txt`);
    await expect.poll(() => one.watches() + two.watches()).toBe(2);
    decision = "hide";
    one.memory.put("a.txt", "2");
    expect(await session.next(() => two.memory.put("a.txt", "2"))).toEqual([`${media}a.txt`]);
    decision = "allow";
    expect(await session.next(() => one.memory.put("a.txt", "3"))).toEqual([`${docs}a.txt`]);
    await session.close();
  });

  test("a change of either list is told, unless all of it is hidden by the rule of its mount", async () => {
    const [one, two] = [watched(), watched()];
    const session = await connect([
      { baseUri: docs, storage: one.storage, access: () => "hide" },
      { baseUri: media, storage: two.storage },
    ]);
    await session.call("resources/list");
    await expect.poll(() => one.watches() + two.watches()).toBe(2);
    expect(await session.next(() => two.memory.put("new.txt", ""))).toEqual([listChanged]);
    one.memory.put("hidden.txt", "");
    expect(await session.next(() => two.memory.put("newer.txt", ""))).toEqual([listChanged]);
    await session.close();
  });

  test("a mount whose storage changes for the principal ends no subscription of another mount", async () => {
    const [one, two, three] = [watched(), watched(), watched()];
    let drive: StorageBackend | undefined = two.storage;
    const session = await connect([
      { baseUri: docs, storage: one.storage },
      { baseUri: "drive://me/", storage: () => drive },
    ]);
    await session.follow(`${docs}a.txt`);
    await session.follow("drive://me/a.txt");
    await expect.poll(() => one.watches() + two.watches()).toBe(2);
    drive = three.storage;
    await session.follow("drive://me/b.txt");
    await expect.poll(() => two.watches()).toBe(0);
    await expect.poll(() => three.watches()).toBe(1);
    two.memory.put("a.txt", "2");
    three.memory.put("a.txt", "2");
    await session.next(() => {
      one.memory.put("a.txt", "2");
      three.memory.put("b.txt", "2");
    });
    await vi.waitFor(() => expect(session.heard()).toHaveLength(2));
    expect(session.heard().toSorted()).toEqual([`${docs}a.txt`, "drive://me/b.txt"]);
    await session.close();
  });

  test("a drive that was taken away tells nothing any more, without another call", async () => {
    const [one, two] = [watched(), watched()];
    let drive: StorageBackend | undefined = two.storage;
    const session = await connect([
      { baseUri: docs, storage: one.storage },
      { baseUri: "drive://me/", storage: () => drive },
    ]);
    await session.follow(`${docs}a.txt`);
    await session.follow("drive://me/a.txt");
    await expect.poll(() => one.watches() + two.watches()).toBe(2);
    drive = undefined;
    two.memory.put("a.txt", "2");
    expect(await session.next(() => one.memory.put("a.txt", "2"))).toEqual([`${docs}a.txt`]);
    await expect.poll(() => two.watches()).toBe(0);
    await session.close();
  });
});

describe("subscriptions/listen over two mounts", () => {
  const ofSubject = (of: Record<string, StorageBackend>) => (principal: Principal | undefined) =>
    of[principal?.subject ?? ""];

  /** Listens as a principal; what it agreed to, and what comes next. */
  async function listen(mounts: readonly MountOptions[], filter: object, who = alice) {
    const house = createHouse({ mounts });
    const listening = await house.sluice.host.listen({
      id: 1,
      params: { notifications: filter },
      caller: { header: (name) => as(who)[name] },
    });
    if (!("next" in listening)) throw new Error(JSON.stringify(listening));
    const honored = (listening.params as any).notifications.resourceSubscriptions;
    const next = async (): Promise<string> => {
      const { method, params } = (await listening.next()) as any;
      return params.uri ?? method;
    };
    const { params } = listening;
    return { ...house, params, honored, hear: next, stop: () => listening.close() };
  }

  test("tells of the resources of both that the caller may follow", async () => {
    const [one, two] = [watched(), watched()];
    const all = [`${docs}a.txt`, `${docs}b.txt`, `${media}a.txt`, `${media}none.txt`];
    const { honored, hear, stop, records } = await listen(
      [
        {
          baseUri: docs,
          storage: one.storage,
          access: (_who, uri) => (uri.endsWith("b.txt") ? "hide" : "allow"),
        },
        { baseUri: media, storage: two.storage },
      ],
      { resourceSubscriptions: all },
    );
    expect(honored).toEqual([`${docs}a.txt`, `${media}a.txt`]);
    expect(records.map(({ uri }) => String(uri)).toSorted()).toEqual(all.toSorted());
    await expect.poll(() => one.watches() + two.watches()).toBe(2);
    one.memory.put("b.txt", "2");
    one.memory.put("a.txt", "2");
    expect(await hear()).toBe(`${docs}a.txt`);
    two.memory.put("a.txt", "2");
    expect(await hear()).toBe(`${media}a.txt`);
    stop();
    await expect.poll(() => one.watches() + two.watches()).toBe(0);
  });

  test("each caller hears of its own drive only", async () => {
    const [one, two] = [watched(), watched()];
    const mounts = [
      { baseUri: "drive://me/", storage: ofSubject({ alice: one.storage, bob: two.storage }) },
    ];
    const filter = { resourceSubscriptions: ["drive://me/a.txt"], resourcesListChanged: true };
    const ofBob = await listen(mounts, filter, bob);
    await expect.poll(() => two.watches()).toBe(1);
    expect(one.watches()).toBe(0);
    one.memory.put("a.txt", "2");
    one.memory.put("new.txt", "2");
    two.memory.put("a.txt", "2");
    expect(await ofBob.hear()).toBe("drive://me/a.txt");
    two.memory.put("new.txt", "2");
    expect(await ofBob.hear()).toBe(listChanged);
    ofBob.stop();
  });

  test("a mount that the caller does not have is answered as one that is not configured", async () => {
    const shared = { baseUri: docs, storage: watched().storage };
    const drive = { baseUri: "drive://me/", storage: ofSubject({ alice: watched().storage }) };
    const uris = ["drive://me/a.txt", "drive://me/none.txt", "drive://me/%zz", `${docs}a.txt`];
    for (const filter of [
      { resourceSubscriptions: uris },
      { resourceSubscriptions: uris.slice(0, 3) },
      { resourceSubscriptions: uris, resourcesListChanged: true },
    ]) {
      const [having, empty] = [
        await listen([drive, shared], filter, bob),
        await listen([shared], filter, bob),
      ];
      expect(having.params).toEqual(empty.params);
      expect(having.records.length).toBe(empty.records.length);
      having.stop();
      empty.stop();
    }
    // the broken twin: for a caller that has the mount the answers differ
    const filter = { resourceSubscriptions: uris };
    const [having, empty] = [await listen([drive, shared], filter), await listen([shared], filter)];
    expect(having.params).not.toEqual(empty.params);
    having.stop();
    empty.stop();
  });

  test("a drive that was taken away tells nothing on a stream that is open", async () => {
    const [one, two] = [watched(), watched()];
    const of: Record<string, StorageBackend> = { alice: one.storage };
    const { hear, stop } = await listen(
      [
        { baseUri: "drive://me/", storage: ofSubject(of) },
        { baseUri: docs, storage: two.storage },
      ],
      { resourceSubscriptions: ["drive://me/a.txt", `${docs}a.txt`] },
    );
    await expect.poll(() => one.watches() + two.watches()).toBe(2);
    delete of["alice"];
    one.memory.put("a.txt", "2");
    two.memory.put("a.txt", "2");
    expect(await hear()).toBe(`${docs}a.txt`);
    await expect.poll(() => one.watches()).toBe(0);
    stop();
  });

  test("a storage function that throws ends the stream and releases its permit", async () => {
    let isDown = false;
    const storage = watched().storage;
    const house = createHouse({
      limits: { listeners: { perPrincipal: 1 } },
      mounts: [
        { baseUri: docs, storage },
        {
          baseUri: "drive://me/",
          storage: () => {
            if (isDown) throw new Error("directory is down");
            return undefined;
          },
        },
      ],
    });
    const params = { notifications: { resourcesListChanged: true } };
    const caller = { header: (name: string) => as(alice)[name] };
    isDown = true;
    const refused = await house.sluice.host.listen({ id: 1, params, caller });
    expect(refused).toMatchObject({ fault: { data: { reason: "internal" } } });
    isDown = false;
    const taken = await house.sluice.host.listen({ id: 2, params, caller });
    expect(taken).not.toHaveProperty("fault");
    if ("close" in taken) taken.close();
  });
});
