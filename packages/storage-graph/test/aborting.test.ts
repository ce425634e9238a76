import { createGraphBackend } from "@sluice/storage-graph";
import { expect, test } from "vitest";
import { pattern, readKey, startEmulated } from "./emulated.ts";

const content = pattern(1_000_000);
const reason = new Error("the caller's reason");
const expectAbort = async (
  work: (signal: AbortSignal) => Promise<unknown>,
  isUnderWay: () => boolean,
) => {
  const caller = new AbortController();
  const working = work(caller.signal);
  await expect.poll(isUnderWay).toBe(true);
  caller.abort(reason);
  await expect(working).rejects.toBe(reason);
};

test.each([
  ["the item", /^GET graph .*a\.bin/],
  ["the download URL", /\/content$/],
  ["the bytes", /^GET download/],
])("an abort while waiting for %s rejects at once, with its own reason", async (_, on) => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  graph.emulator.fault({ on, delayMs: 86_400_000 });
  const lines = (): string[] =>
    graph.emulator.requests.map(({ method, origin, url }) => `${method} ${origin} ${url}`);
  await expectAbort(
    (signal) => graph.backend.open("a.bin", { signal }),
    () => lines().some((line) => on.test(line)),
  );
});

test("… while the credential thinks", async () => {
  let isAsked = false;
  const credential = {
    getToken() {
      isAsked = true;
      return new Promise<null>(() => {});
    },
  };
  const backend = createGraphBackend({ credential, driveId: "b!x" });
  await expectAbort(
    (signal) => backend.list({ signal }),
    () => isAsked,
  );
  await backend.close?.();
});

test("… and while the last look is taken", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  graph.emulator.fault({ on: /^GET graph .*items\/[^/]*\?/, delayMs: 86_400_000 });
  await expectAbort(
    (signal) => readKey(graph.backend, "a.bin", { signal }),
    () => graph.sent("graph").length === 3,
  );
});
