import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { inspect } from "node:util";
import { ContainerClient, newPipeline, StorageSharedKeyCredential } from "@azure/storage-blob";
import { SluiceError } from "@sluice/core";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { describe, expect, test } from "vitest";
import { account, key as accountKey } from "./azurite.ts";
import { refuse } from "./http-service.ts";
import { startScriptedService } from "./scripted-service.ts";

const failure = async (call: Promise<unknown>): Promise<SluiceError> => {
  const error: unknown = await call.then(
    () => expect.unreachable("it resolved"),
    (reason: unknown) => reason,
  );
  if (!SluiceError.is(error)) throw error;
  return error;
};

const backendOf = (container: ContainerClient) => createAzureBlobBackend({ client: container });

const throttled = (status: number, retryAfter: string) =>
  startScriptedService((request, response) =>
    refuse(request, response, status, undefined, { "retry-after": retryAfter }),
  );

describe("errors of the service", () => {
  test.each([
    [404, "BlobNotFound", "not_found"],
    [404, "ContainerNotFound", "not_found"],
    [403, "AuthorizationPermissionMismatch", "permission_denied"],
    [403, "AuthenticationFailed", "unauthenticated"],
    [401, "NoAuthenticationInformation", "unauthenticated"],
    [400, "InvalidAuthenticationInfo", "unauthenticated"],
    [400, "InvalidResourceName", "invalid_argument"],
    [400, "InvalidUri", "invalid_argument"],
    [400, "InvalidBlobOrBlock", "unsupported"],
    [409, "BlobArchived", "unsupported"],
    [409, "BlobAlreadyExists", "precondition_failed"],
    [409, "ContainerBeingDeleted", "unavailable"],
    [409, "LeaseAlreadyPresent", "unsupported"],
    [412, "ConditionNotMet", "precondition_failed"],
    [412, "LeaseIdMissing", "unsupported"],
    [412, "LeaseLost", "unsupported"],
    [400, "Md5Mismatch", "corrupt"],
    [400, "Crc64Mismatch", "corrupt"],
    [400, "InvalidBlockList", "precondition_failed"],
    [413, "RequestBodyTooLarge", "too_large"],
    [429, undefined, "throttled"],
    [507, undefined, "no_space"],
    [503, "ServerBusy", "throttled"],
    [503, undefined, "unavailable"],
    [500, "OperationTimedOut", "unavailable"],
    [500, "InternalError", "unavailable"],
    [502, undefined, "unavailable"],
    [404, "constructor", "not_found"],
  ])("%i %s is %s, with and without a body", async (status, code, expected) => {
    await using service = await startScriptedService((request, response) =>
      refuse(request, response, status, code),
    );
    const backend = createAzureBlobBackend({ client: service.container });
    // a response to HEAD has no body, so its code is in a header only
    for (const call of [() => backend.describe("x"), () => backend.open("x"), () => backend.list()])
      expect((await failure(call())).code).toBe(expected);
  });

  test("a service that does not answer is unavailable", async () => {
    const service = await startScriptedService(() => {});
    const { container } = service;
    await service[Symbol.asyncDispose]();
    const error = await failure(createAzureBlobBackend({ client: container }).describe("x"));
    expect([error.code, error.message]).toEqual([
      "unavailable",
      'azure-blob: describe "x": the service could not be reached (ECONNREFUSED)',
    ]);
  });
});

describe("throttling", () => {
  test.each([429, 503])("%i with seconds is reported at once, and asked once", async (status) => {
    await using service = await throttled(status, "120");
    const error = await failure(backendOf(service.container).open("x"));
    expect([error.code, error.retryAfterMs]).toEqual(["throttled", 120_000]);
    expect(service.requests).toHaveLength(1);
  });

  test.each([429, 503])("%i with a date is reported as well", async (status) => {
    await using service = await throttled(status, new Date(Date.now() + 60_000).toUTCString());
    const { code, retryAfterMs = 0 } = await failure(backendOf(service.container).describe("x"));
    expect(code).toBe("throttled");
    expect(retryAfterMs).toBeGreaterThan(50_000);
    expect(retryAfterMs).toBeLessThanOrEqual(60_000);
  });

  test("a client that came with retries has none here, and keeps its transport", async () => {
    await using service = await throttled(503, "1");
    const agents: (string | null | undefined)[] = [];
    await using watched = await startScriptedService((request, response) => {
      agents.push(request.headers["user-agent"]);
      refuse(request, response, 503, "ServerBusy");
    });
    const { credential } = service.container;
    const client = new ContainerClient(
      watched.container.url,
      newPipeline(credential, {
        retryOptions: { maxTries: 5, retryDelayInMs: 1 },
        userAgentOptions: { userAgentPrefix: "contoso" },
      }),
    );
    await client.getProperties().catch(() => {});
    const withRetries = agents.splice(0);
    expect(withRetries).toHaveLength(5);
    await failure(backendOf(client).describe("x"));
    expect(agents).toHaveLength(1);
    expect(agents[0]).toMatch(/^contoso /);
  });
});

