import {
  ContainerClient,
  isPipelineLike,
  newPipeline,
  type PipelineLike,
  type StoragePipelineOptions,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { SluiceError } from "@sluice/core";
import { createInletAgents } from "@sluice/core/node";
import { checkKey } from "@sluice/storage/plugin";
import { type BlobRoot, hasSegmentEndingInDot } from "./blob-call.ts";

/** How a container is named: by a client, by its URL, or by a connection string. */
export type AzureContainer =
  /**
   * A client of your own, such as one with a proxy, a user agent or an audience. Its retries are off here, and its
   * connections are the backend's unless it chose a transport.
   */
  | { readonly client: ContainerClient }
  /**
   * The URL of the container: `https://account.blob.core.windows.net/container`. It may end in a SAS
   * token; otherwise `credential` is a shared key or any credential of `@azure/identity`.
   */
  | { readonly url: string; readonly credential?: ContainerClient["credential"] }
  /** A connection string of the account, and the name of the container. */
  | { readonly connectionString: string; readonly container: string };

// one try: waiting and trying again is done by the wrappers of @sluice/storage, which heed
// Retry-After and abort, as the policy of the SDK does not
const withoutRetries = { retryOptions: { maxTries: 1 } } satisfies StoragePipelineOptions;

/**
 * The root that the options name. Throws `invalid_argument` for a prefix that is not a folder of
 * keys, or an invalid URL.
 */
export function createRoot(location: AzureContainer, prefix = ""): BlobRoot {
  const folder = prefix === "" || prefix.endsWith("/") ? prefix : `${prefix}/`;
  const finding = hasSegmentEndingInDot(folder)
    ? "has a segment that ends with a dot"
    : folder && checkKey(folder.slice(0, -1));
  if (finding) throw new SluiceError("invalid_argument", `azure-blob: the prefix ${finding}`);
  return { ...createContainerClient(location), prefix: folder };
}

/** The pipeline that clients of the same account share, with the transport that a given client has. */
export function pipelineOf(client: ContainerClient): PipelineLike {
  // protected in the types, but declared: a client tells its transport in no other way
  const clientPipeline: unknown = Reflect.get(client, "pipeline");
  if (!isPipelineLike(clientPipeline)) return newPipeline(client.credential, withoutRetries);
  const pipeline = newPipeline(client.credential, { ...clientPipeline.options, ...withoutRetries });
  pipeline.factories.push(...clientPipeline.factories);
  return pipeline;
}

function createContainerClient(location: AzureContainer): Connected {
  const credential =
    "client" in location
      ? location.client.credential
      : "url" in location
        ? location.credential
        : undefined;
  ensureSameSdk(credential);
  if ("client" in location) {
    const { client } = location;
    if (!hasOwnTransport(client)) return withConnections(client);
    return { container: new ContainerClient(client.url, pipelineOf(client)) };
  }
  try {
    if ("url" in location) return withConnections(fromUrl(location.url, credential));
    const { connectionString, container } = location;
    if (!/^[a-z0-9$][a-z0-9-]{2,62}$/.test(container)) throw new TypeError("no container name");
    return withConnections(new ContainerClient(connectionString, container, withoutRetries));
  } catch {
    // without a cause: the SDK's message on a wrong URL or connection string may repeat it
    const what = "url" in location ? "URL" : "connection string or name";
    throw new SluiceError("invalid_argument", `azure-blob: the ${what} does not name a container`);
  }
}

type Connected = Pick<BlobRoot, "container" | "connections">;

function withConnections(client: ContainerClient): Connected {
  const pipeline = pipelineOf(client);
  const connections = addOwnConnections(pipeline);
  return { container: new ContainerClient(client.url, pipeline), connections };
}

/** Options that say nothing about how requests travel. */
const silentOptions: ReadonlySet<string> = new Set([
  "audience",
  "retryOptions",
  "userAgentOptions",
]);

/** True for a client whose maker chose how its requests travel. */
function hasOwnTransport(client: ContainerClient): boolean {
  const clientPipeline: unknown = Reflect.get(client, "pipeline");
  if (!isPipelineLike(clientPipeline) || clientPipeline.factories.length > 0) return true;
  return Object.keys(clientPipeline.options).some((name) => !silentOptions.has(name));
}

/**
 * Throws `invalid_argument` for a key made by another installed copy of the SDK, which would send unsigned requests.
 */
function ensureSameSdk(credential: ContainerClient["credential"] | undefined): void {
  if (!credential || !("accountName" in credential)) return;
  if (credential instanceof StorageSharedKeyCredential) return;
  throw new SluiceError(
    "invalid_argument",
    "azure-blob: the account key comes from another installed copy of @azure/storage-blob; install only one",
  );
}

function fromUrl(
  given: string,
  credential: ContainerClient["credential"] | undefined,
): ContainerClient {
  const url = new URL(given);
  url.pathname = url.pathname.replace(/\/$/, "");
  const client = new ContainerClient(url.href, newPipeline(credential, withoutRetries));
  // the SDK takes the first folder for the container, whatever follows it
  if (!url.pathname.endsWith(`/${client.containerName}`)) throw new TypeError("no container URL");
  return client;
}

/** How many bytes a socket reads at a time for Node's HTTP parser. */
const readBytes = 128 * 1024;

/**
 * Gives the requests of a pipeline connections whose bodies can be read into lent memory. A request that goes through a
 * proxy of the environment keeps the agent that the SDK gave it.
 */
function addOwnConnections(pipeline: PipelineLike): { close(): void } {
  // no limit: an open body keeps its socket as long as its reader wants, and others must not wait for it
  const settings = { keepAlive: true, maxSockets: Infinity, highWaterMark: readBytes };
  const { http, https } = createInletAgents(settings, readBytes);
  pipeline.factories.push({
    create: (next) => ({
      sendRequest(request) {
        const { agent } = request;
        // a redirect sends the same request again, perhaps to another scheme
        const isFree = agent === undefined || agent === http || agent === https;
        if (isFree && request.proxySettings === undefined)
          request.agent = request.url.startsWith("https:") ? https : http;
        return next.sendRequest(request);
      },
    }),
  });
  return {
    close() {
      http.destroy();
      https.destroy();
    },
  };
}
