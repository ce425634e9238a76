/**
 * Serves the reference server on a free loopback port and prints its URL.
 * `--attach` puts Sluice on it.
 */
import { createServer } from "node:http";
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

const handle = process.argv.includes("--attach")
  ? // the plain server must not load a line of Sluice
    (await import("./attached.ts")).createAttachedHandler(url)
  : toNodeHandler(createMcpHandler(createReferenceServer));
const hostIsLocal = localhostHostValidation();
const originIsLocal = localhostOriginValidation();
server.on("request", (request, response) => {
  if (hostIsLocal(request, response) && originIsLocal(request, response))
    void handle(request as NodeIncomingMessageLike & typeof request, response);
});
console.log(url);
