import { ContainerClient } from "@azure/storage-blob";
import { checkBackend } from "@sluice/storage/conformance";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { sharedAzurite, startMs } from "./azurite.ts";
import { refuse } from "./http-service.ts";
import { type ScriptedService, startScriptedService } from "./scripted-service.ts";
import { createTokenClient } from "./token-client.ts";

const minute = 60_000;
const day = 24 * 60 * minute;

/** How the service asks for a token, with the tenant to get it from. */
const challenge =
  "Bearer authorization_uri=https://login.microsoftonline.com/72f988bf-86f1-41af-91ab-2d7cd011db47/oauth2/authorize resource_id=https://storage.azure.com";

const paramsOf = (url: string) => Object.fromEntries(new URL(url).searchParams);

describe("with the account key", { timeout: startMs }, () => {
  test(
    "a URL reads one blob, from a quarter of an hour ago on, and does nothing else",
    { tags: "slow" },
    async () => {
      const container = await (await sharedAzurite()).createContainer();
      const backend = createAzureBlobBackend({ client: container });
      const { url, expiresAt } = (await backend.presign!("a.txt", { expiresInMs: 5 * minute }))!;
      const { sr, sp, st = "", se = "" } = paramsOf(url);
      expect([sr, sp]).toEqual(["b", "r"]);
      expect(Date.now() - Date.parse(st)).toBeGreaterThan(14 * minute);
      expect(Date.parse(se)).toBe(expiresAt);
      expect(expiresAt - Date.now()).toBeLessThanOrEqual(5 * minute);
      await container.delete();
    },
  );

  test("a URL over HTTPS is only for HTTPS", async () => {
    const { credential } = await (await sharedAzurite()).createContainer();
    const url = "https://account.blob.core.windows.net/docs";
    const backend = createAzureBlobBackend({ url, credential });
    const presigned = (await backend.presign!("a", { expiresInMs: minute }))!;
    expect(paramsOf(presigned.url)["spr"]).toBe("https");
    expect(await backend.presignOrigins!()).toEqual([new URL(presigned.url).origin]);
  });

  test("a SAS cannot sign, so there is no presign", () => {
    const url = "https://account.blob.core.windows.net/docs?sp=r&sig=eA%3D%3D";
    expect(createAzureBlobBackend({ url })).not.toHaveProperty("presign");
    expect(createAzureBlobBackend({ url })).not.toHaveProperty("presignOrigins");
    expect(createAzureBlobBackend({ client: new ContainerClient(url) })).not.toHaveProperty(
      "presign",
    );
  });
});

