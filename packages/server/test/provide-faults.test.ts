import { getEventListeners } from "node:events";
import { setImmediate as turn } from "node:timers/promises";
import { Readable } from "node:stream";
import { SluiceError } from "@sluice/core";
import { onAbort } from "@sluice/core/internal";
import { describe, expect, test } from "vitest";
import type { Provided, Provider, ProvideRequest } from "../src/provide/provider.ts";
import { backendOf, createLate, receive } from "./provide-fixture.ts";

const chunks = ["01234", "56789", "abcde"];
const size = 15;

/** What a generator does before each of its chunks, and at its end. */
type Step = (at: number, request: ProvideRequest) => void | Promise<void>;

/** A generator that counts how many of its kind have not run their `finally`. */
function createScript(step: Step = () => {}): {
  readonly run: (request: ProvideRequest) => AsyncGenerator<string>;
  readonly state: { open: number; begun: number };
} {
  const state = { open: 0, begun: 0 };
  async function* run(request: ProvideRequest): AsyncGenerator<string> {
    state.open += 1;
    state.begun += 1;
    try {
      for (let at = 0; at <= chunks.length; at++) {
        await step(at, request);
        if (at < chunks.length) yield chunks[at]!;
      }
    } finally {
      state.open -= 1;
    }
  }
  return { run, state };
}

/** The same generator in each form in which a provider may give it. */
const forms: Readonly<Record<string, (script: AsyncGenerator<string>) => Provided>> = {
  generator: (script) => script,
  "web stream": (script) => ReadableStream.from(script),
  "Node Readable": (script) => Readable.from(script, { objectMode: true }),
};

function never(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => onAbort(signal, reject));
}

const fault = new Error("a fault of the provider");

/** What goes wrong in the generator, and the code of the error, or the fault itself. */
const faults: readonly (readonly [string, Step, unknown])[] = [
  [
    "throws before the first byte",
    (at) => {
      if (at === 0) throw fault;
    },
    fault,
  ],
  [
    "throws in the middle",
    (at) => {
      if (at === 2) throw fault;
    },
    fault,
  ],
  [
    "throws at the end",
    (at) => {
      if (at === 3) throw fault;
    },
    fault,
  ],
  [
    "throws an error of Sluice",
    (at) => {
      if (at === 1) throw new SluiceError("not_found", "provider: it went away");
    },
    "not_found",
  ],
  [
    "stalls before the first byte",
    (at, { signal }) => (at === 0 ? never(signal) : undefined),
    "timeout",
  ],
  ["stalls in the middle", (at, { signal }) => (at === 2 ? never(signal) : undefined), "timeout"],
  ["stalls at the end", (at, { signal }) => (at === 3 ? never(signal) : undefined), "timeout"],
];

