// A bridge of an operator whose host speaks over stdin and stdout. Its first argument is what stands behind it and where
// large results are held, as JSON.
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import {
  createHttpUpstream,
  createMemoryHold,
  createProcessUpstream,
  createStdioHost,
  createStorageHold,
  openResultLinks,
  runBridge,
} from "@sluice/bridge";
import { createSluice } from "@sluice/server";
import { createMemoryStores } from "@sluice/state";
import { createFsBackend } from "@sluice/storage-fs";
import { createS3Backend, type S3BackendOptions } from "@sluice/storage-s3";
import { createHandler } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";

/** The argument of this program. */
export interface LinkingSettings {
  /** URL, or command and arguments, of the server. */
  readonly behind: string | readonly string[];
  readonly folder?: string;
  readonly bucket?: S3BackendOptions;
  readonly maxBytes?: number;
}

const { behind, folder, bucket, maxBytes } = JSON.parse(process.argv[2] ?? "") as LinkingSettings;
const storage =
  folder === undefined
    ? bucket && createS3Backend({ ...bucket, writable: true })
    : createFsBackend({ root: folder, writable: true });
const hold = storage ? createStorageHold({ storage, maxBytes }) : createMemoryHold({ maxBytes });
const server = createServer();
server.listen(0, "127.0.0.1");
await once(server, "listening");
const sluice = createSluice({
  storage: hold.storage,
  baseUri: hold.baseUri,
  endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
  keys: "ephemeral",
  stores: createMemoryStores(),
  links: {},
  onWarning() {},
});
server.on("request", toNodeHandler(createHandler({ sluice })));
const caller = { header: () => undefined };
const links = await openResultLinks({ hold, link: ({ uri }) => sluice.link(uri, { caller }) });
const [command = "", ...args] = behind;
const upstream =
  typeof behind === "string"
    ? createHttpUpstream({ endpoint: new URL(behind), wrapFetch: links.wrapFetch })
    : createProcessUpstream({ command, args, wrapOutput: links.wrapOutput });
await runBridge({ host: createStdioHost(), upstream: links.watch(upstream), hooks: links.hooks });
await links.close();
await hold.close();
await storage?.close?.();
server.closeAllConnections();
server.close();
