import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatKey, generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test, vi } from "vitest";
import { talkTo } from "./talking.ts";

const storage = createMemoryBackend({ "report.pdf": "%PDF" });
const keys = formatKey(generateKey());
const base = {
  storage,
  baseUri: "files://acme/",
  endpoint: "https://mcp.example.com/mcp",
  keys,
  anonymous: true,
  onWarning: () => {},
};
const params = { uri: "files://acme/report.pdf" };

test("the page rule of the README", async () => {
  const directory = {
    mayRead: async (_: unknown, uris: readonly string[]) => uris.map(() => true),
  };
  // #region page
  const sluice = createSluice({
    ...base,
    access: async (principal, uri) =>
      (await directory.mayRead(principal, [uri]))[0] ? "allow" : "hide",
    accessPage: async (principal, uris) =>
      (await directory.mayRead(principal, uris)).map((may) => (may ? "allow" : "hide")),
  });
  // #endregion
  const { message } = await talkTo(sluice)("modern", "resources/list");
  expect(message.result.resources).toHaveLength(1);
});

test("the limits of the README", async () => {
  // #region limits
  const { RateLimiterMemory } = await import("rate-limiter-flexible");

  const sluice = createSluice({
    ...base,
    limits: { streams: { perPrincipal: 4 } },
    rates: {
      requests: {
        perPrincipal: new RateLimiterMemory({ points: 120, duration: 60 }),
        global: new RateLimiterMemory({ points: 5_000, duration: 60 }),
      },
      bytes: { perPrincipal: new RateLimiterMemory({ points: 50 * 2 ** 30, duration: 86_400 }) },
    },
  });
  // #endregion
  const { message } = await talkTo(sluice)("legacy", "resources/read", { params });
  expect(message.error).toBeUndefined();
});

test("the revocations of the README", async () => {
  const sluice = createSluice({ ...base, grant: { use: "window" } });
  const identity = { mayMint: true, maxTtlMs: 60_000 };
  const minted = async () => (await sluice.host.mint(identity, "report.pdf", undefined))!;
  const get = async (token: string) =>
    (await sluice.host.redeem({ method: "HEAD", token, header: () => undefined })).status;
  const [leaked, other] = [await minted(), await minted()];
  const leakedUrl = leaked.url;
  const record = { grant: other.id };
  expect([await get(leaked.token), await get(other.token)]).toEqual([200, 200]);
  // #region revoke
  await sluice.revoke({ token: leakedUrl.split("/").at(-1)! });
  await sluice.revoke({ grant: record.grant }); // the id in an audit record
  await sluice.revoke({
    principal: { issuer: "https://id.example.com", subject: "mallory", clientId: "desktop" },
  });
  await sluice.revoke({ resource: "files://acme/report.pdf" });
  // #endregion
  expect([await get(leaked.token), await get(other.token)]).toEqual([404, 404]);
});

test("the audit file of the README", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-audit-"));
  vi.stubEnv("XDG_STATE_HOME", folder);
  // #region audit
  const { openAuditFile, verifyAuditFiles } = await import("@sluice/server/node");

  const trail = await openAuditFile({ name: "files.example.com" });
  const sluice = createSluice({ ...base, audit: trail });
  // #endregion
  const { message } = await talkTo(sluice)("modern", "resources/read", { params });
  expect(message.error).toBeUndefined();
  await trail.close();
  vi.unstubAllEnvs();
  expect(trail.path).toBe(join(folder, "sluice", "audit", "files.example.com.log"));
  expect(await verifyAuditFiles([trail.path])).toMatchObject({ lines: 3, findings: [] });
  await rm(folder, { recursive: true });
});

test("the telemetry of the README", async () => {
  // #region telemetry
  const { createTelemetry } = await import("@sluice/server/telemetry");

  const sluice = createSluice({ ...base, telemetry: createTelemetry() });
  // #endregion
  const { message } = await talkTo(sluice)("modern", "resources/read", { params });
  expect(message.error).toBeUndefined();
});
