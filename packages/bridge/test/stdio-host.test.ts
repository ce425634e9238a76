import { PassThrough } from "node:stream";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { nextTurn } from "@sluice/core/internal";
import { expect, onTestFinished, test, vi } from "vitest";
import { createStdioHost } from "../src/relay/stdio-host.ts";

test("a result reaches the host some time after the progress before it, and later messages behind it", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const output = new PassThrough();
  const host = createStdioHost({ input: new PassThrough(), output });
  onTestFinished(() => host.close());
  const progress = { jsonrpc: "2.0", method: "notifications/progress", params: {} };
  const messages = [progress, { jsonrpc: "2.0", id: 1, result: {} }, progress, progress];
  const sent = messages.map((message) => host.send(message as JSONRPCMessage));
  const written = (): unknown[] =>
    String(output.read() ?? "")
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as unknown);
  for (let turn = 0; turn < 3; turn += 1) await nextTurn();
  expect(written()).toEqual(messages.slice(0, 1));
  vi.advanceTimersByTime(10);
  await Promise.all(sent);
  expect(written()).toEqual(messages.slice(1));
});
