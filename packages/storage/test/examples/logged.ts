// #region wrap
import { type StorageBackend, wrap } from "@sluice/storage";

export function createLogged(backend: StorageBackend, log: (line: string) => void): StorageBackend {
  return wrap(backend, {
    open: (open) => (key, options) => {
      log(`${backend.name}: open ${key}`);
      return open(key, options);
    },
  });
}
// #endregion
