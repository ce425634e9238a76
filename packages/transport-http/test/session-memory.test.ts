import { expect, test } from "vitest";
import { createSessionCapabilities } from "../src/lib/session-capabilities.ts";
import { createSessionMemory } from "../src/lib/session-memory.ts";

test("a principal that opens sessions without end makes the server forget its own alone", () => {
  const sessions = createSessionCapabilities((capabilities) => capabilities);
  const call = { params: { capabilities: { resourceStreaming: {} } } };
  sessions.remember(call, "of ann", "ann");
  for (let n = 0; n < 20_000; n++) sessions.remember(call, `of mallory ${n}`, "mallory");
  expect(sessions.of("of ann")).toEqual({ resourceStreaming: {} });
  expect(sessions.of("of mallory 0")).toBeUndefined();
  expect(sessions.of("of mallory 19999")).toBeDefined();
});

test("a full memory forgets the oldest session, and one that was said again is not it", () => {
  const memory = createSessionMemory<number>();
  for (let n = 0; n < 10_000; n++) memory.set(`s${n}`, n, "");
  memory.set("s0", 0, "");
  memory.set("one more", 1, "ann");
  expect(memory.get("s0")).toBe(0);
  expect(memory.get("s1")).toBeUndefined();
  memory.delete("one more");
  expect(memory.get("one more")).toBeUndefined();
});
