import { expect, test } from "vitest";
import { createRefusalLog } from "../src/serve/refusal-log.ts";

test("a refused token is told with time, address and route", () => {
  const lines: string[] = [];
  const log = createRefusalLog(
    (line) => void lines.push(line),
    () => 0,
  );
  log.add({ address: "192.0.2.1", kind: "mcp", hasToken: true });
  log.add({ address: undefined, kind: "stream", hasToken: false });
  log.close();
  expect(lines).toEqual([
    "1970-01-01T00:00:00.000Z 192.0.2.1 mcp: refused, another token",
    "1970-01-01T00:00:00.000Z unknown address stream: refused, no token",
  ]);
});

test("a flood of refusals is 20 lines a minute, and one that counts the rest", () => {
  const lines: string[] = [];
  let now = 0;
  const log = createRefusalLog(
    (line) => void lines.push(line),
    () => now,
  );
  const refusal = { address: "192.0.2.1", kind: "mcp", hasToken: false };
  for (now = 0; now < 60_000; now++) log.add(refusal);
  expect(lines).toHaveLength(20);
  log.add(refusal);
  expect(lines[20]).toContain("59980 more requests refused");
  expect(lines).toHaveLength(22);
  for (let count = 0; count < 1_000; count++) log.add(refusal);
  log.close();
  expect(lines.at(-1)).toContain("981 more requests refused");
  expect(lines).toHaveLength(42);
});
