// The client of docs/recipes/tus.md: run by e2e/recipes.test.ts.
// #region send
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { Upload } from "tus-js-client";

const [, , endpoint = "", path = ""] = process.argv;
new Upload(readFileSync(path), {
  endpoint,
  retryDelays: [0, 1_000, 5_000],
  chunkSize: 8 * 2 ** 20,
  metadata: { filename: basename(path) },
  onSuccess: () => console.log("sent"),
  onError(error) {
    console.error(error.message);
    process.exitCode = 1;
  },
}).start();
// #endregion
