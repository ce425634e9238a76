/**
 * A site in a process of its own. Started with its settings as JSON, it tells its parent the URL.
 * Resources of the folder below `direct/`, `redirect/` and `downloadUrl/` travel in that mode, others as the client
 * prefers, or directly.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { archiveProvider } from "@sluice/archive";
import type { DeliveryMode } from "@sluice/core/internal";
import { createSigningStore } from "../signing-store.ts";
import { baseUri, startSite } from "../site.ts";
import { countDescriptors, watchFaults, watchMemory } from "../watch.ts";

/** What the parent may set. */
export interface ServeSettings {
  readonly sparse?: Record<string, number>;
  readonly files?: Record<string, string>;
  /** So many small files with a number as their name. */
  readonly numbered?: number;
  readonly sessions?: boolean;
  /** A folder to serve as it is, instead of one of its own. */
  readonly root?: string;
  readonly pageSize?: number;
  /** Streams at once, of everybody together. */
  readonly mostStreams?: number;
  /** With access rules: the URIs that they hide end so. */
  readonly hides?: string;
}

const {
  sparse = {},
  files = {},
  numbered = 0,
  sessions = false,
  root,
  pageSize,
  mostStreams,
  hides,
} = JSON.parse(process.argv[2] ?? "{}") as ServeSettings;
const modes: readonly string[] = ["direct", "redirect", "downloadUrl"] satisfies DeliveryMode[];
const redirectOrigins: string[] = [];

const site = await startSite({
  sparse,
  files: { ...files, ...Object.fromEntries(Array.from({ length: numbered }, (_, n) => [n, "1"])) },
  sessions,
  ...(root !== undefined && { root }),
  async storage(backend) {
    const store = await createSigningStore(backend);
    redirectOrigins.push(store.origin);
    return store.backend;
  },
  sluice: () => ({
    delivery({ info, client }) {
      const mode = info.key.split("/", 1)[0]!;
      return modes.includes(mode) ? (mode as DeliveryMode) : (client.prefer?.[0] ?? "direct");
    },
    redirectOrigins,
    ...(pageSize !== undefined && { pageSize }),
    ...(mostStreams !== undefined && { limits: { streams: { perProcess: mostStreams } } }),
    ...(hides !== undefined && {
      access: (_who, uri) => (uri.endsWith(hides) ? "hide" : "allow"),
    }),
    onError: () => {},
    onWarning: () => {},
  }),
});

site.sluice.provide(
  "archives://site/all.zip",
  archiveProvider(site.sluice.host, { of: baseUri, format: "zip" }),
);

// zeros that no file has: made://site/1048576.bin
site.sluice.provide("made://site/{bytes}.bin", async function* ({ variables }) {
  const chunk = new Uint8Array(2 ** 16);
  for (let left = Number(variables["bytes"]); left > 0; left -= chunk.byteLength)
    yield chunk.subarray(0, Math.min(left, chunk.byteLength));
});

// without a flag on the command line, which would be there for every other use
setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const memory = watchMemory();
const faults = watchFaults();
process.on("message", (question) => {
  if (question === "memory") process.send!(memory());
  if (question === "settled memory") {
    collectGarbage();
    const { heapUsed, external } = process.memoryUsage();
    process.send!({ ...memory(), held: heapUsed + external });
  }
  if (question === "faults") process.send!(faults());
  if (question === "descriptors") process.send!({ descriptors: countDescriptors() });
});
process.on("disconnect", () => {
  void site[Symbol.asyncDispose]().then(() => process.exit(0));
});
process.send!({ url: site.url, root: site.root, redirectOrigins });
