// One of several processes behind a proxy: an MCP server in Express whose resources are objects of a bucket.
// What the processes must know of each other is in Redis. Its settings: ../README.md
import { serve } from "./lib/serve.ts";
import { readSettings } from "./lib/settings.ts";

try {
  const settings = readSettings(process.env);
  const serving = await serve(settings);
  console.log(`${settings.name} serves ${settings.endpoint} on port ${serving.port}`);
  process.once("SIGTERM", () => {
    void serving
      .drain()
      .then((cut) => console.log(`${settings.name} ended, ${cut} answers cut`))
      .catch(fail);
  });
} catch (error) {
  fail(error);
}

function fail(error: unknown): never {
  console.error(error instanceof Error ? error.message : error);
  // connections that are still open would keep it alive
  process.exit(1);
}
