/** Moves large objects through a backend in a separate process, and tells how that process grew. */
import { createGraphBackend } from "@sluice/storage-graph";
import { watchMemory } from "../../../e2e/bed/watch.ts";

/** One transfer. */
export interface TransferOrder {
  readonly baseUrl: string;
  readonly driveId: string;
  readonly token: string;
  /** `keep` is the broken twin: a reader that keeps its bytes. */
  readonly use: "read" | "write" | "keep";
  readonly key: string;
  readonly size: number;
}

/** Its figures. */
export interface TransferReport {
  readonly bytes: number;
  readonly milliseconds: number;
  /** Bytes by which the process grew at most. */
  readonly growth: number;
}

const memory = watchMemory();

async function read(backend: Backend, key: string, keeps: boolean): Promise<number> {
  const kept: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of (await backend.open(key)).body) {
    bytes += chunk.byteLength;
    if (keeps) kept.push(chunk);
  }
  return bytes;
}

async function write(backend: Backend, key: string, size: number): Promise<number> {
  const writer = await backend.write?.(key, { size });
  for (let left = size; left > 0; left -= 262_144)
    await writer?.write(new Uint8Array(Math.min(left, 262_144)));
  return (await writer?.commit())?.size ?? 0;
}

type Backend = ReturnType<typeof createGraphBackend>;

async function transfer(order: TransferOrder): Promise<TransferReport> {
  const { baseUrl, driveId, token, use, key, size } = order;
  const credential = {
    getToken: async () => ({ token, expiresOnTimestamp: Date.now() + 3_600_000 }),
  };
  const backend = createGraphBackend({ credential, driveId, baseUrl, writable: true });
  const { now } = memory();
  const before = performance.now();
  try {
    const bytes =
      use === "write" ? await write(backend, key, size) : await read(backend, key, use === "keep");
    const milliseconds = performance.now() - before;
    return { bytes, milliseconds, growth: memory().peak - now };
  } finally {
    await backend.close?.();
  }
}

process.on("message", (order: TransferOrder) => {
  transfer(order).then(
    (report) => process.send?.(report),
    (error: unknown) => {
      throw error;
    },
  );
});
process.on("disconnect", () => process.exit(0));
process.send?.("ready");
