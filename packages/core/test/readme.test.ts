// #region errors
import { createKeyRing, createSealer, formatKey, generateKey, SluiceError } from "@sluice/core";

/** The message for a caller, and when to come back. */
function explain(error: unknown): string {
  if (!SluiceError.is(error)) throw error;
  if (error.code === "expired") return "Ask for a new link.";
  return error.retryable ? `Try again in ${error.retryAfterMs ?? 1_000} ms.` : "Not possible.";
}
// #endregion

// #region tokens

// once, for the secret store:  k1:<43 characters>
const secret = formatKey(generateKey());

const keys = createKeyRing(secret);
const sealer = createSealer({ keys, audience: "https://mcp.example.com/mcp" });
const alice = { issuer: "https://id.example.com", subject: "alice", clientId: "desktop" };

const { token, expiresAt } = sealer.seal("download", {
  key: "reports/q1.pdf",
  principal: alice,
  etag: "0x8DD1",
  ttlMs: 300_000,
});

// later, in any process with the same keys
const grant = sealer.unseal("download", token);
const mayRead = grant.matchesPrincipal(alice) && grant.matchesEtag("0x8DD1");
// #endregion

// #region rotation
/** Takes the keys in use from one secret, as often as it changes: no restart, no live token refused. */
function rotate(secrets: string): void {
  // k1:… then k1:…,k2:…:next everywhere, then k2:…,k1:…:previous, and k2:… once k1's tokens have
  // expired
  keys.replace(secrets);
}
// #endregion

// #region transfer
import {
  advanceTransfer,
  createSha256,
  formatContentDisposition,
  formatContentRange,
  formatEntityTag,
  formatReprDigest,
  matchesIfRange,
  parseRange,
  startTransfer,
} from "@sluice/core/internal";

let transfer = startTransfer();
transfer = advanceTransfer(transfer, { type: "authorized", reusable: true });
transfer = advanceTransfer(transfer, { type: "response", start: 0, size: 1_000, etag: '"v1"' });
transfer = advanceTransfer(transfer, { type: "received", bytes: 600 });
transfer = advanceTransfer(transfer, {
  type: "interrupted",
  reason: { kind: "network" },
  random: Math.random(),
});
const todo = transfer.state === "interrupted" ? transfer.recovery.action : undefined;
// #endregion

// #region headers

function headersFor(request: Request, size: number, etag: string, sha256: string): Headers {
  const tag = formatEntityTag(etag);
  const isSame = matchesIfRange(request.headers.get("if-range"), tag);
  const range = isSame ? parseRange(request.headers.get("range"), size) : undefined;
  const headers = new Headers({
    etag: tag,
    "repr-digest": formatReprDigest(sha256),
    "content-disposition": formatContentDisposition("Q1 report.pdf"),
  });
  if (typeof range === "object") headers.set("content-range", formatContentRange({ range, size }));
  return headers;
}
// #endregion

import { expect, test } from "vitest";

test("the examples of the README do what it says", () => {
  expect(explain(new SluiceError("expired", "x"))).toBe("Ask for a new link.");
  expect(explain(new SluiceError("timeout", "x"))).toBe("Try again in 1000 ms.");
  expect(secret).toMatch(/^k1:.{43}$/);
  expect(expiresAt).toBe(grant.expiresAt);
  expect(mayRead).toBe(true);
  const next = formatKey(generateKey({ kid: "k2" }));
  for (const secrets of [`${secret},${next}:next`, `${next},${secret}:previous`]) {
    rotate(secrets);
    expect(sealer.unseal("download", token).key).toBe("reports/q1.pdf");
  }
  rotate(next);
  expect(() => sealer.unseal("download", token)).toThrow(SluiceError);
  expect(todo).toBe("retry");
  const request = new Request("https://a.example", { headers: { range: "bytes=-10" } });
  const headers = headersFor(request, 100, "v1", createSha256().digest());
  expect(headers.get("content-range")).toBe("bytes 90-99/100");
  expect(headers.get("etag")).toBe('"v1"');
});
