import { afterAll, expect, test } from "vitest";
import { layers, post } from "./layers.ts";

// SLUICE_DEEP=1 prints what the 4 MiB cost that are taken by default; the ordinary run has 256 KiB
const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const limit = isDeep ? 2 ** 22 : 2 ** 18;
const room = limit - 300;

/** As many of these as there is room for. */
function many(part: (n: number) => string): string {
  const parts: string[] = [];
  for (let length = 0, n = 0; length + part(n).length <= room; n += 1) {
    parts.push(part(n));
    length += part(n).length;
  }
  return parts.join("");
}

function nested(open: string, close: string): string {
  const levels = Math.floor(room / (open.length + close.length));
  return `${open.repeat(levels)}1${close.repeat(levels)}`;
}

const shapes: readonly (readonly [string, number, string])[] = [
  ["nested arrays", 400, nested("[", "]")],
  ["nested objects", 400, nested('{"a":', "}")],
  ["small keys", 200, `{${many((n) => `"${n.toString(36)}":0,`)}"z":0}`],
  ["empty objects", 200, `[${many(() => "{},")}{}]`],
  ["numbers", 200, `[${many(() => "1,")}1]`],
  ["escapes", 200, `"${many(() => "\\u0041")}"`],
];
const figures: string[] = [];
afterAll(() => {
  if (isDeep) console.log(figures.join("\n"));
});

test.each(shapes)("JSON full of %s is answered with %i", async (name, status, value) => {
  const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none","arguments":{"binary resources/stream":${value}}}}`;
  const [handler] = Object.values(layers());
  for (const text of [body, `[${body}]`]) {
    let best = Infinity;
    for (let run = 0; run < (isDeep ? 5 : 1); run += 1) {
      const request = post(text, { "mcp-session-id": "3f0a1b9e-8f6f-4d2b-9a55-1c2d3e4f5a6b" });
      const before = process.cpuUsage();
      const answer = await handler!.fetch(request);
      await answer.text();
      const { user, system } = process.cpuUsage(before);
      best = Math.min(best, (user + system) / 1_000);
      expect(answer.status).toBe(status);
    }
    figures.push(`${name}, ${text === body ? "call" : "batch"}: ${best.toFixed(0)} ms`);
  }
});
