// #region fixture
import { createMemoryBackend } from "@sluice/storage";
import type { Fixture } from "@sluice/storage/conformance";

export function createMemoryFixture(): Fixture {
  const backend = createMemoryBackend();
  return {
    backend,
    put: async (key, content) => void backend.put(key, content),
    remove: (key) => backend.remove(key),
    putTyped: async (key, content, type) => void backend.put(key, content, type),
    dispose: () => backend.close(),
  };
}
// #endregion
