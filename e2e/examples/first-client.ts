// The client of the README: run by e2e/examples.test.ts.
// #region client
import { connect, saveResource } from "sluice/client";

const client = await connect("http://127.0.0.1:2532/mcp");
const { path, sha256 } = await saveResource(client, "files://local/big.bin", "downloads/");
console.log(path, sha256);
await client.close();
// #endregion
