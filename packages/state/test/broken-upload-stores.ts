import type { UploadStore } from "@sluice/state";
import { createMemoryUploadStore } from "@sluice/state/internal";

/** For every rule of the upload store, a store that breaks it. */
export const brokenUploadStores: Readonly<Record<string, () => UploadStore>> = {
  // the usual mistake: look first, write later, with a pause in between
  "permits-bound": changed((store) => {
    let taken = 0;
    return {
      async enter(account, permit, lease) {
        const isFull = taken >= lease.permits;
        await Promise.resolve();
        taken += 1;
        return !isFull || store.enter(account, permit, lease);
      },
    };
  }),
  "permits-back": changed(() => ({ async leave() {} })),
  "permits-lapse": changed((store) => ({
    enter: (account, permit, lease) => store.enter(account, permit, { ...lease, until: Infinity }),
  })),
  "owners-apart": changed((store) => ({
    hold: (_owner, fileId, file) => store.hold("everybody", fileId, file),
    drop: (_owner, fileId) => store.drop("everybody", fileId),
    settle: (_owner, fileId, file) => store.settle("everybody", fileId, file),
    seed: (_owner, files, lease) => store.seed("everybody", files, lease),
  })),
  "files-bound": changed((store) => ({
    hold: (owner, fileId, file) => store.hold(owner, fileId, { ...file, maxFiles: 1_000 }),
  })),
  "bytes-bound": changed((store) => {
    let underWay = 0;
    return {
      async hold(owner, fileId, file) {
        const isAlone = (underWay += 1) === 1;
        await Promise.resolve();
        underWay -= 1;
        return store.hold(owner, fileId, isAlone ? file : { ...file, maxBytes: Infinity });
      },
    };
  }),
  "hold-anew": changed((store) => ({
    async hold(owner, fileId, file) {
      const kept = await store.hold(owner, fileId, file);
      if (!kept) await store.drop(owner, fileId);
      return kept;
    },
  })),
  "hold-again": changed((store) => ({
    hold: async (owner, fileId, file) =>
      file.bytes <= file.maxBytes && store.hold(owner, fileId, file),
  })),
  "hold-lapses": changed((store) => ({
    hold: (owner, fileId, file) => store.hold(owner, fileId, { ...file, until: Infinity }),
  })),
  "settle-counts": changed((store) => ({
    settle: (owner, fileId, file) => store.settle(owner, fileId, { ...file, until: Infinity }),
  })),
  "drop-forgets": changed(() => ({ async drop() {} })),
  "seed-counts": changed((store) => ({
    seed: (owner, files, lease) => store.seed(owner, files, { ...lease, listedAt: 0 }),
  })),
  "seed-spares": changed((store) => ({
    seed: (owner, files, lease) =>
      store.seed(owner, files, { ...lease, listedAt: lease.listedAt + 1 }),
  })),
  "seed-lapses": changed((store) => ({
    seed: (owner, files, lease) => store.seed(owner, files, { ...lease, until: Infinity }),
  })),
  "writer-numbers": changed((store) => ({
    async claim(fileId, lease) {
      const { writer, outcome } = await store.claim(fileId, lease);
      return { writer: lease.now > 1_800_000_100_000 ? 1 : writer, outcome };
    },
  })),
  "writer-wanted": changed((store) => ({
    async renew(fileId, writer, lease) {
      const outcome = await store.renew(fileId, writer, lease);
      return outcome === "waiting" ? "held" : outcome;
    },
  })),
  "writer-bounded": changed((store) => ({
    renew: (fileId, writer, lease) =>
      store.renew(fileId, writer, { ...lease, until: lease.until + 1 }),
  })),
  "writer-newest": changed((store) => {
    const claimed = new Map<string, Promise<Awaited<ReturnType<UploadStore["claim"]>>>>();
    return {
      claim(fileId, lease) {
        const key = `${fileId} ${lease.now}`;
        const claim = claimed.get(key) ?? store.claim(fileId, lease);
        if (lease.now % 10_000 === 1) claimed.set(key, claim);
        return claim;
      },
    };
  }),
  "writer-prolongs": changed((store) => {
    const ends = new Map<number, number>();
    return {
      async claim(fileId, lease) {
        const claim = await store.claim(fileId, lease);
        ends.set(claim.writer, lease.until);
        return claim;
      },
      async renew(fileId, writer, lease) {
        const outcome = await store.renew(fileId, writer, lease);
        return outcome === "held" && lease.now > ends.get(writer)! + 10_000 ? "lost" : outcome;
      },
    };
  }),
  "writer-released": changed((store) => ({
    async release(fileId, writer) {
      const { now, until } = { now: 1_800_000_000_000, until: 1_800_000_010_000 };
      const outcome = await store.renew(fileId, writer, { now, until });
      if (outcome !== "waiting") await store.release(fileId, writer);
    },
  })),
  "writer-unknown": changed((store) => ({
    async renew(fileId, writer, lease) {
      const outcome = await store.renew(fileId, writer, lease);
      return outcome === "lost" && writer === 0 ? "held" : outcome;
    },
  })),
  "writer-forgotten": changed((store) => {
    const claimed = new Set<string>();
    return {
      async claim(fileId, lease) {
        claimed.add(fileId);
        return store.claim(fileId, lease);
      },
      renew: async (fileId, writer, lease) =>
        claimed.has(fileId) ? store.renew(fileId, writer, lease) : "lost",
    };
  }),
  "close-twice": changed(() => {
    let isOpen = true;
    return {
      async close() {
        if (!isOpen) throw new Error("upload store: closed already");
        isOpen = false;
      },
    };
  }),
};

function changed(change: (store: UploadStore) => Partial<UploadStore>): () => UploadStore {
  return () => {
    const store = createMemoryUploadStore();
    return { ...store, ...change(store) };
  };
}