/** Resolves after this many turns of the queue of microtasks. */
const passTicks = async (ticks: number): Promise<void> => {
  for (let tick = 0; tick < ticks; tick++) await Promise.resolve();
};

describe("aborts", () => {
  const reason = new Error("the caller's reason");

  test.each(["describe", "open", "list", "write"] as const)(
    "%s ends with the reason while the service is silent, and the connection is let go",
    async (operation) => {
      await using service = await startScriptedService(() => {});
      const backend = createAzureBlobBackend({ client: service.container, writable: true });
      const caller = new AbortController();
      const { signal } = caller;
      const call = {
        describe: () => backend.describe("x", { signal }),
        open: () => backend.open("x", { signal }),
        list: () => backend.list({ signal }),
        write: () => backend.write("x", { ifAbsent: true, signal }),
      }[operation]();
      await expect.poll(() => service.countOpen()).toBe(1);
      caller.abort(reason);
      await expect(call).rejects.toBe(reason);
      await expect.poll(() => service.countOpen()).toBe(0);
    },
  );

  test("a credential that ignores signals delays no call", async () => {
    const client = new ContainerClient("https://account.blob.core.windows.net/docs", {
      getToken: () => new Promise<null>(() => {}),
    });
    const backend = createAzureBlobBackend({ client });
    for (const call of [
      (signal: AbortSignal) => backend.describe("x", { signal }),
      (signal: AbortSignal) => backend.presign!("x", { expiresInMs: 1000, signal }),
    ]) {
      const caller = new AbortController();
      const calling = call(caller.signal);
      caller.abort(reason);
      await expect(calling).rejects.toBe(reason);
    }
  });

  test("an abort while the SDK takes in an answer leaves no unhandled error", async () => {
    await using service = await startScriptedService((_, response) => {
      response.writeHead(200, { "content-length": 1e9, etag: '"0x1"' });
      response.write(Buffer.alloc(100_000));
    });
    const backend = createAzureBlobBackend({ client: service.container });
    const uncaught: unknown[] = [];
    const onUncaught = (error: unknown): void => void uncaught.push(error);
    process.on("uncaughtException", onUncaught);
    for (let ticks = 0; ticks < 40; ticks += 5) {
      const caller = new AbortController();
      const onAnswer = (): void => {
        unsubscribe("http.client.response.finish", onAnswer);
        void passTicks(ticks).then(() => caller.abort(reason));
      };
      subscribe("http.client.response.finish", onAnswer);
      const reading = backend
        .open("x", { signal: caller.signal })
        .then(({ body }) => new Response(body).text());
      await expect(reading).rejects.toBe(reason);
      await expect.poll(() => service.countOpen()).toBe(0);
    }
    process.off("uncaughtException", onUncaught);
    expect(uncaught).toEqual([]);
  });

  test("a cancelled body closes the connection, so that no more bytes come", async () => {
    await using service = await startScriptedService((_, response) => {
      response.writeHead(200, { "content-length": 1e9, etag: '"0x1"' });
      response.write(Buffer.alloc(100_000));
    });
    const backend = createAzureBlobBackend({ client: service.container });
    const { body } = await backend.open("x");
    const reader = body.getReader();
    await reader.read();
    expect(service.countOpen()).toBe(1);
    await reader.cancel();
    await expect.poll(() => service.countOpen()).toBe(0);
  });
});

