import { createProcessUpstream } from "@sluice/bridge";
import { expect, test } from "vitest";
import { bridged, rawHost } from "./bridged.ts";
import { scripted } from "./scripted.ts";

const initialize = {
  id: 0,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: {} },
};

test.each`
  end                                       | reason
  ${"process.exit(3)"}                      | ${"it exited with code 3"}
  ${"process.kill(process.pid, 'SIGKILL')"} | ${"it was ended by SIGKILL"}
`("a program that ends before its first message is one note: $end", async ({ end, reason }) => {
  const upstream = createProcessUpstream({ command: process.execPath, args: ["-e", end] });
  const bridge = bridged({ upstream });
  const host = await rawHost(bridge.transport);
  await host.send(initialize);
  await expect.poll(() => host.got, { timeout: 10_000 }).toHaveLength(1);
  expect(host.got[0]).toMatchObject({ error: { message: expect.stringContaining(reason) } });
  const words = expect.stringContaining(`${reason} before its first message; see its output`);
  const notes = bridge.notes.filter((line) => !line.startsWith("The bridge cannot reach"));
  expect(notes.length).toBeLessThanOrEqual(1);
  expect(bridge.notes.at(-1)).toEqual(words);
});

test("a message that is too large tells of the folder that takes long texts", async () => {
  const on = `(m) => m.method === "initialize" ? start(m) : answer(m.id, { text: "x".repeat(9000) })`;
  const host = await rawHost(
    bridged({ upstream: scripted(on, { maxMessageBytes: 4_096 }) }).transport,
  );
  await host.send(initialize);
  await expect.poll(() => host.got).toHaveLength(1);
  await host.send({ id: 1, method: "tools/call", params: { name: "a" } });
  await expect.poll(() => host.got).toHaveLength(2);
  expect(host.got[1]).toMatchObject({
    error: {
      message: expect.stringMatching(/^Dropped: .*; ask for less, or .*--save-to FOLDER\.$/),
    },
  });
});
