// #region grants
import { createKeyRing, createSealer, generateKey, principalTag, resourceTag } from "@sluice/core";
import { createMemoryStores } from "@sluice/state";

const keys = createKeyRing([generateKey()]);
const sealer = createSealer({ keys, audience: "https://mcp.example.com/mcp" });
const alice = { issuer: "https://id.example.com", subject: "alice", clientId: "desktop" };
const { token } = sealer.seal("download", { key: "reports/q1.pdf", principal: alice });

const { state } = createMemoryStores();
const grant = sealer.unseal("download", token);
const claim = await state.claim(
  {
    id: grant.id,
    principal: principalTag(alice),
    resource: resourceTag(grant.key),
    use: "once",
    issuedAt: grant.issuedAt,
    expiresAt: grant.expiresAt,
  },
  Date.now(),
);
const isFirst = claim.outcome === "granted";
await state.revoke({ principal: principalTag(alice) }, { now: Date.now(), ttlMs: 3_600_000 });
// #endregion

// #region stored
import { createTokenStore } from "@sluice/state";

const tokens = createTokenStore({ keys, audience: "https://mcp.example.com/mcp", state });
const link = await tokens.issue("download", { key: "reports/q1.pdf", principal: alice });
const opened = await tokens.open("download", link.token);
// #endregion

// #region conformance
import { stateStoreCases } from "@sluice/state/conformance";

for (const { id, run } of stateStoreCases)
  await run((limits) => createMemoryStores(limits).state).catch((error: Error) => {
    throw new Error(`${id}: ${error.message}`);
  });
// #endregion

import { expect, test } from "vitest";

test("the examples of the README do what it says", () => {
  expect(isFirst).toBe(true);
  expect([link.token.length, opened.id]).toEqual([32, link.id]);
});
