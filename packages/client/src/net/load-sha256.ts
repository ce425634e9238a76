import { createLoader } from "./load-code.ts";

/** SHA-256 of bytes as they come, which browsers do not have. */
export const loadSha256: () => Promise<typeof import("@sluice/core/sha256")> = createLoader(
  () => import("@sluice/core/sha256"),
  "SHA-256",
);
