import type { PipelineLike } from "@azure/storage-blob";
import { createInletAgents } from "@sluice/core/node";

/** Bytes that a socket reads at once for Node's HTTP parser. */
const readBytes = 128 * 1024;

/** Connections of one backend. */
export interface OwnConnections {
  close(): void;
}

/**
 * Gives the requests of a pipeline connections whose bodies can be read into lent memory. A request that goes through a
 * proxy of the environment keeps the agent that the SDK gave it.
 */
export function addOwnConnections(pipeline: PipelineLike): OwnConnections {
  // an open body holds its socket for as long as its reader likes: with a limit, some would wait for others
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
