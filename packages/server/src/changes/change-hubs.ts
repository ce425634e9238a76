import type { StorageBackend } from "@sluice/storage";
import { createChangeHub, type ChangeHub, type ChangeHubOptions } from "./change-hub.ts";

/** The hubs of all backends of one Sluice. */
export interface ChangeHubs {
  /** The hub of a backend, one for all principals that use it. */
  of(backend: StorageBackend): ChangeHub;
}

/** Makes hubs, each when it is asked for first. */
export function createChangeHubs(options: ChangeHubOptions): ChangeHubs {
  const hubs = new WeakMap<StorageBackend, ChangeHub>();
  return {
    of(backend) {
      let hub = hubs.get(backend);
      if (!hub) hubs.set(backend, (hub = createChangeHub(backend, options)));
      return hub;
    },
  };
}
