// @module-tag slow
import { inspect } from "node:util";
import type { StreamOptions } from "@sluice/client";
import { SluiceError } from "@sluice/core";
import type { DeliveryMode } from "@sluice/core/internal";
import { protect, type StorageBackend } from "@sluice/storage";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { startBackendSite, token, type BackendSite } from "../bed/backend-site.ts";
import { serviceNames } from "../bed/backends.ts";
import { bytesOf } from "../bed/content.ts";
import type { Exchange } from "../bed/meddler.ts";

// each way to fail in each mode, or in one of them, another one for each service
const deep = process.env["SLUICE_DEEP"] !== undefined;
const content = bytesOf(100_000, "secret");
const modes: DeliveryMode[] = ["direct", "redirect", "downloadUrl"];

/** Ways to fail that repeat what they were asked, as services do in their error texts. */
const failures: Readonly<Record<string, (exchange: Exchange) => void>> = {
  "403 that repeats the request": (exchange) => repeat(exchange, 403),
  "404 that repeats the request": (exchange) => repeat(exchange, 404),
  "500 that repeats the request": (exchange) => repeat(exchange, 500),
  "a redirect that repeats the request": ({ request, response }) => {
    response.writeHead(307, { location: `http://127.0.0.1:1${request.url}` }).end();
  },
  "a reset before the answer": ({ response }) => void response.socket?.resetAndDestroy(),
  "a reset in the body": ({ answer, response }) => {
    response.writeHead(answer.statusCode!, answer.headers);
    response.write(content.subarray(0, 1000), () => response.socket?.resetAndDestroy());
  },
  "an answer that is none": ({ response }) => {
    response.socket?.end("HTTP/1.1 200 OK\r\ncontent-length: nonsense\r\n\r\n");
  },
};

function repeat({ request, response }: Exchange, status: number): void {
  const said = `${request.url} ${request.rawHeaders.join(" ")}`.replaceAll(/[&<>]/g, "");
  const text = `<Error><Code>Repeated</Code><Message>${said}</Message><Url>${said}</Url></Error>`;
  response.writeHead(status, `no ${status}`, {
    "content-type": "application/xml",
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
}

/** One try: a failure needs no second. */
const impatient = (backend: StorageBackend): StorageBackend =>
  protect(backend, { maxAttempts: 1, maxResumes: 1 });

/** Makes every request for content fail, and also those about objects when `alsoApi`. */
function fail(site: BackendSite, failure: (exchange: Exchange) => void, alsoApi: boolean): void {
  const { store, api } = site.service;
  const meddle = (exchange: Exchange): boolean => {
    if (!alsoApi && exchange.request.method === "HEAD") return false;
    exchange.answer.resume();
    failure(exchange);
    return true;
  };
  api.meddle = alsoApi ? meddle : () => false;
  store.meddle = meddle;
}

/** Everything that gives access: signatures, bearers, tokens in URLs, and where they stand. */
function secretsOf({ service, line }: BackendSite): Set<string> {
  const requests = [...service.store.requests, ...service.api.requests, ...line.requests];
  const found = requests.flatMap(({ url = "", headers }) => [
    ...(/[?&](?:X-Amz-\w+|sig|tempauth|signature)=/.test(url) ? [url] : []),
    ...[...url.matchAll(/[?&](?:X-Amz-Signature|sig|tempauth|signature)=([^&]+)/g)].flatMap(
      ([, secret = ""]) => [secret, decodeURIComponent(secret)],
    ),
    ...[...url.matchAll(/\/streams\/([^/?]+)/g)].map(([, secret = ""]) => secret),
    ...(headers.authorization ?? "").split(/[ ,:]|Signature=/).filter((part) => part.length > 30),
  ]);
  return new Set([...found, ...service.secrets, token]);
}

/** Which of the secrets are in what was said, with all that hangs on it. */
function leaksIn(said: readonly unknown[], secrets: ReadonlySet<string>): string[] {
  const text = said
    .map((one) => inspect(one, { depth: 12, maxStringLength: Infinity, maxArrayLength: Infinity }))
    .join("\n");
  return [...secrets].filter((secret) => text.includes(secret));
}

const printed: unknown[] = [];
beforeEach(() => {
  printed.length = 0;
  for (const method of ["log", "info", "warn", "error", "debug"] as const)
    vi.spyOn(console, method).mockImplementation((...args) => void printed.push(args));
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** Tries a download in one mode; gives the error. */
async function tryDownload(
  site: BackendSite,
  mode: DeliveryMode,
  options?: StreamOptions,
): Promise<unknown> {
  site.mode = mode;
  return site.download("plans.bin", options).then(
    () => expect.fail("it worked"),
    (error: unknown) => error,
  );
}

describe.each(serviceNames)("%s: no URL that gives access is ever said", (name) => {
  const remote = name !== "fs";
  const affected = remote ? modes : (["redirect"] as const);
  let site: BackendSite;
  beforeAll(async () => {
    site = await startBackendSite(name, { storage: impatient });
    await site.service.put("plans.bin", content);
  });
  afterAll(() => site[Symbol.asyncDispose]());

  function expectNoLeak(errors: readonly unknown[]): void {
    const secrets = secretsOf(site);
    expect(secrets.size).toBeGreaterThan(remote ? 4 : 2);
    expect(leaksIn([...errors, ...site.said, ...printed], secrets)).toEqual([]);
    expect(errors.filter((error) => !SluiceError.is(error))).toEqual([]);
    site.said.length = 0;
  }

  test.each(Object.keys(failures).map((what, n) => [what, n] as const))("%s", async (what, n) => {
    const failure = failures[what]!;
    const errors: unknown[] = [];
    const turn = n + serviceNames.indexOf(name);
    for (const mode of deep ? affected : [affected[turn % affected.length]!]) {
      fail(site, failure, false);
      errors.push(await tryDownload(site, mode));
    }
    if (remote) {
      fail(site, failure, true);
      errors.push(await tryDownload(site, "direct"));
    }
    expectNoLeak(errors);
  });

  test("a client that does not trust the storage, and a storage that is gone", async () => {
    site.service.api.meddle = site.service.store.meddle = () => false;
    const errors = [await tryDownload(site, "redirect", { trustedOrigins: [] })];
    await site.service.store.close();
    for (const mode of affected) errors.push(await tryDownload(site, mode));
    expectNoLeak(errors);
  });
});

test("negative control: a backend that puts the URL into its errors is detected", async () => {
  await using site = await startBackendSite("s3", {
    storage: (backend) => ({
      ...backend,
      async open(key) {
        const { url } = (await backend.presign!(key, { expiresInMs: 60_000 }))!;
        await (await fetch(url)).body?.cancel();
        throw new Error("broken", { cause: new Error(`GET ${url}`) });
      },
    }),
  });
  await site.service.put("plans.bin", content);
  await tryDownload(site, "direct");
  expect(leaksIn(site.said, secretsOf(site))).not.toEqual([]);
});
