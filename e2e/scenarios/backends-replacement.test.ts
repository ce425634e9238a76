// @module-tag slow
import { SluiceError } from "@sluice/core";
import type { DeliveryMode } from "@sluice/core/internal";
import type { StorageBackend } from "@sluice/storage";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startBackendSite, type BackendSite } from "../bed/backend-site.ts";
import { remoteNames, serviceNames } from "../bed/backends.ts";
import { bytesOf } from "../bed/content.ts";
import { holdBody } from "../bed/hold.ts";
import type { Meddler } from "../bed/meddler.ts";

// each service in each mode, or in one of them, another one for each service and kind of fault
const deep = process.env["SLUICE_DEEP"] !== undefined;
const size = 2_500_000;
const offset = 2_000_000;
const slack = 1_000_000;
const modes: DeliveryMode[] = ["direct", "redirect", "downloadUrl"];
const old = bytesOf(size, "old");
const fresh = bytesOf(size, "new");

/** What a download is that ran while its object was replaced. */
type Outcome = "old" | "new" | "mixed" | SluiceError;

/** Downloads; at 2 MB `broken` stands still, the object is replaced, and `then` says how it goes on. */
async function downloadReplaced(
  site: BackendSite,
  broken: Meddler,
  then: "reset" | "release",
): Promise<Outcome> {
  await site.service.put("disk.img", old);
  const hold = holdBody(broken, size, offset);
  let replaced: Promise<void> | undefined;
  const onProgress = ({ bytes }: { bytes: number }): void => {
    if (bytes < offset - slack) return;
    replaced ??= site.service.put("disk.img", fresh).then(() => hold[then]());
  };
  try {
    const saved = await site.download("disk.img", { onProgress });
    return saved.equals(old) ? "old" : saved.equals(fresh) ? "new" : "mixed";
  } catch (error) {
    if (SluiceError.is(error)) return error;
    throw error;
  } finally {
    await replaced;
  }
}

const expectWhole = (outcome: Outcome): void =>
  expect(outcome).toSatisfy((end) => end === "old" || end === "new" || SluiceError.is(end));

describe.each(serviceNames)("%s: an object that is replaced in the middle", (name) => {
  let site: BackendSite;
  beforeAll(async () => {
    site = await startBackendSite(name);
  });
  afterAll(() => site[Symbol.asyncDispose]());

  const overStorage = modes.filter((mode) => mode === "redirect" || remoteNames.includes(name));
  const some = <T>(all: readonly T[], turn: number): T[] =>
    all.filter((_, n) => deep || n === (serviceNames.indexOf(name) + turn) % all.length);

  test.each(some(overStorage, 0))(
    "is delivered whole or not at all after a reset of the storage, %s",
    async (mode) => {
      site.mode = mode;
      expectWhole(await downloadReplaced(site, site.service.store, "reset"));
    },
  );

  test.each(some(overStorage, 1))(
    "is delivered whole or not at all without a reset, %s",
    async (mode) => {
      site.mode = mode;
      expectWhole(await downloadReplaced(site, site.service.store, "release"));
    },
  );

  test.each(some<DeliveryMode>(["direct", "downloadUrl"], 0))(
    "is delivered in its new version after a reset of the client's line, %s",
    async (mode) => {
      site.mode = mode;
      expect(await downloadReplaced(site, site.line, "reset")).toBe("new");
    },
  );
});

/** Lets a meddler answer range requests out of another version, whatever was asked for. */
function spliceRanges(meddler: Meddler): void {
  const first = meddler.meddle;
  meddler.meddle = async (exchange) => {
    const { answer, response } = exchange;
    if (answer.statusCode !== 206) return first(exchange);
    answer.resume();
    const [, start, end] = /^bytes (\d+)-(\d+)/.exec(answer.headers["content-range"]!)!;
    response.writeHead(206, { ...answer.headers, etag: '"another"' });
    response.end(fresh.subarray(Number(start), Number(end) + 1));
    return true;
  };
}

// Graph does not say which version of an item the tag of a download belongs to
describe.each(["fs", "s3", "azure-blob"] as const)("%s: a proxy that splices", (name) => {
  const over: DeliveryMode[] =
    name === "fs"
      ? ["redirect"]
      : deep
        ? modes
        : name === "s3"
          ? ["direct", "redirect"]
          : ["downloadUrl"];
  let site: BackendSite;
  beforeAll(async () => {
    site = await startBackendSite(name);
    await site.service.put("disk.img", old);
  });
  afterAll(() => site[Symbol.asyncDispose]());

  test.each(over)("is found out by the other validator, %s", async (mode) => {
    site.mode = mode;
    const { store } = site.service;
    const hold = holdBody(store, size, offset);
    spliceRanges(store);
    const onProgress = ({ bytes }: { bytes: number }): void => {
      if (bytes >= offset - slack) hold.reset();
    };
    const saved = await site.download("disk.img", { onProgress }).catch((error: unknown) => error);
    expect(saved).toSatisfy((end) =>
      Buffer.isBuffer(end) ? end.equals(old) : SluiceError.is(end),
    );
  });
});

/** A backend that goes on in whatever version is there, and claims that it is the one that was asked for. */
function forgetful(backend: StorageBackend): StorageBackend {
  return {
    ...backend,
    async open(key, { range, ifMatch, signal } = {}) {
      const { validator: _forgotten, ...opened } = await backend.open(key, {
        ...(range && { range }),
        ...(signal && { signal }),
      });
      const etag = ifMatch ?? opened.info.etag;
      return { ...opened, info: { ...opened.info, ...(etag !== undefined && { etag }) } };
    },
  };
}

test.each(remoteNames)(
  "negative control: %s without conditions is seen to splice",
  async (name) => {
    await using site = await startBackendSite(name, { storage: forgetful });
    expect(await downloadReplaced(site, site.service.store, "reset")).toBe("mixed");
  },
);
