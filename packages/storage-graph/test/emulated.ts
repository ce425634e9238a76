import type { StorageBackend } from "@sluice/storage";
import { createGraphBackend, type GraphBackendOptions } from "@sluice/storage-graph";
import {
  type EmulatedDrive,
  type GraphEmulator,
  type GraphEmulatorOptions,
  startGraphEmulator,
} from "@sluice/graph-emulator";

/** A backend with the emulator that it speaks to. */
export interface Emulated extends AsyncDisposable {
  readonly emulator: GraphEmulator;
  readonly drive: EmulatedDrive;
  readonly backend: StorageBackend;
  /** Path and query of the requests so far that went to an origin, as `GET /…`. */
  sent(origin: "graph" | "download" | "upload"): string[];
}

export async function startEmulated(
  options: Partial<GraphBackendOptions> = {},
  emulatorOptions: GraphEmulatorOptions = {},
): Promise<Emulated> {
  const emulator = await startGraphEmulator(emulatorOptions);
  const backend = createGraphBackend({
    credential: emulator.credential,
    driveId: emulator.drive.id,
    baseUrl: emulator.origins.graph,
    writable: true,
    watchIntervalMs: 20,
    ...options,
  });
  return {
    emulator,
    drive: emulator.drive,
    backend,
    sent: (origin) =>
      emulator.requests
        .filter((request) => request.origin === origin)
        .map(({ method, url }) => `${method} ${url}`),
    async [Symbol.asyncDispose]() {
      await backend.close?.();
      await emulator[Symbol.asyncDispose]();
    },
  };
}

/** All bytes of a body. */
export async function readAll(body: ReadableStream<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** All bytes of an object. */
export async function readKey(
  backend: StorageBackend,
  ...how: Parameters<StorageBackend["open"]>
): Promise<Buffer> {
  return readAll((await backend.open(...how)).body);
}

/** Writes an object with one call. */
export async function writeKey(
  backend: StorageBackend,
  key: string,
  content: Uint8Array,
  options?: Parameters<NonNullable<StorageBackend["write"]>>[1],
) {
  const writer = await backend.write?.(key, options);
  if (writer === undefined) throw new Error("there is no write");
  for (let at = 0; at < content.byteLength; at += 1_000_000)
    await writer.write(content.slice(at, at + 1_000_000));
  return writer.commit();
}

/** Bytes that tell when they are shifted. */
export function pattern(size: number, seed = 1): Buffer {
  const bytes = Buffer.alloc(size);
  for (let i = 0, state = seed; i < size; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}