describe.each(Object.entries(forms))("a %s", (_, form) => {
  test.each(faults)("is an error if it %s, and is ended", async (name, step, due) => {
    const { run, state } = createScript(step);
    const untold: Provider = { open: (request) => form(run(request)), idleMs: 30 };
    for (const provider of [untold, { ...untold, describe: () => ({ size }) }]) {
      const { bytes, error } = await receive(backendOf(provider));
      expect(error).toSatisfy((found) => (SluiceError.is(found) ? found.code : found) === due);
      expect(bytes.byteLength, name).toBeLessThanOrEqual(size);
      await expect.poll(() => state.open).toBe(0);
    }
  });

  test.each([
    ["fewer", size + 1, "interrupted"],
    ["many fewer", size * 10, "interrupted"],
    ["more", size - 1, "corrupt"],
    ["many more", 1, "corrupt"],
    ["more than no", 0, "corrupt"],
  ])("is an error if it has %s bytes than declared, and is ended", async (_name, told, code) => {
    const { run, state } = createScript();
    const provider = { open: (request: ProvideRequest) => form(run(request)) };
    const received = await receive(backendOf({ ...provider, describe: () => ({ size: told }) }));
    expect(received.error).toMatchObject({ code });
    // the bytes that came never look like all of them
    expect(received.bytes.byteLength === told && told > 0).toBe(false);
    await expect.poll(() => state.open).toBe(0);
    // the twin that told nothing: its end is taken for one
    expect(await receive(backendOf(provider))).toEqual({ bytes: Buffer.from(chunks.join("")) });
  });

  test("ends with the reason if it is aborted before, in or after any chunk, and is ended", async () => {
    for (let at = 0; at <= chunks.length; at++)
      for (const when of ["before", "within"]) {
        const caller = new AbortController();
        const reason = new Error(`${when} ${at}`);
        const { run, state } = createScript((now, { signal }) =>
          when === "within" && now === at ? never(signal) : undefined,
        );
        const backend = backendOf({
          open: (request) => form(run(request)),
          describe: () => ({ size }),
        });
        const { body } = await backend.open("file", { signal: caller.signal });
        const reader = body.getReader();
        // the last chunk waits for the end
        const readable = Math.min(at, chunks.length - 1);
        for (let n = 0; n < readable; n++) expect((await reader.read()).done).toBe(false);
        const reading = when === "within" ? reader.read() : undefined;
        await turn();
        caller.abort(reason);
        await expect(reading ?? reader.read()).rejects.toBe(reason);
        await expect(reader.read()).rejects.toBe(reason);
        await expect.poll(() => state.open).toBe(0);
      }
  });

  test("is ended if it is aborted while it is not read", async () => {
    for (const reads of [0, 1]) {
      const caller = new AbortController();
      const { run, state } = createScript();
      const backend = backendOf((request) => form(run(request)));
      const { body } = await backend.open("file", { signal: caller.signal });
      const reader = body.getReader();
      for (let n = 0; n < reads; n++) await reader.read();
      caller.abort(new Error("gone"));
      await expect.poll(() => state.open).toBe(0);
      await expect(reader.read()).rejects.toThrow("gone");
    }
  });

  test("is ended if it is cancelled before, in or after any chunk", async () => {
    for (let at = 0; at <= chunks.length; at++)
      for (const when of ["before", "within"]) {
        const { run, state } = createScript((now, { signal }) =>
          when === "within" && now === at ? never(signal) : undefined,
        );
        const backend = backendOf((request) => form(run(request)));
        const reader = (await backend.open("file")).body.getReader();
        for (let n = 0; n < at; n++) expect((await reader.read()).done).toBe(false);
        const reading = when === "within" ? reader.read() : undefined;
        await turn();
        await reader.cancel();
        expect((await reading)?.done ?? true).toBe(true);
        await expect.poll(() => state.open).toBe(0);
      }
  });
});

describe("an abort", () => {
  const reason = new Error("the caller's reason");

  test("before describe asks nothing", async () => {
    let calls = 0;
    const count = (): never => {
      calls += 1;
      throw fault;
    };
    const backend = backendOf({ open: count, describe: count });
    const signal = AbortSignal.abort(reason);
    await expect(backend.describe("file", { signal })).rejects.toBe(reason);
    await expect(backend.open("file", { signal })).rejects.toBe(reason);
    await expect(backend.list({ signal })).rejects.toBe(reason);
    expect(calls).toBe(0);
  });

  test("during describe or open ends the call at once, also of a handler that does not listen", async () => {
    const deaf = new Promise<never>(() => {});
    for (const provider of [
      { open: () => "", describe: () => deaf },
      { open: () => deaf },
    ] satisfies Provider[]) {
      const caller = new AbortController();
      const opening = backendOf(provider).open("file", { signal: caller.signal });
      await turn();
      caller.abort(reason);
      await expect(opening).rejects.toBe(reason);
    }
  });

  test("reaches the provider with its reason; after the end the signal is aborted, too", async () => {
    const signals: AbortSignal[] = [];
    const backend = backendOf({
      open({ signal }) {
        signals.push(signal);
        return "text";
      },
    });
    const caller = new AbortController();
    const { body } = await backend.open("file", { signal: caller.signal });
    caller.abort(reason);
    expect(signals[0]?.reason).toBe(reason);
    await expect(body.getReader().read()).rejects.toBe(reason);
    await receive(backend);
    expect(signals[1]?.aborted).toBe(true);
  });

  test("does no harm after the end", async () => {
    const caller = new AbortController();
    const { error } = await receive(
      backendOf(() => "text"),
      { signal: caller.signal },
    );
    caller.abort(reason);
    await turn();
    expect(error).toBeUndefined();
  });
});