describe("secrets", () => {
  const sas = "sv=2026-04-06&sp=r&sig=c2VjcmV0LXNpZ25hdHVyZQ%3D%3D";
  const secrets = [accountKey, "c2VjcmV0LXNpZ25hdHVyZQ", "sig=", "://"];
  const expectClean = (error: unknown): void => {
    // everything that a log could print of it, with all causes
    const printed = inspect(error, { depth: 10, showHidden: true });
    for (const secret of secrets) expect(printed.replaceAll("file://", "")).not.toContain(secret);
  };

  test("no key and no signature is in an error or its causes, whatever the service writes", async () => {
    await using service = await startScriptedService((request, response) => {
      const told = `The MAC signature found in the request ${request.url} is not the computed one: ${accountKey}`;
      response.writeHead(403, { "x-ms-error-code": "AuthenticationFailed" });
      response.end(`<Error><Code>AuthenticationFailed</Code><Message>${told}</Message></Error>`);
    });
    const { container } = service;
    const withSas = createAzureBlobBackend({ url: `${container.url}?${sas}`, writable: true });
    const withKey = createAzureBlobBackend({ client: container, writable: true });
    for (const backend of [withSas, withKey])
      for (const call of [
        () => backend.describe("x"),
        () => backend.open("x"),
        () => backend.open("x", { range: { start: 5 } }),
        () => backend.list(),
        async () => (await backend.write("x")).commit(),
      ])
        expectClean(await failure(call()));
    // the twin: errors of the SDK have it
    const raw = await new ContainerClient(`${container.url}?${sas}`)
      .getProperties()
      .catch((e) => e);
    expect(inspect(raw, { depth: 10, customInspect: false })).toContain("c2VjcmV0LXNpZ25hdHVyZQ");
  });

  test("no secret is in the error of a connection that fails or a body that breaks", async () => {
    const service = await startScriptedService((_, response) => {
      response.writeHead(200, { "content-length": 100, etag: '"0x1"' }).write("x");
      setImmediate(() => response.destroy());
    });
    const url = `${service.container.url}?${sas}`;
    const { body } = await createAzureBlobBackend({ url }).open("x");
    expectClean(await failure(new Response(body).text()));
    await service[Symbol.asyncDispose]();
    expectClean(await failure(createAzureBlobBackend({ url }).open("x")));
  });

  test.each([
    ["a connection string", { connectionString: `AccountKey=${accountKey}`, container: "docs" }],
    ["a container name", { connectionString: "UseDevelopmentStorage=true", container: "../x" }],
    ["a URL", { url: `//blob?${sas}` }],
    ["the URL of a blob", { url: `https://account.blob.core.windows.net/docs/a?${sas}` }],
    ["the URL of an account", { url: `https://account.blob.core.windows.net/?${sas}` }],
  ])("rejects %s if it is wrong, without repeating it", (_, options) => {
    const create = () => createAzureBlobBackend(options);
    expect(create).toThrow(expect.objectContaining({ code: "invalid_argument" }));
    try {
      create();
    } catch (error) {
      expectClean(error);
    }
  });
});

test("an account key of another copy of the SDK is refused: requests would go unsigned", () => {
  const url = "https://account.blob.core.windows.net/docs";
  const credential = new StorageSharedKeyCredential("account", accountKey);
  const foreign = Object.assign(Object.create(null) as typeof credential, credential);
  expect(createAzureBlobBackend({ url, credential })).toHaveProperty("presign");
  const refused = expect.objectContaining({ code: "invalid_argument" }) as Error;
  expect(() => createAzureBlobBackend({ url, credential: foreign })).toThrow(refused);
  const client = Object.assign(Object.create(null) as ContainerClient, {
    url,
    credential: foreign,
  });
  expect(() => createAzureBlobBackend({ client })).toThrow(refused);
});

test("a connection string is enough", async () => {
  await using service = await startScriptedService((_, response) => {
    response.writeHead(200, { "content-length": 7, etag: '"0x1"' }).end();
  });
  const connectionString = `DefaultEndpointsProtocol=http;AccountName=${account};AccountKey=${accountKey};BlobEndpoint=${service.url}/${account};`;
  const backend = createAzureBlobBackend({ connectionString, container: "docs" });
  expect((await backend.describe("x")).size).toBe(7);
  expect(service.requests).toEqual([`HEAD /${account}/docs/x`]);
  for (const prefix of ["..", "a//b", "a/../b", "a./b"])
    expect(() => createAzureBlobBackend({ connectionString, container: "docs", prefix })).toThrow(
      expect.objectContaining({ code: "invalid_argument" }),
    );
});
