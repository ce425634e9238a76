import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type StreamOptions, streamResource } from "@sluice/client";
import type { DeliveryMode } from "@sluice/core/internal";
import type { StorageBackend } from "@sluice/storage";
import { services, type Service, type ServiceName } from "./backends.ts";
import { connect, type SdkName } from "./clients.ts";
import { createMeddler, type Meddler } from "./meddler.ts";
import { baseUri, startSite } from "./site.ts";

/** A site over a storage service, behind a meddler of its own, and what it says. */
export interface BackendSite extends AsyncDisposable {
  readonly service: Service;
  /** Between clients and the server. */
  readonly line: Meddler;
  readonly url: string;
  /** How bytes travel from now on. */
  mode: DeliveryMode;
  /** Everything that the server told its operator: faults, advice and audit records. */
  readonly said: unknown[];
  /** Downloads a resource to a file of its own, as `alice`, and reads that. */
  download(name: string, options?: StreamOptions): Promise<Buffer>;
}

export const token = "alice-token";

/** What a test wants to be different. */
export interface BackendSiteOptions {
  /** Puts something between the server and the service. */
  readonly storage?: (backend: StorageBackend, service: Service) => StorageBackend;
  /** With this client; the legacy ones get a session. "SDK v2, modern" unless told. */
  readonly sdk?: SdkName;
}

export async function startBackendSite(
  name: ServiceName,
  { storage = (backend) => backend, sdk = "SDK v2, modern" }: BackendSiteOptions = {},
): Promise<BackendSite> {
  const service = await services[name]();
  let line: Meddler | undefined;
  const said: unknown[] = [];
  let downloads = 0;
  const site = await startSite({
    accounts: { [token]: { subject: "alice" } },
    front: async (target) => (line = await createMeddler(target)),
    sessions: true,
    storage: () => storage(service.backend, service),
    sluice: {
      delivery: () => result.mode,
      redirectOrigins: [service.store.origin],
      audit: (record) => void said.push(record),
      onError: (error) => void said.push(error),
      onWarning: (message) => void said.push(message),
    },
  });
  const result: BackendSite = {
    service,
    line: line!,
    url: site.url,
    mode: "direct",
    said,
    async download(resource, options = {}) {
      const client = await connect(sdk, site.url, { token });
      try {
        const stream = await streamResource(client, baseUri + resource, {
          timeouts: { pauseScale: 0 },
          trustedOrigins: [service.store.origin],
          ...options,
        });
        if (stream.mode !== result.mode) throw new Error(`it came by ${stream.mode}`);
        const { path } = await stream.saveTo(join(site.target, `${downloads++}`));
        return await readFile(path);
      } finally {
        await client.close();
      }
    },
    async [Symbol.asyncDispose]() {
      await site[Symbol.asyncDispose]();
      await service[Symbol.asyncDispose]();
    },
  };
  return result;
}