describe("with a token", () => {
  let service: ScriptedService;
  let client: ContainerClient;
  let keys: { readonly start: string; readonly expiry: string }[];
  let keyLifeMs: number | undefined;
  let refusals: number;
  beforeEach(async () => {
    keys = [];
    keyLifeMs = undefined;
    refusals = 0;
    service = await startScriptedService(async (request, response) => {
      if (!request.url?.includes("comp=userdelegationkey")) {
        if (refusals-- > 0)
          return refuse(request, response, 401, "InvalidAuthenticationInfo", {
            "www-authenticate": challenge,
          });
        return void response.writeHead(200, { "content-length": 1, etag: '"0x1"' }).end();
      }
      if (refusals > 0) return refuse(request, response, 403, "AuthorizationPermissionMismatch");
      let xml = "";
      for await (const part of request) xml += String(part);
      const [, start = ""] = /<Start>(.+?)<\/Start>/.exec(xml) ?? [];
      const [, asked = ""] = /<Expiry>(.+?)<\/Expiry>/.exec(xml) ?? [];
      const expiry =
        keyLifeMs === undefined
          ? asked
          : `${new Date(Date.now() + keyLifeMs).toISOString().slice(0, 19)}Z`;
      keys.push({ start, expiry: asked });
      response.setHeader("content-type", "application/xml");
      response.end(
        `<UserDelegationKey><SignedOid>oid</SignedOid><SignedTid>tid</SignedTid><SignedStart>${start}</SignedStart>` +
          `<SignedExpiry>${expiry}</SignedExpiry><SignedService>b</SignedService><SignedVersion>2026-04-06</SignedVersion>` +
          `<Value>${Buffer.alloc(32, keys.length).toString("base64")}</Value></UserDelegationKey>`,
      );
    });
    client = createTokenClient(service);
  });
  afterEach(async () => {
    vi.useRealTimers();
    await service[Symbol.asyncDispose]();
  });

  test("URLs are signed with one delegation key, fetched once for all waiting callers", async () => {
    const backend = createAzureBlobBackend({ client });
    const urls = await Promise.all(
      ["a", "b", "c"].map(
        async (key) => (await backend.presign!(key, { expiresInMs: minute }))!.url,
      ),
    );
    expect(keys).toHaveLength(1);
    for (const url of urls)
      expect(paramsOf(url)).toMatchObject({
        skoid: "oid",
        sktid: "tid",
        sks: "b",
        sp: "r",
        sr: "b",
      });
  });

  test("the key is asked for with the longest life, from a quarter of an hour ago on", async () => {
    const backend = createAzureBlobBackend({ client });
    const before = Date.now();
    const { url } = (await backend.presign!("a", { expiresInMs: minute }))!;
    const { start = "", expiry = "" } = keys[0] ?? {};
    expect(Date.parse(expiry) - Date.parse(start)).toBe(7 * day);
    expect(before - Date.parse(start)).toBeGreaterThan(14 * minute);
    expect(Date.parse(paramsOf(url)["st"]!)).toBeGreaterThanOrEqual(Date.parse(start));
  });

  test("a URL expires no later than its key", async () => {
    keyLifeMs = 10 * minute;
    const backend = createAzureBlobBackend({ client });
    const { url, expiresAt } = (await backend.presign!("a", { expiresInMs: 60 * minute }))!;
    expect(expiresAt).toBeLessThanOrEqual(Date.now() + 10 * minute);
    expect(paramsOf(url)["se"]).toBe(paramsOf(url)["ske"]);
  });

  test("a longer life than a key can have is cut to 7 days", async () => {
    const backend = createAzureBlobBackend({ client });
    const { expiresAt } = (await backend.presign!("a", { expiresInMs: 30 * day }))!;
    expect(expiresAt - Date.now()).toBeLessThanOrEqual(7 * day);
    expect(expiresAt - Date.now()).toBeGreaterThan(6 * day);
  });

  test("a new key comes after half of the life of the last one, and when that is short", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const backend = createAzureBlobBackend({ client });
    const sign = () => backend.presign!("a", { expiresInMs: minute });
    for (const [passedMs, count] of [
      [0, 1],
      [3 * day, 1],
      [day, 2],
      [day, 2],
    ] as const) {
      vi.setSystemTime(Date.now() + passedMs);
      await sign();
      expect(keys).toHaveLength(count);
    }
    keyLifeMs = 10 * minute;
    vi.setSystemTime(Date.now() + 5 * day);
    await sign();
    vi.setSystemTime(Date.now() + 6 * minute);
    const { expiresAt } = (await sign())!;
    expect(keys).toHaveLength(4);
    expect(expiresAt).toBeGreaterThan(Date.now());
  });

  test("the last key signs for as long as it is valid if no new one can be had", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const backend = createAzureBlobBackend({ client });
    const sign = () => backend.presign!("a", { expiresInMs: minute });
    await sign();
    refusals = 1;
    for (const passedMs of [4 * day, minute / 2]) {
      vi.setSystemTime(Date.now() + passedMs);
      const { url, expiresAt } = (await sign())!;
      expect(paramsOf(url)["ske"]).toBe(`${keys[0]?.expiry.slice(0, 19)}Z`);
      expect(expiresAt).toBeGreaterThan(Date.now());
    }
    expect(service.requests).toHaveLength(2);
    vi.setSystemTime(Date.now() + 3 * day);
    await expect(sign()).rejects.toMatchObject({ code: "unauthenticated" });
    refusals = 0;
    await sign();
    expect(keys).toHaveLength(2);
  });

  test("a caller that may not get a key learns which role is missing, and asks again the next time", async () => {
    const backend = createAzureBlobBackend({ client });
    refusals = 1;
    await expect(backend.presign!("a", { expiresInMs: minute })).rejects.toMatchObject({
      code: "unauthenticated",
      message: expect.stringContaining('"Storage Blob Delegator"') as string,
    });
    refusals = 0;
    expect(await backend.presign!("a", { expiresInMs: minute })).toBeDefined();
  });

  test("an abort of one caller leaves the key to the others", async () => {
    const backend = createAzureBlobBackend({ client });
    const caller = new AbortController();
    const first = backend.presign!("a", { expiresInMs: minute, signal: caller.signal });
    const second = backend.presign!("b", { expiresInMs: minute });
    const reason = new Error("the caller's reason");
    caller.abort(reason);
    await expect(first).rejects.toBe(reason);
    expect(await second).toBeDefined();
    expect(keys).toHaveLength(1);
  });

  test("a token that is refused is renewed once: the kit's rule about credentials", async () => {
    const findings = await checkBackend(
      () => ({
        backend: createAzureBlobBackend({ client }),
        put: async () => {},
        remove: async () => {},
        faults: { expireCredentials: (times) => void (refusals = times) },
      }),
      { only: ["failure-credentials"] },
    );
    expect(findings).toMatchObject([{ outcome: "kept" }]);
  });
});
