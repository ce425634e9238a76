// #region wrap
import { type StorageBackend, wrapBackend } from "@sluice/storage";

export function createLogged(backend: StorageBackend, log: (line: string) => void): StorageBackend {
  return wrapBackend(backend, {
    open: (open) => (key, options) => {
      log(`${backend.name}: open ${key}`);
      return open(key, options);
    },
  });
}
// #endregion
