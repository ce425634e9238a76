import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import type { StorageBackend } from "@sluice/storage";
import { afterEach, expect, test, vi } from "vitest";
import { tellListFaults, lookAtStorage } from "../src/storages/look-at-storage.ts";

afterEach(() => vi.restoreAllMocks());

function backendWith(list: StorageBackend["list"]): StorageBackend {
  const absent = (): Promise<never> => Promise.reject(new SluiceError("not_found", "s3: no"));
  return { name: "s3", describe: absent, open: absent, list };
}

const failing = (code: SluiceErrorCode): StorageBackend =>
  backendWith(() => Promise.reject(new SluiceError(code, `s3: list: ${code}`)));

const { signal } = new AbortController();
const source = "s3://bucket";

test("a storage that asks for a pause is served", async () => {
  const look = lookAtStorage({ source, backend: failing("throttled"), signal });
  await expect(look).resolves.toBeUndefined();
});

test("a storage that allows no lists is served, and that is said", async () => {
  const written = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  await lookAtStorage({ source, backend: failing("permission_denied"), signal });
  expect(written.mock.calls.join("")).toMatch(/^s3:\/\/bucket cannot be listed, .*permissions/);
});

test("a storage that does not answer is given up, and the call ends", async () => {
  let ended: AbortSignal | undefined;
  const backend = backendWith((options) => {
    ended = options?.signal;
    return new Promise(() => {});
  });
  const look = lookAtStorage({ source, backend, timeoutMs: 1, signal });
  await expect(look).rejects.toMatchObject({ cause: { code: "timeout" } });
  expect(ended?.aborted).toBe(true);
});

test("the end of the run ends the look", async () => {
  const backend = backendWith(() => new Promise(() => {}));
  const reason = new Error("Ctrl-C");
  const look = lookAtStorage({ source, backend, signal: AbortSignal.abort(reason) });
  await expect(look).rejects.toBe(reason);
});

test("a kind of fault of a list is told once a minute, and no abort", async () => {
  const lines: string[] = [];
  let time = 0;
  const told = tellListFaults(
    failing("unavailable"),
    (line) => lines.push(line),
    () => time,
  );
  const list = async (options?: Parameters<StorageBackend["list"]>[0]): Promise<void> => {
    await expect(told.list(options)).rejects.toMatchObject({ code: "unavailable" });
  };
  await list({ signal: AbortSignal.abort() });
  expect(lines).toEqual([]);
  await list();
  await list();
  expect(lines).toEqual(["sluice: s3: list: unavailable"]);
  time = 60_000;
  await list();
  expect(lines).toHaveLength(2);
});
