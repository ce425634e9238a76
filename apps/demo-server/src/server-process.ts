// The demo's server in a process of its own: server.ts with a few settings turned.
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";
import { openStorage } from "@sluice/cli/internal";
import type { Delivery } from "@sluice/server";
import { openAuditFile, type AuditFile } from "@sluice/server/node";
import { createMemoryBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { startSocketServer } from "./lib/socket-server.ts";
import { readRedirectOrigins } from "./lib/redirect-origins.ts";
import { answerQuestions } from "./lib/peer.ts";
import { createApp } from "./server.ts";

/** What to serve, and how. */
export interface ServerSettings {
  readonly folder: string;
  readonly delivery: Delivery;
  /** File of the audit trail. */
  readonly trail: string;
  /** Folder for the files that users send. Default: memory. */
  readonly received?: string;
  /** Origin of the address that clients use, when it is not the server's own. */
  readonly origin?: string;
  /** Settings of a storage service, as they would be in the environment of the server. Default: the folder. */
  readonly environment?: Readonly<Record<string, string>>;
}

let audit: AuditFile | undefined;

answerQuestions({
  async start({ folder, delivery, trail, received, origin, environment = {} }: ServerSettings) {
    audit = await openAuditFile({ path: trail });
    Object.assign(process.env, environment);
    const { SLUICE_STORAGE = pathToFileURL(folder).href, SLUICE_REDIRECT_ORIGINS } = environment;
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const app = createApp({
      received:
        received === undefined
          ? createMemoryBackend()
          : createFsBackend({ root: received, writable: true }),
      storage: await openStorage(SLUICE_STORAGE, process.env),
      endpoint: `${origin ?? `http://127.0.0.1:${port}`}/mcp`,
      delivery,
      audit,
      maxReadBytes: 2 ** 30, // only here, to have something to compare with
      redirectOrigins: readRedirectOrigins(SLUICE_REDIRECT_ORIGINS),
    });
    server.on("request", app);
    return { port };
  },
  async startSockets({ folder, trail }: Pick<ServerSettings, "folder" | "trail">) {
    audit = await openAuditFile({ path: trail });
    return { url: await startSocketServer(folder, audit) };
  },
  /** Waits until everything that happened is in the trail. */
  closeTrail: () => audit?.close(),
});
