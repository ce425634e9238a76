import type { Grants } from "./grants.ts";

/** Grants, and the place where a route says that it serves them. */
interface ServedGrants {
  readonly grants: Grants;
  /** Download URLs have a route in this process. */
  readonly markServed: () => void;
}

/** Warns of the first download URL that is made while no route in this process serves any. */
export function warnWhenUnserved(
  grants: Grants,
  onWarning: (message: string) => void,
): ServedGrants {
  let isSettled = false;
  return {
    markServed: () => void (isSettled = true),
    grants: {
      ...grants,
      async mint(...args) {
        const minted = await grants.mint(...args);
        if (minted && !isSettled) {
          isSettled = true;
          onWarning(unservedWarning);
        }
        return minted;
      },
    },
  };
}

const unservedWarning =
  "a download URL was issued, and nothing in this process serves it: serve the endpoint with withSluice(handler, sluice) of @sluice/transport-http, or let createSidecar serve it, here or in another process";
