import {
  McpServer,
  ProtocolError,
  requireScopes,
  ResourceTemplate,
  type AuthInfo,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { EXTENSION_ID, type RevisionKind } from "@sluice/core/internal";
import type { SluiceOptions } from "@sluice/server";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { afterEach, describe, expect, test, vi } from "vitest";
import { alice, as, bodyOf, createHouse, headerOf } from "./redeeming.ts";
import { declares, eras, talkTo, type TalkOptions } from "./talking.ts";

const open: Partial<SluiceOptions> = { principal: () => alice };
const attach = { stream: "registered" } as const;
const uri = "app://one/report.txt";
const kept = { text: "kept by the author" };

/** A server whose author registered what `register` says, and streams it. */
function serve(register: (mcp: McpServer) => void, options: Partial<SluiceOptions> = {}) {
  const house = createHouse({ ...open, ...options } as Partial<SluiceOptions>);
  const talk = talkTo(house.sluice, register, undefined, attach);
  return {
    ...house,
    talk,
    stream: (era: RevisionKind, asked: string, others: TalkOptions = {}) =>
      talk(era, "resources/stream", { params: { uri: asked }, ...others }),
  };
}

/** One resource of the author's, with these contents. */
const one =
  (...contents: unknown[]) =>
  (mcp: McpServer): void =>
    void mcp.registerResource("one", uri, {}, () => ({ contents }) as never);

const typeOf = (slot: { reply?: any }): string | undefined => headerOf(slot.reply, "content-type");

describe.each(eras)("%s era", (era) => {
  test("text goes out whole as UTF-8, under its type and with its length, without a version", async () => {
    const { stream, records } = serve(one({ uri, mimeType: "text/csv", text: "größe\n" }));
    const { slot } = await stream(era, uri);
    const reply = slot.reply!;
    expect(reply.status).toBe(200);
    expect(Object.fromEntries(pairs(reply.headers))).toMatchObject({
      "content-type": "text/csv",
      "content-length": "8",
      "accept-ranges": "none",
      "mcp-resource-uri": uri,
      "content-disposition": 'attachment; filename="report.txt"',
      "cache-control": expect.stringContaining("no-store"),
    });
    // nothing is kept from which it could go on
    for (const name of ["etag", "link", "last-modified"])
      expect(headerOf(reply, name)).toBeUndefined();
    expect(await bodyOf(reply)).toBe("größe\n");
    expect(records).toMatchObject([
      { action: "stream", outcome: "complete", mode: "direct", bytes: 8, uri, revision: era },
    ]);
    expect(records[0]!.principal).toBeDefined();
  });

  test("a blob goes out as the bytes that it stands for", async () => {
    const blob = Buffer.from([0, 255, 1, 2]).toString("base64");
    const { slot } = await serve(one({ uri, mimeType: "image/png", blob })).stream(era, uri);
    expect(typeOf(slot)).toBe("image/png");
    expect([...slot.reply!.transfer!.source.bytes!]).toEqual([0, 255, 1, 2]);
    const empty = await serve(one({ uri, blob: "" })).stream(era, uri);
    expect(headerOf(empty.slot.reply!, "content-length")).toBe("0");
  });

  test("a blob that is not base64 is an error and not other bytes", async () => {
    for (const blob of ["AAAA\n", "AA=A", "_-8=", "A", "%%%%"]) {
      const { stream, errors } = serve(one({ uri, blob }));
      const { slot } = await stream(era, uri);
      expect([blob, slot.reply, slot.fault?.data.reason]).toEqual([blob, undefined, "internal"]);
      expect(errors).toMatchObject([{ code: "corrupt" }]);
    }
  });

  test.each([
    [{ text: "x" }, "text/plain"],
    [{ blob: "AAAA" }, "application/octet-stream"],
    [{ text: "x", mimeType: "text/plain; charset=iso-8859-1" }, "text/plain; charset=utf-8"],
    [{ text: "x", mimeType: "text/plain; charset=UTF-8" }, "text/plain; charset=UTF-8"],
    [{ text: "x", mimeType: "text/x\r\nset-cookie: a=b" }, "application/octet-stream"],
    [{ text: "x", mimeType: "" }, "application/octet-stream"],
    [{ text: "x", mimeType: 7 }, "application/octet-stream"],
    [{ blob: "AAAA", mimeType: "Application/PARQUET; x=1" }, "application/parquet"],
  ])("the type of %o is sent as %s", async (content, expected) => {
    const { slot } = await serve(one({ uri, ...content })).stream(era, uri);
    expect(typeOf(slot)).toBe(expected);
    for (const text of slot.reply!.headers) expect(text).toMatch(/^[\x20-\x7e]*$/);
  });

  test("an operation that only a read can serve is not supported, and the error names the alternative", async () => {
    const large = "x".repeat(11);
    const answers: Record<string, unknown[]> = {
      "no content": [],
      "two contents": [
        { uri, text: "a" },
        { uri, text: "b" },
      ],
      "neither text nor blob": [{ uri }],
      "text and blob": [{ uri, text: "a", blob: "AAAA" }],
      "invalid content": [null],
      "text of a number": [{ uri, text: 5 }],
      "a lone surrogate": [{ uri, text: "\ud800" }],
      "larger text": [{ uri, text: large }],
      "text that is larger as UTF-8": [{ uri, text: "ü".repeat(6) }],
      "a larger blob": [{ uri, blob: Buffer.from(large).toString("base64") }],
      "JSON, which could pose as an answer of the protocol": [
        { uri, text: "{}", mimeType: "application/json" },
      ],
      "JSON by its suffix": [{ uri, text: "{}", mimeType: "Application/Geo+JSON; charset=x" }],
      "an event stream": [{ uri, text: "data: {}\n\n", mimeType: "text/event-stream" }],
    };
    for (const [name, contents] of Object.entries(answers)) {
      const { stream, records, errors } = serve(one(...contents), { maxReadBytes: 10 });
      const { slot } = await stream(era, uri);
      expect([name, slot.reply, slot.fault]).toMatchObject([
        name,
        undefined,
        {
          code: era === "modern" ? -25323 : -32003,
          message: "Stream not supported",
          data: { suggestion: "Use resources/read for this resource" },
        },
      ]);
      expect(records).toMatchObject([{ outcome: "denied", reason: "unsupported" }]);
      expect(errors).toEqual([]);
    }
    const fits = await serve(one({ uri, text: "x".repeat(10) }), { maxReadBytes: 10 }).stream(
      era,
      uri,
    );
    expect(headerOf(fits.slot.reply!, "content-length")).toBe("10");
  });

  test("larger than the client takes is too_large, as it is for storage", async () => {
    const { stream } = serve(one({ uri, ...kept }));
    const capabilities = declares({ maxStreamSize: 3 });
    const { slot } = await stream(era, uri, { capabilities });
    expect([slot.reply, slot.fault!.data.reason]).toEqual([undefined, "too_large"]);
  });

  test("a client that declared nothing gets an error, and the author is not asked", async () => {
    let reads = 0;
    const { stream } = serve(
      (mcp) =>
        void mcp.registerResource("one", uri, {}, () => {
          reads += 1;
          return { contents: [{ uri, text: "x" }] };
        }),
    );
    const { slot } = await stream(era, uri, { capabilities: {} });
    expect([slot.reply, slot.fault!.data.reason]).toEqual([undefined, "client_capability"]);
    expect(reads).toBe(0);
  });

  test("a resource whose response cannot be replaced by bytes is not supported, whatever the type", async () => {
    const { stream } = serve(one({ uri, ...kept }));
    const { message, slot } = await stream(era, uri, { hasSlot: false });
    expect(slot.reply).toBeUndefined();
    expect(message.error).toMatchObject({ message: "Stream not supported" });
    expect(JSON.stringify(message)).not.toContain("downloadUrl");
  });

  test("the author's resources below a base always take precedence over storage", async () => {
    const asked = "files://demo/a.bin";
    const { stream } = serve((mcp) => {
      mcp.registerResource("shadow", asked, {}, () => ({ contents: [{ uri: asked, ...kept }] }));
    });
    const { message } = await stream(era, asked, { hasSlot: false });
    expect([message.result, message.error?.message]).toEqual([undefined, "Stream not supported"]);
  });

  test("templates and what is registered after attach stream, too", async () => {
    const house = createHouse(open);
    const talk = talkTo(
      house.sluice,
      (mcp) => {
        const template = new ResourceTemplate("users://{id}/card", { list: undefined });
        mcp.registerResource("card", template, {}, ({ href }, { id }) => ({
          contents: [{ uri: href, text: `card of ${String(id)}` }],
        }));
      },
      (mcp) =>
        void mcp.registerResource("late", "late://one", {}, () => ({
          contents: [{ uri: "late://one", text: "late" }],
        })),
      attach,
    );
    const texts: Record<string, string> = {
      "users://ann/card": "card of ann",
      "late://one": "late",
    };
    for (const [asked, text] of Object.entries(texts)) {
      const { slot } = await talk(era, "resources/stream", { params: { uri: asked } });
      expect(await bodyOf(slot.reply!)).toBe(text);
    }
  });

  test("a stream gives what a read of the very same URI gives, also below a base", async () => {
    const asked = "files://demo/a.bin";
    let reads = 0;
    const { stream, talk } = serve((mcp) => {
      mcp.registerResource("shadow", asked, {}, () => {
        reads += 1;
        return { contents: [{ uri: asked, ...kept }] };
      });
    });
    const read = (await talk(era, "resources/read", { params: { uri: asked } })).message.result;
    const { slot } = await stream(era, asked);
    expect(await bodyOf(slot.reply!)).toBe(read.contents[0].text);
    expect(reads).toBe(2);
    // another spelling comes to storage, which must not lead around the author
    for (const spelling of ["files://demo/%61.bin", "files://demo/./a.bin"]) {
      const other = await stream(era, spelling);
      expect([spelling, other.slot.reply]).toEqual([spelling, undefined]);
    }
    const stored = await stream(era, "files://demo/b.bin");
    expect(headerOf(stored.slot.reply!, "etag")).toBeDefined();
  });

  test("the access rules of a mount count for what the author registered below its base, before the author is asked", async () => {
    const asked = "files://demo/a.bin";
    let reads = 0;
    for (const [decision, reason] of [
      ["deny", "forbidden"],
      ["hide", "not_found"],
    ] as const) {
      const { stream } = serve(
        (mcp) =>
          void mcp.registerResource("shadow", asked, {}, () => {
            reads += 1;
            return { contents: [{ uri: asked, ...kept }] };
          }),
        { access: () => decision },
      );
      const { slot } = await stream(era, asked);
      expect([slot.reply, slot.fault!.data.reason]).toEqual([undefined, reason]);
    }
    expect(reads).toBe(0);
  });

  test("a resource that the author disabled does not exist, like one that never did", async () => {
    const { stream } = serve((mcp) => {
      const read = () => ({ contents: [{ uri, text: "off" }] });
      mcp.registerResource("off", "app://off", {}, read).disable();
      mcp.registerResource("shadow", "files://demo/a.bin", {}, read).disable();
    });
    for (const asked of ["app://off", "app://never", "files://demo/a.bin", "no uri"]) {
      const { slot } = await stream(era, asked);
      expect([asked, slot.reply, slot.fault?.data.reason]).toEqual([asked, undefined, "not_found"]);
    }
  });

  test("a refusal of the author has the author's error", async () => {
    const refuse = (error: Error) => (mcp: McpServer) =>
      void mcp.registerResource("one", uri, {}, () => {
        throw error;
      });
    const closed = new ProtocolError(-32099, "the books are closed", { until: "May" });
    const named = serve(refuse(closed));
    const { slot, message } = await named.stream(era, uri);
    expect(slot.reply).toBeUndefined();
    expect(message.error).toMatchObject({
      code: -32099,
      message: "the books are closed",
      data: { until: "May" },
    });
    const read = await named.talk(era, "resources/read", { params: { uri } });
    expect(read.message.error).toEqual(message.error);
    expect(named.errors).toEqual([]);
    expect(named.records[0]).toMatchObject({ outcome: "denied", reason: "refused" });
    // parameters that the author rejects do not make a listed resource missing
    const wrong = await serve(refuse(new ProtocolError(-32602, "no such month"))).stream(era, uri);
    expect(wrong.message.error).toMatchObject({ message: "no such month" });
    const coded = await serve(refuse(new SluiceError("throttled", "x"))).stream(era, uri);
    expect(coded.slot.fault!.data.reason).toBe("busy");
  });

  test("a fault of the author's handler tells the client nothing, and the operator all", async () => {
    const fault = new Error("connect ECONNREFUSED 10.0.0.7");
    const { stream, errors, records } = serve(
      (mcp) =>
        void mcp.registerResource("one", uri, {}, async () => {
          throw fault;
        }),
    );
    const { slot, message } = await stream(era, uri);
    expect(slot.fault!.data.reason).toBe("internal");
    expect(JSON.stringify([slot.fault, message])).not.toContain("10.0.0.7");
    expect(errors).toEqual([fault]);
    expect(records).toMatchObject([{ outcome: "failed", reason: "internal" }]);
  });

  test.each([uri, "files://demo/a.bin"])(
    "the scopes that a read of %s needs are needed for a stream, before the author is asked",
    async (asked) => {
      let reads = 0;
      const { stream } = serve((mcp) => {
        const config = { scopeChallenge: requireScopes("reports:read") };
        mcp.registerResource("one", asked, config, () => {
          reads += 1;
          return { contents: [{ uri, ...kept }] };
        });
      });
      const authInfo: AuthInfo = { token: "t", clientId: "c", scopes: [] };
      const without = await stream(era, asked, { authInfo });
      expect(without.slot.reply).toBeUndefined();
      expect(without.slot.fault).toMatchObject({ status: 403, data: { reason: "forbidden" } });
      expect(without.slot.fault!.challenge).toContain('scope="reports:read"');
      expect(reads).toBe(0);
      const scopes = ["reports:read"];
      const allowed = await stream(era, asked, { authInfo: { ...authInfo, scopes } });
      expect(allowed.slot.reply!.status).toBe(200);
    },
  );

  test("a caller must be identified, before the author is asked", async () => {
    const { stream } = serve(one({ uri, ...kept }), {
      principal: () => {
        throw new SluiceError("unauthenticated", "x");
      },
    });
    const { slot } = await stream(era, uri);
    expect([slot.reply, slot.fault!.status]).toEqual([undefined, 401]);
  });

  test("it takes a permit of the streams until its bytes are through, and counts as one", async () => {
    const { stream, sluice } = serve(one({ uri, ...kept }), {
      limits: { streams: { perPrincipal: 1 } },
    });
    const first = await stream(era, uri);
    const second = await stream(era, uri);
    expect(second.slot.fault!.data.reason).toBe("busy");
    await bodyOf(first.slot.reply!);
    const third = await stream(era, uri);
    expect(third.slot.reply!.status).toBe(200);
    expect(sluice).toBeDefined();
  });

  test("its bytes count among those of answers, until they are through", async () => {
    const { stream } = serve(one({ uri, text: "0123456789" }), {
      limits: { responseBytes: { perPrincipal: 15 } },
    });
    const first = await stream(era, uri);
    expect((await stream(era, uri)).slot.fault!.data.reason).toBe("busy");
    await bodyOf(first.slot.reply!);
    const third = await stream(era, uri);
    expect(third.slot.reply!.status).toBe(200);
    third.slot.reply!.transfer!.end({ outcome: "aborted", bytes: 0 });
    expect((await stream(era, uri)).slot.reply!.status).toBe(200);
  });

  test("a refused read releases its permit", async () => {
    let isOpen = false;
    const { stream } = serve(
      (mcp) =>
        void mcp.registerResource("one", uri, {}, () => {
          if (!isOpen) throw new ProtocolError(-32099, "closed");
          return { contents: [{ uri, ...kept }] };
        }),
      { limits: { streams: { perPrincipal: 1 } } },
    );
    for (let time = 0; time < 3; time++)
      expect((await stream(era, uri)).slot.reply).toBeUndefined();
    isOpen = true;
    expect((await stream(era, uri)).slot.reply!.status).toBe(200);
  });

  test("lists mark what may stream; a mark of the author's own stays as it is", async () => {
    const read = () => ({ contents: [] });
    const { talk } = serve(
      (mcp) => {
        const list = (...entries: readonly [string, Record<string, unknown>][]) => {
          for (const [name, config] of entries)
            mcp.registerResource(name, `app://${name}`, config, read);
        };
        list(
          ["plain", { mimeType: "text/plain", _meta: { other: 1 } }],
          ["not", { streamable: false }],
          ["quiet", { _meta: { [EXTENSION_ID]: { streamable: false } } }],
          ["json", { mimeType: "application/json" }],
          ["large", { size: 11 }],
        );
        mcp.registerResource("t", new ResourceTemplate("t://{id}", { list: undefined }), {}, read);
      },
      { maxReadBytes: 10 },
    );
    const marked = { streamable: true, _meta: { [EXTENSION_ID]: { streamable: true } } };
    const { resources } = (await talk(era, "resources/list")).message.result;
    const entry = (name: string) => resources.find((each: any) => each.name === name);
    expect(entry("plain")).toMatchObject({ ...marked, _meta: { other: 1, ...marked._meta } });
    expect(entry("not").streamable).toBe(false);
    expect(entry("quiet")._meta[EXTENSION_ID]).toEqual({ streamable: false });
    for (const name of ["quiet", "json", "large"]) expect(entry(name).streamable).toBeUndefined();
    const { resourceTemplates } = (await talk(era, "resources/templates/list")).message.result;
    expect(resourceTemplates).toMatchObject([{ uriTemplate: "t://{id}", ...marked }, marked]);
  });
});

describe("a read that does not end", () => {
  afterEach(() => void vi.useRealTimers());

  /** A server whose author's handler waits, and tells what its signal said. */
  function waiting() {
    const seen: { signal?: AbortSignal } = {};
    const house = serve(
      (mcp) =>
        void mcp.registerResource("one", uri, {}, (_uri, ctx) => {
          seen.signal = ctx.mcpReq.signal;
          return new Promise(() => {});
        }),
      { limits: { streams: { perPrincipal: 1 } } },
    );
    return { ...house, seen };
  }

  test("is given up after 60 s, and its handler and its permit are free", async () => {
    // what other tests of this process have left to close may use immediates
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
    const { stream, seen, errors } = waiting();
    const first = stream("modern", uri);
    await vi.advanceTimersByTimeAsync(59_000);
    expect(seen.signal!.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1_000);
    const { slot } = await first;
    expect([slot.reply, slot.fault!.data.reason]).toEqual([undefined, "busy"]);
    expect(seen.signal!.aborted).toBe(true);
    expect(errors).toMatchObject([{ code: "timeout" }]);
    const again = stream("modern", uri);
    await vi.advanceTimersByTimeAsync(60_000);
    expect((await again).slot.fault!.data.reason).toBe("busy");
    expect(errors).toHaveLength(2);
    expect(vi.getTimerCount()).toBe(0);
  });
});

/** Looks like a resource of the author's to each check, and is one that no stream may give away. */
describe("nothing goes around the author", () => {
  test.each(eras)(
    "a resource is read anew for each stream: nothing of it is kept (%s)",
    async (era) => {
      let version = 0;
      const { stream } = serve(
        (mcp) =>
          void mcp.registerResource("one", uri, {}, () => ({
            contents: [{ uri, text: `version ${(version += 1)}` }],
          })),
      );
      for (const text of ["version 1", "version 2"])
        expect(await bodyOf((await stream(era, uri)).slot.reply!)).toBe(text);
    },
  );

  test("a URI outside of the mounts has no download URL, even if one is minted for its name", async () => {
    const house = serve(one({ uri, ...kept }));
    expect(() => house.sluice.host.nameOf(uri)).toThrow(/not below/);
    const identity = { principal: alice, mayMint: true, maxTtlMs: 60_000 };
    const { token } = (await house.sluice.host.mint(identity, uri, undefined))!;
    expect((await house.redeem(token, { headers: as(alice) })).status).toBe(404);
  });

  test("nothing goes out without a record if records are required", async () => {
    const { stream } = serve(one({ uri, ...kept }), {
      audit: {
        required: true,
        sink: () => {
          throw new Error("disk full");
        },
      },
    });
    const { slot } = await stream("modern", uri);
    expect([slot.reply, slot.fault!.data.reason]).toEqual([undefined, "busy"]);
  });

  test("the rates of a principal count for it", async () => {
    let reads = 0;
    const perPrincipal = new RateLimiterMemory({ points: 1, duration: 60 });
    const { stream } = serve(
      (mcp) =>
        void mcp.registerResource("one", uri, {}, () => {
          reads += 1;
          return { contents: [{ uri, ...kept }] };
        }),
      { rates: { requests: { perPrincipal } } },
    );
    expect((await stream("modern", uri)).slot.reply!.status).toBe(200);
    expect((await stream("modern", uri)).slot.fault!.data.reason).toBe("busy");
    expect(reads).toBe(1);
  });
});

test("with stream: true lists leave the author's entries alone", async () => {
  const talk = talkTo(createHouse(open).sluice, one({ uri, ...kept }));
  const { resources } = (await talk("modern", "resources/list")).message.result;
  expect(resources[0]).toEqual({ uri, name: "one" });
});

test("anything but true, false and registered is refused at attach", () => {
  const mcp = new McpServer({ name: "x", version: "1" });
  expect(() => createHouse().sluice.attach(mcp, { stream: "all" as never })).toThrow(TypeError);
});

function pairs(headers: readonly string[]): [string, string][] {
  return headers.flatMap((name, at): [string, string][] =>
    at % 2 === 0 ? [[name.toLowerCase(), headers[at + 1]!]] : [],
  );
}
