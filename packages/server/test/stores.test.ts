import { createMemoryStores } from "@sluice/state";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";

const start = (stores: object) =>
  createSluice({ storage: createMemoryBackend(), stores: stores as never });

test.each([
  ["one store in their place", createMemoryStores().state],
  ["no store of uploads", { ...createMemoryStores(), uploads: undefined }],
  ["no store of events", { ...createMemoryStores(), events: undefined }],
])("%s is refused at once, with what to pass", (_what, stores) => {
  expect(() => start(stores)).toThrow(TypeError);
  expect(() => start(stores)).toThrow("{ ...createMemoryStores(), state }");
});

test("stores reach what is built on the Sluice", () => {
  const stores = createMemoryStores();
  const { host } = start(stores);
  expect(host.stores).toBe(stores);
});
