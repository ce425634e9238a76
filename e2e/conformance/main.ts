/**
 * Serves the reference server on a free loopback port and prints its URL. `--sessions` gives older clients sessions.
 * `--attach` puts Sluice on it. `--bridge` puts a bridge in front of it, `--bridge-files` one with folders, `--bridge-http` one
 * that hosts reach over HTTP.
 */
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMcpHandler } from "@modelcontextprotocol/server";
import {
  localhostHostValidation,
  localhostOriginValidation,
  toNodeHandler,
  type NodeIncomingMessageLike,
} from "@modelcontextprotocol/node";
import { listen } from "../bed/listen.ts";
import { createReferenceServer } from "./reference-server.ts";

const server = createServer();
const { origin } = await listen(server);
const url = `${origin}/mcp`;
const plain = () => toNodeHandler(createMcpHandler(createReferenceServer));

const handle = await chosenHandler();
const hostIsLocal = localhostHostValidation();
const originIsLocal = localhostOriginValidation();
server.on("request", (request, response) => {
  if (hostIsLocal(request, response) && originIsLocal(request, response))
    void handle(request as NodeIncomingMessageLike & typeof request, response);
});
console.log(url);

/** The plain server must not load a line of Sluice. */
async function chosenHandler() {
  if (process.argv.includes("--attach"))
    return (await import("./attached.ts")).createAttachedHandler(url);
  if (process.argv.includes("--sessions"))
    return (await import("./sessions.ts")).createSessionsHandler();
  const hasFolders = process.argv.includes("--bridge-files");
  const isHttp = process.argv.includes("--bridge-http");
  if (!hasFolders && !isHttp && !process.argv.includes("--bridge")) return plain();
  const behind = createServer();
  const handlePlain = plain();
  behind.on(
    "request",
    (request, response) =>
      void handlePlain(request as NodeIncomingMessageLike & typeof request, response),
  );
  const { origin: inner } = await listen(behind);
  const inside = new URL(`${inner}/mcp`);
  if (isHttp) return (await import("./bridged-http.ts")).createHttpBridgedHandler(inside);
  const folder = hasFolders ? makeFolder() : undefined;
  return (await import("./bridged.ts")).createBridgedHandler(inside, folder);
}

/** A folder that goes with this process. */
function makeFolder(): string {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "sluice-conformance-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  process.once("SIGTERM", () => process.exit());
  return folder;
}
