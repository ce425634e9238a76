import dns from "node:dns";
import { createServer } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import { diagnose } from "@sluice/bridge";
import { request } from "undici";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { checkCertificate, checkConnection } from "../src/doctor/checks/reach-checks.ts";
import { checkEndpoint } from "../src/doctor/checks/answer-checks.ts";
import { checkPublicUrl } from "../src/doctor/checks/bytes-checks.ts";
import type { Evidence } from "../src/doctor/evidence.ts";
import { pinnedConnections } from "../src/doctor/probe/visit.ts";
import { listen } from "./peers.ts";

const day = 86_400_000;
const now = Date.UTC(2026, 0, 1);

/** What is seen of a request that got no answer. */
function unanswered(code: string, more: Partial<Evidence> = {}): Evidence {
  const fault = new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) });
  const headers = new Headers();
  return {
    endpoint: new URL("https://a.example/mcp"),
    hasToken: false,
    hasOrigin: false,
    exchanges: [{ httpMethod: "POST", rpcMethod: "server/discover", headers, text: "", fault }],
    sessionFault: fault,
    ...more,
  };
}

describe("a certificate that is not valid now", () => {
  const certificate = (serverTime: number) => ({ from: now - day, to: now + day, serverTime });

  test("is a matter of the clock where it is valid by the server's", () => {
    const evidence = unanswered("CERT_HAS_EXPIRED", { certificate: certificate(now) });
    expect(checkCertificate(evidence)?.cause).toBe("clock");
  });

  test.each([now + 2 * day, undefined])("is itself at fault where the server says %s", (time) => {
    const seen = { ...certificate(now), serverTime: time };
    const finding = checkCertificate(unanswered("CERT_HAS_EXPIRED", { certificate: seen }));
    expect(finding).toMatchObject({
      cause: "certificate",
      message: expect.stringContaining("(2026-01-02)"),
    });
  });
});

test.each([
  ["ERR_TLS_CERT_ALTNAME_INVALID", /another name/],
  ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", /NODE_EXTRA_CA_CERTS/],
  ["ERR_SSL_WRONG_VERSION_NUMBER", /does not speak TLS/],
])("the code %s of TLS has its own advice", (code, message) => {
  expect(checkCertificate(unanswered(code))?.message).toMatch(message);
});

test("a connection is judged only where there is no session", () => {
  expect(checkConnection(unanswered("ECONNREFUSED"))?.cause).toBe("connection");
  expect(checkConnection(unanswered("ECONNREFUSED", { sessionFault: undefined }))).toBeUndefined();
  expect(checkEndpoint(unanswered("x", { sessionFault: undefined }))).toBeUndefined();
});

test.each([
  ["http://127.0.0.1:2532/mcp/streams/t", undefined, "public-url"],
  ["https://a.example:8443/mcp/streams/t", undefined, "public-url"],
  ["https://inner.example/mcp/streams/t", "https://a.example/mcp/streams/t", "public-url"],
  ["https://cdn.example/t", undefined, "trust"],
])("a download at %s, which answers at %s, is a matter of %s", (text, answersAt, cause) => {
  const grant = {
    text,
    accepted: { refusal: "no" },
    answersAt,
    size: undefined,
    sha256: undefined,
  };
  const finding = checkPublicUrl(unanswered("x", { grant }));
  expect(finding?.cause).toBe(cause);
  // what follows the origin may be a token
  expect(finding?.message).not.toContain("/streams/t");
});

test("an address that no request can be sent to is refused", async () => {
  await expect(diagnose(new URL("file:///tmp"))).rejects.toMatchObject({
    code: "invalid_argument",
  });
});

test("an abort ends a diagnosis with its reason", async () => {
  const reason = new Error("enough");
  const signal = AbortSignal.abort(reason);
  await expect(diagnose(new URL("http://127.0.0.1:9/mcp"), { signal })).rejects.toBe(reason);
});

test("a name keeps the address that it had first, wherever it leads later", async () => {
  const { port } = await listen(
    createServer((_request, response) => void response.setHeader("connection", "close").end("it")),
  );
  const lookup = vi.spyOn(dns, "lookup");
  let lookups = 0;
  lookup.mockImplementation(((_name: string, _options: object, callback: Function) =>
    callback(null, [
      { address: lookups++ === 0 ? "127.0.0.1" : "127.0.0.99", family: 4 },
    ])) as never);
  syncBuiltinESMExports();
  onTestFinished(() => {
    lookup.mockRestore();
    syncBuiltinESMExports();
  });
  const dispatcher = pinnedConnections(() => {});
  onTestFinished(() => dispatcher.destroy());
  for (let times = 0; times < 2; times++) {
    const { body } = await request(`http://a.example:${port}/`, { dispatcher });
    expect(await body.text()).toBe("it");
  }
  expect(lookups).toBe(1);
});
