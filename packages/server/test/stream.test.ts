import { SluiceError } from "@sluice/core";
import { EXTENSION_ID, errorTable } from "@sluice/core/internal";
import { createMemoryBackend, protect, type StorageBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import type { DeliveryPolicy, SluiceOptions } from "@sluice/server";
import { alice, bodyOf, createHouse, endpoint, headerOf } from "./redeeming.ts";
import { declares, eras, talkTo, type TalkOptions } from "./talking.ts";

const open: Partial<SluiceOptions> = { principal: () => alice };
const uri = "files://demo/a.bin";
const bySize: DeliveryPolicy = ({ info }) => (info.size! > 5 ? "downloadUrl" : "direct");

/** Memory with a service that signs URLs. */
function presigning(
  url: string | undefined,
  content: Record<string, string> = { "a.bin": "x" },
): StorageBackend {
  return {
    ...createMemoryBackend(content),
    presign: async () => (url === undefined ? undefined : { url, expiresAt: Date.now() }),
  };
}

describe.each(eras)("%s era", (era) => {
  const stream = (options: Partial<SluiceOptions> = {}, talk: TalkOptions = {}) => {
    const house = createHouse({ ...open, ...options } as Partial<SluiceOptions>);
    return talkTo(house.sluice)(era, "resources/stream", { params: { uri }, ...talk }).then(
      (exchange) => ({
        ...exchange,
        house,
      }),
    );
  };

  test("a client that declared nothing gets an error, whatever the delivery, and never bytes or a redirect", async () => {
    for (const delivery of ["auto", "direct", "redirect", "downloadUrl"] as const)
      for (const capabilities of [{}, { resourceStreaming: true }, { extensions: {} }]) {
        const storage = presigning("https://store.example.com/x");
        const options = { delivery, storage, redirectOrigins: ["https://store.example.com"] };
        const { slot, message } = await stream(options, { capabilities });
        expect(slot.reply).toBeUndefined();
        expect(message.error).toBeDefined();
        expect(slot.fault).toMatchObject(
          era === "modern"
            ? {
                status: 400,
                code: -32021,
                data: { reason: "client_capability", requiredCapabilities: {} },
              }
            : { status: 200, code: -32600, data: { reason: "client_capability" } },
        );
      }
  });

  test("the literal field of the draft is a declaration too", async () => {
    const { slot } = await stream({}, { capabilities: { resourceStreaming: {} } });
    expect(slot.reply?.status).toBe(200);
  });

  test("direct: the bytes with their facts and a download URL to go on from", async () => {
    const { slot, house } = await stream();
    const reply = slot.reply!;
    expect(reply.status).toBe(200);
    expect(headerOf(reply, "mcp-resource-uri")).toBe(uri);
    expect(headerOf(reply, "content-length")).toBe("10");
    expect(headerOf(reply, "accept-ranges")).toBe("bytes");
    const [, url] = /^<(.+)>; rel="stream"$/.exec(headerOf(reply, "link")!)!;
    expect(url!.startsWith(`${endpoint}/streams/v1.`)).toBe(true);
    expect(await bodyOf(reply)).toBe("0123456789");
    expect(house.records).toMatchObject([
      {
        action: "stream",
        outcome: "complete",
        bytes: 10,
        revision: era,
        mode: "direct",
        uri,
        principal: expect.any(String),
      },
    ]);
  });

  test("JSON and event streams are never direct: they could pose as an answer of the protocol", async () => {
    const types = {
      "x.json": undefined,
      y: "application/vnd.acme+json",
      z: "text/event-stream",
      "w.bin": "Application/JSON; charset=utf-8",
    };
    for (const [name, contentType] of Object.entries(types)) {
      const storage = createMemoryBackend();
      storage.put(name, "{}", contentType ? { contentType } : {});
      for (const delivery of ["auto", "direct"] as const) {
        const { slot, message } = await stream(
          { storage, delivery },
          { params: { uri: `files://demo/${name}` } },
        );
        expect(slot.reply).toBeUndefined();
        expect(message.result.downloadUrl).toMatch(/\/streams\//);
      }
    }
  });

  test("download URL: facts, expiry and binding beside the URL", async () => {
    const { message, house } = await stream({ delivery: "downloadUrl", cacheTtlMs: 5_000 });
    const { result } = message;
    expect(result).toMatchObject({ uri, mimeType: "application/octet-stream", size: 10 });
    const meta = result._meta[EXTENSION_ID];
    expect(meta).toMatchObject({
      auth: "bound",
      name: "a.bin",
      ttlMs: 5_000,
      etag: expect.stringMatching(/^".+"$/),
    });
    const leftMs = Date.parse(meta.expiresAt) - Date.now();
    expect(leftMs > 290_000 && leftMs <= 300_000).toBe(true);
    expect(house.records).toMatchObject([{ outcome: "issued", mode: "downloadUrl", bytes: 0 }]);
  });

  test("redirect: only where storage signs, and only to an allowed origin; else a download URL", async () => {
    const good = "https://store.example.com/a.bin?signature=%20x";
    const redirectOrigins = ["https://store.example.com"];
    const { slot, house } = await stream({ storage: presigning(good), redirectOrigins });
    expect([slot.reply!.status, headerOf(slot.reply!, "location")]).toEqual([302, good]);
    expect(headerOf(slot.reply!, "mcp-resource-uri")).toBe(uri);
    expect(headerOf(slot.reply!, "mcp-resource-type")).toBe("application/octet-stream");
    expect(headerOf(slot.reply!, "mcp-resource-size")).toBe("1");
    expect(headerOf(slot.reply!, "cache-control")).toBe("no-store");
    expect(JSON.stringify(house.records)).not.toContain("signature");
    for (const url of [
      undefined,
      "https://evil.example.com/a.bin",
      "https://store.example.com.evil.example/a.bin",
      "https://store.example.com:8443/a.bin",
      "http://store.example.com/a.bin",
      "https://user@store.example.com/a.bin",
      "https://store.example.com/a\r\nset-cookie: x",
      "javascript:alert(1)",
      "not a url",
    ]) {
      const other = await stream({
        storage: presigning(url),
        redirectOrigins,
        delivery: "redirect",
      });
      expect(other.slot.reply).toBeUndefined();
      expect(other.message.result.downloadUrl).toBeDefined();
    }
  });

  test("redirect: storage that cannot set response headers signs a URL without them", async () => {
    const storage: StorageBackend = {
      ...createMemoryBackend({ "a.bin": "x" }),
      presign: async (_key, { contentType, contentDisposition }) =>
        contentType === undefined && contentDisposition === undefined
          ? { url: "https://store.example.com/plain", expiresAt: Date.now() }
          : undefined,
    };
    const redirectOrigins = ["https://store.example.com"];
    const { slot } = await stream({ storage, redirectOrigins });
    expect(headerOf(slot.reply!, "location")).toBe("https://store.example.com/plain");
  });

  test("a preference of the client decides under auto, the server's choice otherwise", async () => {
    const capabilities = declares({ prefer: ["downloadUrl", "nonsense"] });
    expect((await stream({}, { capabilities })).message.result.downloadUrl).toBeDefined();
    expect((await stream({ delivery: "direct" }, { capabilities })).slot.reply?.status).toBe(200);
    expect((await stream({ delivery: bySize })).message.result.downloadUrl).toBeDefined();
  });

  test("content that became JSON after it was described is not streamed directly", async () => {
    const memory = createMemoryBackend({ "a.bin": "x" });
    const storage: StorageBackend = {
      ...memory,
      open(key, options) {
        memory.put(key, '{"jsonrpc":"2.0","id":1}', { contentType: "application/json" });
        return memory.open(key, options);
      },
    };
    const limits = { streams: { perProcess: 1 } };
    const { slot, message, house } = await stream({ storage, delivery: "direct", limits });
    expect(slot.reply).toBeUndefined();
    expect(message.result.downloadUrl).toBeDefined();
    const again = await talkTo(house.sluice)(era, "resources/stream", { params: { uri } });
    // the permit was released
    expect(again.message.result.downloadUrl).toBeDefined();
  });

  test("without a response to replace, the answer is a download URL", async () => {
    const { message } = await stream({ delivery: "direct" }, { hasSlot: false });
    expect(message.result.downloadUrl).toBeDefined();
  });

  test("a resource larger than the client takes is too_large; an exact fit is not; nonsense is invalid", async () => {
    const large = await stream({}, { capabilities: declares({ maxStreamSize: 9 }) });
    expect(large.slot.fault).toMatchObject({
      code: era === "modern" ? -25324 : -32004,
      data: { reason: "too_large" },
    });
    expect(
      (await stream({}, { capabilities: declares({ maxStreamSize: 10 }) })).slot.reply?.status,
    ).toBe(200);
    for (const maxStreamSize of ["10", -1, null])
      expect(
        (await stream({}, { capabilities: declares({ maxStreamSize }) })).slot.fault?.data.reason,
      ).toBe("invalid");
  });

  test("a resource that has grown since it was described is too_large, and its body is released", async () => {
    const store = createMemoryBackend({ "a.bin": "0123456789" });
    let cancelled = 0;
    const storage: StorageBackend = {
      ...store,
      describe: async (key) => ({ key, size: 9, etag: "v1" }),
      open: async (key) => ({
        info: { key, size: 10, etag: "v2" },
        body: new ReadableStream<Uint8Array>({ cancel: () => void cancelled++ }),
      }),
    };
    const capabilities = declares({ maxStreamSize: 9 });
    const { slot } = await stream({ storage, delivery: "direct" }, { capabilities });
    expect([slot.reply, slot.fault?.data.reason]).toEqual([undefined, "too_large"]);
    expect(cancelled).toBe(1);
  });

  test.each<[string, StorageBackend["presignOrigins"] | undefined, boolean]>([
    ["names", async () => ["https://other.example", "https://store.example.com"], true],
    ["does not name", async () => ["https://other.example"], false],
    ["does not know", undefined, false],
  ])(
    'redirectOrigins "storage" leads to the origins that the storage names: one that it %s',
    async (_, presignOrigins, isRedirect) => {
      const plain = presigning("https://store.example.com/x");
      const storage = presignOrigins ? { ...plain, presignOrigins } : plain;
      const options = { delivery: "redirect", redirectOrigins: "storage" } as const;
      for (const hooks of [{}, { describe: () => ({}) }]) {
        const given = { ...options, ...hooks, storage };
        const { slot, message } = await stream(given);
        expect(slot.reply?.status).toBe(isRedirect ? 302 : undefined);
        expect(message.result?.downloadUrl !== undefined).toBe(!isRedirect);
        const perPrincipal = await stream({ ...given, storage: () => storage });
        expect(perPrincipal.slot.reply?.status).toBe(isRedirect ? 302 : undefined);
      }
    },
  );

  test("a resource that has changed since it was described has the type of its new bytes", async () => {
    const storage = createMemoryBackend({ notes: "some text" });
    const delivery = (): "direct" => {
      storage.put("notes", new Uint8Array([0, 1, 2, 255]));
      return "direct";
    };
    const options = { params: { uri: "files://demo/notes" } };
    const { slot } = await stream({ storage, delivery }, options);
    expect(headerOf(slot.reply!, "content-type")).toBe("application/octet-stream");
  });

  test("each fault has the number of its era, its reason, and nothing of its cause", async () => {
    const secret = "/srv/secret";
    const cases = {
      not_found: ["not_found", "permission_denied"],
      stream_unsupported: ["unsupported"],
      busy: ["throttled", "unavailable", "timeout", "unauthenticated"],
      internal: ["internal", "corrupt"],
    } as const;
    for (const reason of Object.keys(cases) as (keyof typeof cases)[])
      for (const code of cases[reason]) {
        const storage = createMemoryBackend();
        storage.describe = () =>
          Promise.reject(new SluiceError(code, `fs: ${secret}`, { retryAfterMs: 1 }));
        const { slot } = await stream({ storage: protect(storage, { maxAttempts: 1 }) });
        const row = errorTable[reason];
        expect([slot.fault!.code, slot.fault!.data.reason]).toEqual([row[era], reason]);
        expect(JSON.stringify(slot.fault)).not.toContain(secret);
      }
  });

  test("foreign and malformed URIs are refused before storage is asked", async () => {
    const storage = createMemoryBackend();
    let asked = 0;
    storage.describe = () => Promise.reject(new Error(`asked ${++asked} times`));
    for (const bad of [
      "",
      "other://x",
      "files://demo/",
      "files://demo/../x",
      "files://demo/a%2f..%2fb",
      "files://demo/a//b",
      "files://demo/%00",
      "files://demo/a?b",
      "files://demo/\u0000",
      "files://demo.evil/a",
    ]) {
      const { slot } = await stream(
        { storage },
        { params: { uri: bad }, headers: { "mcp-name": encodeURI(bad) || "-" } },
      );
      // a URI that no header can carry is already refused by the SDK
      expect(["not_found", "invalid", undefined]).toContain(slot.fault?.data.reason);
      expect(slot.reply).toBeUndefined();
    }
    expect(asked).toBe(0);
  });

  test("deny admits that the resource exists, with 403; hide does not", async () => {
    const deny = await stream({ access: () => "deny" });
    expect(deny.slot.fault).toMatchObject({
      status: 403,
      challenge: "Bearer",
      data: { reason: "forbidden" },
    });
    const hide = await stream({ access: () => "hide" });
    const gone = await stream({}, { params: { uri: "files://demo/gone.bin" } });
    expect(JSON.stringify(hide.slot.fault).replace("a.bin", "gone.bin")).toBe(
      JSON.stringify(gone.slot.fault),
    );
  });

  test("a caller unknown to the resolver gets 401, and a resolver that throws lets nobody in", async () => {
    const unknown = await stream({ principal: () => undefined });
    expect(unknown.slot.fault).toMatchObject({ status: 401, challenge: "Bearer" });
    const broken = await stream({
      principal: () => {
        throw new Error("directory down");
      },
    });
    expect(broken.slot.fault).toMatchObject({ data: { reason: "internal" } });
    expect(broken.house.errors).toHaveLength(1);
  });
});

test("the anonymous get bytes from an open server, and URLs only where that is allowed", async () => {
  const base = { principal: undefined as never, delivery: "auto" as const };
  const ask = async (options: Partial<SluiceOptions>, talk: TalkOptions = {}) => {
    const { principal: _none, ...rest } = { ...base, ...options };
    const { sluice } = createHouse({ principal: undefined as never, ...rest });
    return talkTo(sluice)("modern", "resources/stream", { params: { uri }, ...talk });
  };
  const guarded = { endpoint: "http://127.0.0.1:1/mcp", anonymous: false };
  await expect(ask({})).rejects.toThrow(/public.*pass principal/);
  const direct = await ask(guarded);
  expect([direct.slot.reply!.status, headerOf(direct.slot.reply!, "link")]).toEqual([
    200,
    undefined,
  ]);
  expect((await ask({ ...guarded, delivery: "downloadUrl" })).slot.fault?.status).toBe(401);
  const allowed = await ask({ delivery: "downloadUrl", anonymous: true });
  expect(allowed.message.result._meta[EXTENSION_ID].auth).toBe("self");
  const local = await ask({ delivery: "downloadUrl", endpoint: "http://127.0.0.1:1/mcp" });
  expect(local.message.result._meta[EXTENSION_ID].auth).toBe("self");
  const bearer = await ask(
    { ...guarded, delivery: "downloadUrl" },
    { headers: { authorization: "Bearer abc" } },
  );
  expect(bearer.message.result._meta[EXTENSION_ID].auth).toBe("bound");
});

test("a delivery that does not exist is refused, from an option when the server starts and from a function when it answers", async () => {
  const delivery = "redirct" as DeliveryPolicy;
  expect(() => createHouse({ ...open, delivery })).toThrow(/delivery must be "auto", "direct"/);
  const errors: unknown[] = [];
  const house = createHouse({
    ...open,
    delivery: (() => undefined) as unknown as DeliveryPolicy,
    onError: (error) => errors.push(error),
  });
  const { message } = await talkTo(house.sluice)("modern", "resources/stream", { params: { uri } });
  expect(message.error).toMatchObject({ code: -32603 });
  expect(errors.map(String)).toEqual([expect.stringMatching(/it is undefined/)]);
});

test("redirect origins are exact origins", () => {
  const build = (origin: string) => createHouse({ ...open, redirectOrigins: [origin] });
  build("https://store.example.com");
  for (const origin of ["https://store.example.com/", "https://store.example.com/x", "store", ""])
    expect(() => build(origin), origin).toThrow(/exact origins/);
});

test("redirects that can never happen are warned about", () => {
  const warningsOf = (options: Partial<SluiceOptions>): string[] => {
    const warnings: string[] = [];
    createHouse({
      ...open,
      ...options,
      onWarning: (warning) => warnings.push(warning),
    } as Partial<SluiceOptions>);
    return warnings.filter((warning) => warning.startsWith("delivery"));
  };
  const redirectOrigins = ["https://store.example.com"];
  const storage = presigning("https://store.example.com/x");
  expect(warningsOf({ delivery: "redirect", storage })).toEqual([
    expect.stringContaining("redirectOrigins is empty"),
  ]);
  expect(warningsOf({ delivery: "redirect", redirectOrigins })).toEqual([
    expect.stringContaining("signs no URLs"),
  ]);
  expect(warningsOf({ delivery: "redirect", redirectOrigins, storage })).toEqual([]);
  expect(warningsOf({ delivery: "redirect", redirectOrigins: "storage", storage })).toEqual([
    expect.stringContaining("does not know the origins of its URLs"),
  ]);
  const knowing = { ...storage, presignOrigins: async () => redirectOrigins };
  for (const known of [knowing, () => storage])
    expect(
      warningsOf({ delivery: "redirect", redirectOrigins: "storage", storage: known }),
    ).toEqual([]);
  expect(warningsOf({ delivery: "auto" })).toEqual([]);
});

test("access rules without a principal resolver are warned about: any bearer token is somebody then", () => {
  const warnings: string[] = [];
  const onWarning = (message: string): void => void warnings.push(message);
  createHouse({ onWarning, access: () => "allow" });
  expect(warnings).toEqual([]);
  createHouse({ onWarning, access: () => "allow", principal: undefined as never, anonymous: true });
  expect(warnings).toEqual([expect.stringContaining("access rules without a principal resolver")]);
});

test("links that are to live for more than 5 minutes, without a principal resolver, are warned about", () => {
  const warningsOf = (options: object): readonly string[] => {
    const warnings: string[] = [];
    createHouse({ onWarning: (message) => void warnings.push(message), ...options });
    return warnings;
  };
  const anybody = { principal: undefined as never, anonymous: true };
  expect(warningsOf({ links: { ttlMs: 900_000 } })).toEqual([]);
  expect(warningsOf({ ...anybody, links: {} })).toEqual([]);
  expect(warningsOf({ ...anybody, links: { ttlMs: 300_000 } })).toEqual([]);
  for (const links of [{ ttlMs: 300_001 }, { maxTtlMs: 600_000 }])
    expect(warningsOf({ ...anybody, links })).toEqual([
      expect.stringContaining("links without a principal resolver"),
    ]);
});
