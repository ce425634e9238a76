import assert from "node:assert/strict";
import { test } from "node:test";
import { readBeginnings } from "./example.ts";
import { startOrigin } from "./origin.ts";

test("the examples of the README work", async (t) => {
  const origin = await startOrigin();
  t.after(() => origin[Symbol.asyncDispose]());
  const content = new TextEncoder().encode("one, two, three");
  origin.objects.set("count.txt", { content, headers: {} });
  const lines: string[] = [];
  for await (const line of readBeginnings(origin.baseUrl)) lines.push(line);
  assert.deepEqual(lines, ["count.txt: one, two, "]);
});
