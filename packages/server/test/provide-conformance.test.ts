import { SluiceError } from "@sluice/core";
import { onAbort } from "@sluice/core/internal";
import { createMemoryBackend } from "@sluice/storage";
import {
  checkBackend,
  createLargeContent,
  conformanceRules,
  type Faults,
  type Finding,
  type Fixture,
} from "@sluice/storage/conformance";
import { describe, expect, test } from "vitest";
import type { Provider, ProvideRequest } from "../src/provide/provider.ts";
import { backendOf } from "./provide-fixture.ts";

/** What breaks the next bytes, and after or at how many. */
interface Fault {
  readonly kind: keyof Faults;
  readonly bytes: number;
}

/** Objects in memory behind a provider of `{+key}`, whose generator reuses one buffer. */
function createFixture(rewind: "from the start" | "from a byte"): Fixture {
  const store = createMemoryBackend();
  const buffer = new Uint8Array(256 * 1024);
  let fault: Fault | undefined;
  let running = 0;
  let requests = 0;
  let bytes = 0;

  async function* contentFrom(request: ProvideRequest, start: number): AsyncGenerator<Uint8Array> {
    requests += 1;
    running += 1;
    const { kind, bytes: limit = Infinity } = fault ?? {};
    fault = undefined;
    let position = 0;
    try {
      const object = await store.open(keyOf(request), start > 0 ? { range: { start } } : {});
      for await (const chunk of object.body) {
        buffer.set(chunk);
        const isFaulty = position + chunk.byteLength > limit;
        if (kind === "corrupt" && isFaulty) buffer[limit - position]! ^= 1;
        const isCut = isFaulty && kind !== "corrupt" && kind !== "overrun";
        const part = buffer.subarray(0, isCut ? limit - position : chunk.byteLength);
        position += part.byteLength;
        bytes += part.byteLength;
        yield part;
        if (!isCut) continue;
        if (kind === "reset") throw new SluiceError("interrupted", "provider: broken off");
        if (kind === "stall") await aborted(request.signal);
        return;
      }
      if (kind === "overrun") yield buffer.subarray(0, limit);
    } finally {
      running -= 1;
    }
  }

  const provider: Provider = {
    open: (request) => contentFrom(request, 0),
    rewind: rewind === "from the start" ? true : (request) => contentFrom(request, request.start),
    async describe(request) {
      requests += 1;
      const info = await store.describe(keyOf(request)).catch(() => {
        throw new SluiceError("not_found", "provider: there is no such thing");
      });
      const { size, etag, lastModified, contentType, digests } = info;
      const { sha256 } = digests ?? {};
      return { size, version: etag, lastModified, mimeType: contentType, sha256 };
    },
  };
  const cause =
    (kind: keyof Faults) =>
    (count: number): void =>
      void (fault = { kind, bytes: count });
  return {
    backend: backendOf(provider, "kit://objects/{+key}"),
    put: async (key, content) => void store.put(key, content),
    remove: (key) => store.remove(key),
    putTyped: async (key, content, type) => void store.put(key, content, type),
    putLarge: async (key, size, tail) => void store.put(key, createLargeContent(size, tail)),
    countHandles: () => running,
    countRequests: () => requests,
    countBytes: () => bytes,
    faults: {
      reset: cause("reset"),
      truncate: cause("truncate"),
      overrun: cause("overrun"),
      stall: cause("stall"),
      corrupt: cause("corrupt"),
    },
    traits: { withoutCoding: true },
    why: {
      faults: "errors of a provider pass as they are",
      putFolder: "what has no bytes is not provided",
      putOutside: "there is no outside",
      touch: "a version is one of the bytes",
      alias: "a resource has one URI",
      overwrite: "content is replaced, never changed",
    },
    dispose: () => store.close(),
  };
}

function keyOf({ variables }: ProvideRequest): string {
  return variables["key"]!;
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => onAbort(signal, reject));
}

/** All rules but those of lists: a template lists nothing. */
const applicable = conformanceRules
  .map(({ id }) => id)
  .filter((id) => !id.startsWith("list-") && id !== "key-folder-prefix");

/** 4 GiB are left out to get there. */
const slow = ["range-large"];

function idsOf(findings: readonly Finding[], outcome: Finding["outcome"]): string[] {
  return findings.filter((finding) => finding.outcome === outcome).map(({ rule }) => rule.id);
}

/** Operations that a provider does not have. */
const optional = /^(write|steps|repeat|remove|watch|presign|file)-|^abort-close/;

const absent = [
  "answer-page",
  "answer-remarked",
  "answer-unmarked",
  "open-folder",
  "open-encoded",
  "range-ignored",
  "describe-etag-not-reused",
  "describe-canonical",
  "condition-listed",
  "key-sibling",
  "key-outside",
  "failure-throttled",
  "failure-throttled-date",
  "failure-service",
  "failure-denied",
  "failure-credentials",
  "failure-at-once",
  "failure-cause",
];

describe("a provider keeps the rules of storage", () => {
  test.each([
    ["from a byte", applicable],
    [
      "from the start",
      process.env["SLUICE_DEEP"] ? applicable : applicable.filter((id) => !slow.includes(id)),
    ],
  ] as const)("if it makes parts %s", async (rewind, only) => {
    const findings = await checkBackend(() => createFixture(rewind), { only, deadlineMs: 120_000 });
    const broken = findings.filter((finding) => finding.outcome === "broken");
    expect(broken.map(({ rule, error }) => [rule.id, String(error)])).toEqual([]);
    const missing = idsOf(findings, "absent").filter((id) => !optional.test(id));
    expect(missing.toSorted()).toEqual(absent.toSorted());
    expect(idsOf(findings, "kept").length).toBeGreaterThan(55);
  });
});