describe("a handler", () => {
  test("times out if it never resolves, and its late result is released", async () => {
    for (const form of Object.values(forms)) {
      const { run, state } = createScript();
      const { late, give } = createLate<Provided>();
      let request: ProvideRequest | undefined;
      const backend = backendOf({
        open(asked) {
          request = asked;
          return late;
        },
        idleMs: 20,
      });
      await expect(backend.open("file")).rejects.toMatchObject({ code: "timeout" });
      expect(request?.signal.aborted).toBe(true);
      const script = run(request!);
      // it is at work when it is given
      await script.next();
      expect(state.open).toBe(1);
      give(form(script));
      await expect.poll(() => state.open).toBe(0);
    }
  });

  test("times out if it never describes its resource", async () => {
    const backend = backendOf({
      open: () => "",
      describe: () => new Promise<never>(() => {}),
      idleMs: 20,
    });
    await expect(backend.describe("file")).rejects.toMatchObject({ code: "timeout" });
    await expect(backend.open("file")).rejects.toMatchObject({ code: "timeout" });
  });

  test("rejects with its own error if it throws or rejects", async () => {
    for (const fail of [
      () => {
        throw fault;
      },
      () => Promise.reject(fault),
    ]) {
      await expect(backendOf(fail).open("file")).rejects.toBe(fault);
      const described = backendOf({ open: () => "", describe: fail });
      await expect(described.describe("file")).rejects.toBe(fault);
      await expect(described.open("file")).rejects.toBe(fault);
    }
  });

  test("is a TypeError with the URI if it describes nonsense", async () => {
    for (const info of [
      undefined,
      null,
      "text",
      { size: -1 },
      { size: 1.5 },
      { size: "5" },
      { version: 5 },
      { version: "" },
      { mimeType: 5 },
      { lastModified: new Date(Number.NaN) },
      { lastModified: "today" },
      { sha256: "abc" },
    ]) {
      const describing = backendOf({ open: () => "", describe: () => info as never }).describe(
        "file",
      );
      await expect(describing, JSON.stringify(info)).rejects.toThrow(TypeError);
      await expect(describing).rejects.toThrow("made://here/file");
    }
  });

  test("is not asked about a URI that is not its own", async () => {
    const backend = backendOf(() => "", "made://here/{name}.csv");
    await expect(backend.open("a.txt")).rejects.toMatchObject({ code: "not_found" });
    await expect(backend.describe("a/b.csv")).rejects.toMatchObject({ code: "not_found" });
  });
});

describe("a thousand transfers that end in all ways", () => {
  test("leave no generator, listener or timer behind", { tags: "slow" }, async () => {
    const { signal } = new AbortController();
    const timers = (): number =>
      process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const before = timers();
    const scripts: ReturnType<typeof createScript>[] = [];
    const transfer = async (n: number): Promise<void> => {
      const script = createScript((at) => {
        if (n % 4 === 1 && at === 2) throw fault;
      });
      scripts.push(script);
      const form = Object.values(forms)[n % 3]!;
      const backend = backendOf({
        open: (request) => form(script.run(request)),
        describe: () => (n % 5 === 0 && n % 7 > 0 ? { size: size + 1 } : {}),
        ...(n % 7 === 0 && { maxBytes: 7 }),
      });
      const ending = new AbortController();
      const both = n % 2 === 0 ? signal : AbortSignal.any([signal, ending.signal]);
      const { body } = await backend.open("file", { signal: both });
      const reader = body.getReader();
      for (let reads = n % 5; reads > 0; reads--) await reader.read().catch(() => {});
      if (n % 2 === 1) ending.abort(fault);
      await reader.cancel().catch(() => {});
    };
    for (let n = 0; n < 1_000; n += 4)
      await Promise.all([transfer(n), transfer(n + 1), transfer(n + 2), transfer(n + 3)]);
    await expect.poll(() => scripts.filter(({ state }) => state.open > 0).length).toBe(0);
    expect(scripts.some(({ state }) => state.begun > 0)).toBe(true);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
    await expect.poll(timers).toBeLessThanOrEqual(before);
  });
});

describe("more bytes than a provider may give", () => {
  test("are refused before they are made where the size is known", async () => {
    const { run, state } = createScript();
    const backend = backendOf({ open: run, describe: () => ({ size }), maxBytes: size - 1 });
    await expect(backend.open("file")).rejects.toMatchObject({ code: "too_large", size });
    await expect(backendOf({ open: () => "text", maxBytes: 3 }).open("file")).rejects.toMatchObject(
      { code: "too_large", size: 4 },
    );
    expect(state.begun).toBe(0);
  });

  test("are an error in the middle where it is not, and none of them is passed on", async () => {
    for (const maxBytes of [1, 5, 7, 14]) {
      const { run, state } = createScript();
      const { bytes, error } = await receive(backendOf({ open: run, maxBytes }));
      expect(error).toMatchObject({ code: "too_large" });
      expect(bytes.byteLength).toBeLessThanOrEqual(maxBytes);
      await expect.poll(() => state.open).toBe(0);
    }
  });

  test("are not as many as it may give", async () => {
    const { run } = createScript();
    for (const maxBytes of [size, size + 1])
      expect((await receive(backendOf({ open: run, maxBytes }))).error).toBeUndefined();
  });
});
