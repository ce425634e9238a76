import { PassThrough } from "node:stream";
import { createStdioServerTransport } from "@sluice/transport-stdio";
import { nextTurn } from "@sluice/core/internal";
import { expect, onTestFinished, test, vi } from "vitest";
import { rawPeer } from "./raw-peer.ts";

const progress = { jsonrpc: "2.0", method: "notifications/progress", params: {} } as const;
const result = { jsonrpc: "2.0", id: 1, result: {} } as const;

test("messages of one read arrive in order, each after all that the one before started", async () => {
  const stdin = new PassThrough();
  const transport = createStdioServerTransport({ stdin, stdout: new PassThrough() });
  const log: string[] = [];
  Object.assign(transport, {
    onmessage(message: object) {
      const name = "method" in message ? String(message.method) : "result";
      log.push(name);
      void Promise.resolve().then(() => log.push(`${name} is handled`));
    },
    onclose: () => void log.push("closed"),
  });
  await transport.start();
  stdin.end([progress, progress, result].map((line) => `${JSON.stringify(line)}\n`).join(""));
  await expect.poll(() => log.at(-1)).toBe("closed");
  expect(log).toEqual([
    ...[progress, progress].flatMap(({ method }) => [method, `${method} is handled`]),
    "result",
    "result is handled",
    "closed",
  ]);
});

test("a result is written some time after the progress before it, and later messages behind it", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const peer = rawPeer("server");
  const log = { ...progress, method: "notifications/message" };
  const sent = [progress, result, log].map((message) => peer.channel.send(message));
  expect(await peer.line()).toEqual(progress);
  for (let turn = 0; turn < 3; turn += 1) await nextTurn();
  expect(peer.pending()).toBe(0);
  vi.advanceTimersByTime(10);
  expect(await peer.line()).toEqual(result);
  expect(await peer.line()).toEqual(log);
  await Promise.all(sent);
});
