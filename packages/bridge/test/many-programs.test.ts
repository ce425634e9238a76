import { createProcessUpstream } from "@sluice/bridge";
import { expect, onTestFinished, test } from "vitest";

const flow = { ready: () => undefined };

async function open(command: string) {
  return createProcessUpstream({ command, exitMs: 100 }).open(flow);
}

test("twenty programs at once have one listener for the end of the process, and leave none", async () => {
  const before = process.listenerCount("exit");
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on("warning", onWarning);
  onTestFinished(() => void process.off("warning", onWarning));
  const transports = await Promise.all(Array.from({ length: 20 }, () => open("cat")));
  await Promise.all(transports.map((transport) => transport.start()));
  expect(process.listenerCount("exit")).toBe(before + 1);
  await Promise.all(transports.map((transport) => transport.close()));
  expect(process.listenerCount("exit")).toBe(before);
  await new Promise(setImmediate);
  expect(warnings).toEqual([]);
});

test("a program that does not start leaves no listener", async () => {
  const before = process.listenerCount("exit");
  for (let n = 0; n < 3; n++) {
    const transport = await open("no-such-program");
    await expect(transport.start()).rejects.toMatchObject({ code: "not_found" });
    await transport.close();
  }
  expect(process.listenerCount("exit")).toBe(before);
});
