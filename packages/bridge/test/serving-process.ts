// A server of the official SDK over its own stdio transport.
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createLargeServer } from "./large-server.ts";

serveStdio(createLargeServer);
