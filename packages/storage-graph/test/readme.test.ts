// #region serve
import { protect } from "@sluice/storage";
import { createGraphBackend, type TokenCredential } from "@sluice/storage-graph";

/** Reads every file below `Reports/` of a drive, page by page, and counts the bytes. */
export async function countBytes(
  credential: TokenCredential,
  driveId: string,
  baseUrl?: string,
): Promise<number> {
  const root = { path: "Reports" };
  const drive = createGraphBackend({ credential, driveId, root, ...(baseUrl && { baseUrl }) });
  const storage = protect(drive);
  let bytes = 0;
  let cursor: string | undefined;
  do {
    const page = await storage.list(cursor === undefined ? {} : { cursor });
    for (const { key } of page.objects) {
      const { body } = await storage.open(key);
      for await (const chunk of body) bytes += chunk.byteLength;
    }
    ({ cursor } = page);
  } while (cursor !== undefined);
  await drive.close?.();
  return bytes;
}
// #endregion

// #region write
import type { WritableBackend } from "@sluice/storage";

/** Stores a stream of known size as a new file; nothing is there before the last byte. */
export async function store(
  drive: WritableBackend,
  key: string,
  content: AsyncIterable<Uint8Array>,
  size: number,
): Promise<void> {
  const writer = await drive.write(key, { size, ifAbsent: true });
  try {
    for await (const chunk of content) await writer.write(chunk);
    await writer.commit();
  } finally {
    await writer[Symbol.asyncDispose](); // cancels what was not committed
  }
}
// #endregion

// #region watch
import { createNotifications } from "@sluice/storage-graph";

const notifications = createNotifications({ clientState: "a secret of at most 128 characters" });

/** Answers the requests to the notificationUrl of the subscription. */
export function receive(request: Request): Promise<Response> {
  return notifications.handle(request);
}

/** Tells about every change of a drive until the signal ends it. */
export async function follow(
  credential: TokenCredential,
  driveId: string,
  onChange: (key: string) => void,
  { signal, baseUrl }: { readonly signal: AbortSignal; readonly baseUrl?: string },
): Promise<void> {
  const options = { credential, driveId, notifications, ...(baseUrl && { baseUrl }) };
  const drive = createGraphBackend(options);
  for await (const { changed = [], removed = [] } of drive.watch?.({ signal }) ?? [])
    for (const key of [...changed, ...removed]) onChange(key);
  await drive.close?.();
}
// #endregion

// #region emulator
import { startGraphEmulator } from "@sluice/graph-emulator";

/** The result for a reader when the download breaks in the middle. */
export async function readBroken(): Promise<{ bytes: number; astray: number }> {
  const emulator = await startGraphEmulator();
  emulator.drive.put("big.bin", {
    size: 2 ** 30,
    read: (start, end) => new Uint8Array(end - start),
  });
  emulator.fault({ on: /^GET download/, resetAfter: 1_000_000 });

  const { credential, origins, drive } = emulator;
  const backend = createGraphBackend({ credential, driveId: drive.id, baseUrl: origins.graph });
  const { body } = await protect(backend).open("big.bin", { range: { start: 0, end: 3_000_000 } });
  let bytes = 0;
  for await (const chunk of body) bytes += chunk.byteLength;
  await backend.close?.();
  await emulator[Symbol.asyncDispose]();

  const downloads = emulator.requests.filter(({ origin }) => origin === "download");
  const astray = downloads.filter(({ headers }) => "authorization" in headers).length;
  return { bytes, astray };
}
// #endregion

import { expect, test } from "vitest";
import { startEmulated } from "./emulated.ts";

async function* fiveBytes(): AsyncGenerator<Uint8Array> {
  yield Buffer.from("12");
  yield Buffer.from("345");
}

test("the examples of the README work", async () => {
  await using graph = await startEmulated();
  const { credential, origins, drive } = graph.emulator;
  const caller = new AbortController();
  const noticed = new Promise<string>((resolve, reject) => {
    const options = { signal: caller.signal, baseUrl: origins.graph };
    follow(credential, drive.id, resolve, options).catch(reject);
  });
  await expect.poll(() => graph.sent("graph").some((line) => line.includes("delta"))).toBe(true);

  const writable = graph.backend as WritableBackend;
  await store(writable, "Reports/q1.txt", fiveBytes(), 5);
  await expect(store(writable, "Reports/q1.txt", fiveBytes(), 5)).rejects.toMatchObject({
    code: "precondition_failed",
  });
  expect(await countBytes(credential, drive.id, origins.graph)).toBe(5);

  const body = JSON.stringify({ value: [{ clientState: "a secret of at most 128 characters" }] });
  // the watch may not be armed yet, and then the first look is still to come
  await expect
    .poll(async () => {
      const { status } = await receive(new Request("http://x/", { method: "POST", body }));
      return status === 202 && graph.sent("graph").some((line) => line.includes("delta?token"));
    })
    .toBe(true);
  expect(await noticed).toBe("Reports/q1.txt");
  caller.abort();

  expect(await readBroken()).toEqual({ bytes: 3_000_000, astray: 0 });
});
