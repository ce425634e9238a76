import { SluiceError } from "@sluice/core";
import type { StorageBackend } from "@sluice/storage";
import { createStepPartDriver, createStepWriter, toPartGrid } from "@sluice/storage/plugin";

/** Bytes of a part: few, so that small files have several and a rest. */
const grid = toPartGrid(64 * 1024, 10_000);

/** Unfinished objects by their ids, as a service would keep them for all processes. */
const unfinished = new Map<string, { readonly key: string; parts: Uint8Array[] }>();

/** How many unfinished objects there are of keys that include a text. */
export function countUnfinished(text: string): number {
  return [...unfinished.values()].filter(({ key }) => key.includes(text)).length;
}

/** A backend that takes objects in parts, as services do: what does not fill one is the caller's to keep. */
export function withParts(backend: StorageBackend): StorageBackend {
  return {
    ...backend,
    async writeInSteps(key, { id: given, signal } = {}) {
      const operation = `parts: write in steps ${key}`;
      const id = given ?? crypto.randomUUID();
      if (given === undefined) unfinished.set(id, { key, parts: [] });
      const object = unfinished.get(id);
      if (!object) throw new SluiceError("not_found", `${operation}: nothing of it is kept`);
      const parts = [...object.parts];
      const driver = createStepPartDriver(
        {
          async send(number, part) {
            object.parts[number] = parts[number] = part.slice();
          },
          async publish(last, count) {
            const isOther = parts.some((part, n) => object.parts[n] !== part);
            if (isOther || !unfinished.has(id))
              throw new SluiceError("precondition_failed", `${operation}: of another writer`);
            const writer = await backend.write!(key, { private: true });
            for (const part of [...parts.slice(0, count), last.slice()]) await writer.write(part);
            const info = await writer.commit();
            unfinished.delete(id);
            return info;
          },
          async discard() {
            unfinished.delete(id);
          },
        },
        { operation, grid, count: parts.length },
      );
      const offset = grid.startOf(parts.length);
      return createStepWriter(() => driver, { operation, id, offset, signal });
    },
  };
}
