import { setTimeout as sleep } from "node:timers/promises";
import type { BridgeCalls, RelayHooks } from "@sluice/bridge";
import { expect, onTestFinished, test } from "vitest";
import { bridged, rawHost } from "./bridged.ts";
import { scripted } from "./scripted.ts";

const initialize = {
  id: "first",
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "h", version: "1" },
  },
};
const cancel = (requestId: number): object => ({
  method: "notifications/cancelled",
  params: { requestId },
});

/** A raw host whose server answers every request but `initialize` with its method. */
async function begun(hooks?: RelayHooks) {
  const upstream = scripted(`(message) => {
    if (message.method === "initialize") start(message);
    else if (message.id !== undefined) answer(message.id, { tools: [], said: message.method });
  }`);
  const host = await rawHost(bridged({ upstream, hooks }).transport);
  await host.send(initialize);
  await expect.poll(() => host.got).toHaveLength(1);
  host.got.length = 0;
  return host;
}

test("an answer that a hook is still changing when the host cancels is dropped", async () => {
  let isChanging = false;
  const host = await begun({
    async answer({ method }, response) {
      if (method !== "example/slow") return response;
      isChanging = true;
      await sleep(50);
      return response;
    },
  });
  await host.send({ id: 1, method: "example/slow" });
  await expect.poll(() => isChanging).toBe(true);
  await host.send(cancel(1));
  await sleep(100);
  await host.send({ id: 2, method: "example/fast" });
  await expect.poll(() => host.got).toMatchObject([{ id: 2 }]);
});

test("a request and its cancellation that wait behind another message end the work of a hook", async () => {
  const ended: unknown[] = [];
  const host = await begun({
    request: async ({ id, method }, signal) => {
      if (method !== "example/work") return undefined;
      await new Promise((resolve) => {
        signal.addEventListener("abort", resolve);
        setTimeout(resolve, 300);
      });
      ended.push([id, signal.aborted]);
      return { answer: { result: {} } };
    },
  });
  // both come while the first message is on its way
  await Promise.all([
    host.send({ method: "notifications/initialized" }),
    host.send({ id: 1, method: "example/work" }),
    host.send(cancel(1)),
  ]);
  await expect.poll(() => ended).toEqual([[1, true]]);
  await host.send({ id: 2, method: "example/fast" });
  await expect.poll(() => host.got).toMatchObject([{ id: 2 }]);
});

test("many calls of the bridge at a time raise no warning of the platform", async () => {
  let calls: BridgeCalls | undefined;
  const warnings: string[] = [];
  const onWarning = ({ name }: Error): void => void warnings.push(name);
  process.on("warning", onWarning);
  onTestFinished(() => void process.off("warning", onWarning));
  await begun({ start: (given) => void (calls = given) });
  const asked = Array.from({ length: 20 }, async () => calls?.callServer("tools/list", {}));
  expect(await Promise.all(asked)).toHaveLength(20);
  await sleep(10);
  expect(warnings).toEqual([]);
});
