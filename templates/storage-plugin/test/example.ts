// #region use
import { protect } from "@sluice/storage";
import { createWebBackend } from "sluice-storage-web";

/** The first bytes of every file. `protect` retries, resumes and checks; a backend by itself does not. */
export async function* readBeginnings(baseUrl: string): AsyncGenerator<string> {
  const storage = protect(createWebBackend({ baseUrl }));
  const { objects } = await storage.list({ limit: 100 });
  for (const { key } of objects) {
    const { body } = await storage.open(key, { range: { start: 0, end: 10 } });
    yield `${key}: ${await new Response(body).text()}`;
  }
  await storage.close?.();
}
// #endregion
