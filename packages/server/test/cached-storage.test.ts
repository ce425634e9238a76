import { withCache, createMemoryBackend, wrapBackend } from "@sluice/storage";
import type { AccessDecision } from "@sluice/server";
import { expect, test } from "vitest";
import { alice, as, bodyOf, createHouse } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

test("small hot content is read from storage once, for reads and downloads, as long as it is the version [ARTICLE/9.2/server-cache]", async () => {
  const store = createMemoryBackend({ "a.txt": "hot" });
  const opened: string[] = [];
  const counted = wrapBackend(store, {
    open: (open) => (key, options) => {
      opened.push(key);
      return open(key, options);
    },
  });
  const house = createHouse({ storage: withCache(counted), principal: () => alice });
  const talk = talkTo(house.sluice);
  const read = async (era: (typeof eras)[number]) => {
    const { result } = (
      await talk(era, "resources/read", { params: { uri: "files://demo/a.txt" } })
    ).message;
    return result.contents[0].text as string;
  };
  const { token } = house.seal("download", { key: "a.txt", principal: alice });
  const get = async (range?: string) =>
    bodyOf(await house.redeem(token, { headers: { ...as(alice), ...(range && { range }) } }));
  for (let n = 0; n < 3; n++) {
    for (const era of eras) expect(await read(era)).toBe("hot");
    expect([await get(), await get("bytes=1-")]).toEqual(["hot", "ot"]);
  }
  expect(opened).toHaveLength(1);
  store.put("a.txt", "newer");
  expect([await get(), await read("modern")]).toEqual(["newer", "newer"]);
  expect(opened).toHaveLength(2);
});

test("access is decided before what is kept is looked at", async () => {
  let decision: AccessDecision = "allow";
  const asked: string[] = [];
  const cache = withCache(createMemoryBackend({ "a.txt": "secret" }), { maxAgeMs: 60_000 });
  const storage = wrapBackend(cache, {
    describe: (describe) => (key, options) => {
      asked.push(key);
      return describe(key, options);
    },
    open: (open) => (key, options) => {
      asked.push(key);
      return open(key, options);
    },
  });
  const house = createHouse({ storage, principal: () => alice, access: () => decision });
  const talk = talkTo(house.sluice);
  const read = async () =>
    (await talk("modern", "resources/read", { params: { uri: "files://demo/a.txt" } })).message;
  const { token } = house.seal("download", { key: "a.txt", principal: alice });
  const get = () => house.redeem(token, { headers: as(alice) });
  expect(JSON.stringify(await read())).toContain("secret");
  asked.length = 0;
  for (const refused of ["hide", "deny"] as const) {
    decision = refused;
    expect(JSON.stringify(await read())).not.toContain("secret");
    expect((await get()).status).toBe(404);
  }
  // what is hidden is as a missing object beside it
  expect(asked).not.toContain("a.txt");
  decision = "allow";
  expect(await bodyOf(await get())).toBe("secret");
});
