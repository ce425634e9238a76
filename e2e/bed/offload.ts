import type { AuditRecord, SluiceOptions } from "@sluice/server";
import { onTestFinished } from "vitest";
import { adapted, documentedSite, startNginx, type Nginx } from "./nginx.ts";
import type { Listening } from "./listen.ts";
import { startSite, type Site, type SiteOptions } from "./site.ts";

/** A site whose files an nginx sends, configured as docs/guides/deploy/offload.md has it. */
export interface OffloadingSite {
  readonly site: Site;
  /** Of the server behind nginx. */
  readonly direct: string;
  /** How every operation ended. */
  readonly records: AuditRecord[];
  readonly nginx: () => Nginx;
  /** Puts another nginx in the place of the one that is there. */
  restart(parts?: Readonly<Record<string, string>>): Promise<void>;
}

/** What is different from the plain case. */
export interface OffloadingOptions extends Pick<SiteOptions, "files" | "storage" | "author"> {
  /** Parts of the configuration and what stands there instead. */
  readonly parts?: Readonly<Record<string, string>>;
  /** What lies between nginx and clients. */
  readonly wire?: (target: () => number) => Promise<Listening>;
  /** What lies between nginx and the server. */
  readonly behind?: (target: () => number, root: string) => Promise<Listening>;
  readonly sluice?: Partial<SluiceOptions>;
}

/** The secret in the documentation. */
export const secret = "change-me-to-32-random-characters";

/** Starts one; it is closed when the test is over. */
export async function startOffloading(options: OffloadingOptions): Promise<OffloadingSite> {
  const { parts = {}, wire, behind, sluice, ...rest } = options;
  const documented = await documentedSite("guides/deploy/offload.md");
  const records: AuditRecord[] = [];
  const closing: (() => Promise<void>)[] = [];
  // also when the start of the rest fails
  onTestFinished(async () => {
    for (const close of closing.toReversed()) await close();
  });
  let nginx: Nginx;
  let start: (more: Readonly<Record<string, string>>) => Promise<Nginx>;
  const site = await startSite({
    ...rest,
    front: async (target, root) => {
      const upstream = await behind?.(target, root);
      if (upstream) closing.push(() => upstream.close());
      start = (more) =>
        startNginx((port) =>
          adapted(documented, {
            "listen 8000;": `listen 127.0.0.1:${port};`,
            "127.0.0.1:8001": `127.0.0.1:${upstream?.port ?? target()}`,
            ...more,
            "/srv/files": root,
          }),
        );
      nginx = await start(parts);
      closing.push(() => nginx.close());
      return wire ? wire(() => nginx.port) : { ...nginx, close: async () => {} };
    },
    node: (root) => ({ offload: { root, prefix: "/_sluice/", secret } }),
    sluice: {
      grant: { use: "window" },
      audit: (record) => void records.push(record),
      ...sluice,
    },
  });
  closing.push(async () => site[Symbol.asyncDispose]());
  return {
    site,
    direct: `http://127.0.0.1:${site.port}`,
    records,
    nginx: () => nginx,
    async restart(more = {}) {
      const before = nginx;
      nginx = await start(more);
      await before.close();
    },
  };
}
