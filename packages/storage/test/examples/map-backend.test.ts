import { checkBackend, type Fixture } from "@sluice/storage/conformance";
import { expect, test } from "vitest";
import { createMapBackend, createObjectMap, putObject } from "./map-backend.ts";

test("the example of a writable backend keeps every rule that needs no fault and no other hook", async () => {
  const findings = await checkBackend((): Fixture => {
    const map = createObjectMap();
    return {
      backend: createMapBackend(map),
      put: async (key, content) => void putObject(map, key, content),
      remove: async (key) => void map.entries.delete(key),
      putTyped: async (key, content, type) => void putObject(map, key, content, type),
      async putClutter() {
        for (const key of ["a//b", "../c", "folder/"]) putObject(map, key, new Uint8Array());
      },
      reopen: async () => createMapBackend(map),
    };
  });
  expect(findings.filter(({ outcome }) => outcome === "broken")).toEqual([]);
  const kept = findings.flatMap(({ rule, outcome }) => (outcome === "kept" ? [rule.id] : []));
  expect(kept).toEqual(
    expect.arrayContaining([
      "write-race",
      "write-race-match",
      "write-type",
      "open-encoded",
      "open-chunks-owned",
      "list-clutter",
      "remove-gone",
    ]),
  );
});

test("a cursor of another map is refused", async () => {
  const [one, other] = [createObjectMap(), createObjectMap()];
  for (const map of [one, other])
    for (const key of ["a", "b"]) putObject(map, key, new Uint8Array([1]));
  const { cursor = "" } = await createMapBackend(one).list({ limit: 1 });
  await expect(createMapBackend(other).list({ cursor })).rejects.toMatchObject({
    code: "invalid_argument",
  });
});
