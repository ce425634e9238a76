// The client of the page about errors: run by e2e/examples.test.ts.
// #region client
import { connect, saveResource, SluiceError } from "sluice/client";

const client = await connect("http://127.0.0.1:2532/mcp");
const stop = new AbortController();
process.once("SIGINT", () => stop.abort());
try {
  const { signal } = stop;
  await saveResource(client, "files://local/big.bin", "downloads/", { signal, resume: true });
} catch (error) {
  if (stop.signal.aborted) console.log("stopped; run it again to resume");
  else if (SluiceError.is(error)) console.log(error.code, error.message, error.retryAfterMs);
  else throw error; // a mistake in this program
} finally {
  await client.close();
}
// #endregion
