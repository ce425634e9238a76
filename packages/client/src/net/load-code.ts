import { SluiceError } from "@sluice/core";

/**
 * Loads code at its first use, so that a page which never needs it never gets it. Throws `unavailable` when it does not come;
 * another call asks again.
 */
export function createLoader<Code>(load: () => Promise<Code>, what: string): () => Promise<Code> {
  let loaded: Promise<Code> | undefined;
  return () =>
    (loaded ??= load().catch((cause: unknown) => {
      loaded = undefined;
      throw new SluiceError("unavailable", `client: ${what} could not be loaded; try again`, {
        cause,
      });
    }));
}

/** SHA-256 of bytes as they come, which browsers do not have. */
export const loadSha256: () => Promise<typeof import("@sluice/core/internal/sha256")> =
  createLoader(() => import("@sluice/core/internal/sha256"), "SHA-256");
