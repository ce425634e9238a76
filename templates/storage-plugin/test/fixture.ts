import type { Fixture } from "@sluice/storage/conformance";
import { createWebBackend } from "../src/index.ts";
import { startOrigin } from "./origin.ts";

/** A fresh web server with its backend. */
export async function createFixture(): Promise<Fixture> {
  const origin = await startOrigin();
  const { baseUrl, objects, faults, countRequests, countBytes } = origin;
  const backend = createWebBackend({ baseUrl });
  return {
    backend,
    // the two functions that go past the backend …
    put: async (key, content) => void objects.set(key, { content, headers: {} }),
    remove: async (key) => void objects.delete(key),
    // … and hooks that let more rules run
    async putTyped(key, content, { contentType, contentEncoding }) {
      const headers = {
        ...(contentType !== undefined && { "content-type": contentType }),
        ...(contentEncoding !== undefined && { "content-encoding": contentEncoding }),
      };
      objects.set(key, { content, headers });
    },
    reopen: async () => createWebBackend({ baseUrl }),
    faults,
    countRequests,
    countBytes,
    secrets: ["127.0.0.1"],
    async dispose() {
      await backend.close?.();
      await origin[Symbol.asyncDispose]();
    },
  };
}
