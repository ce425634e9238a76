import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { withSluice } from "@sluice/transport-http/internal";
import { createUploads } from "@sluice/uploads";
import { describe, expect, test } from "vitest";
import { createCertificate, type Certificate } from "../bed/certificate.ts";
import { bytesOf } from "../bed/content.ts";
import { startProgram } from "../bed/program.ts";
import type { DownloadOrder, DownloadReport } from "../bed/programs/download.ts";
import { createSigningStore, type SigningStore } from "../bed/signing-store.ts";
import { startSite } from "../bed/site.ts";

const content = bytesOf(100_000, "tls");
const uri = "files://site/a.bin";

const make = (endpoint: string) =>
  createSluice({
    storage: createMemoryBackend({ "a.bin": "bytes" }),
    baseUri: "files://site/",
    endpoint,
    keys: [generateKey()],
    anonymous: true,
    delivery: "downloadUrl",
    onWarning: () => {},
  });

/** The download URL that a server at `endpoint` gives. */
async function downloadUrlAt(endpoint: string): Promise<string> {
  const sluice = make(endpoint);
  const mcp = createMcpHandler(() => sluice.attach(new McpServer({ name: "a", version: "1.0.0" })));
  const _meta = { "io.modelcontextprotocol/clientCapabilities": { resourceStreaming: {} } };
  const params = { uri, _meta };
  const response = await withSluice(mcp, sluice).fetch(
    new Request(endpoint, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "resources/stream", params }),
    }),
  );
  const { result } = (await response.json()) as { result: { downloadUrl: string } };
  return result.downloadUrl;
}

test("download URLs are https, or loopback on both ends [SEP-2532/3.download-url/must-https] [SEP-2532/transport-security/must-https]", async () => {
  for (const endpoint of ["http://example.com/mcp", "http://10.0.0.1/mcp", "ftp://a/mcp", "/mcp"])
    expect(() => make(endpoint), endpoint).toThrow(TypeError);
  for (const endpoint of ["https://example.com/mcp", "http://127.0.0.1:3000/mcp"])
    expect(await downloadUrlAt(endpoint)).toMatch(new RegExp(`^${endpoint}/streams/`));
});

test("upload URLs are, too [SEP-1306/privacy/must-use-tls]", async () => {
  for (const endpoint of ["https://example.com/mcp", "http://127.0.0.1:3000/mcp"]) {
    const uploads = createUploads(make(endpoint), {
      storage: createMemoryBackend(),
      scan: "none",
    });
    const holder = { issuer: "i", subject: "s", clientId: "c" };
    const terms = { accept: [], maxBytes: 1, maxFiles: 1 };
    const { url } = await uploads.reserve(holder, terms, {
      ttlMs: 60_000,
      selfAuthenticating: false,
    });
    expect(url).toMatch(new RegExp(`^${endpoint}/uploads/`));
  }
});

async function downloadFrom(storageCertificate: Certificate, trusted: Certificate) {
  const folder = await mkdtemp(join(tmpdir(), "sluice-tls-"));
  const ca = join(folder, "ca.pem");
  await writeFile(ca, trusted.cert);
  let store: SigningStore | undefined;
  await using site = await startSite({
    files: { "a.bin": content },
    tls: trusted,
    async storage(files) {
      store = await createSigningStore(files, { tls: storageCertificate });
      return store.backend;
    },
    sluice: () => ({ delivery: "redirect", redirectOrigins: [store!.origin] }),
  });
  await using client = await startProgram("download", {}, { NODE_EXTRA_CA_CERTS: ca });
  const order: DownloadOrder = { url: site.url, uri, trustedOrigins: [store!.origin] };
  const report = await client.ask<DownloadReport>(order);
  await store!.close();
  await rm(folder, { recursive: true, force: true });
  return { report, requests: store!.requests };
}

describe("the bytes are fetched under the TLS rules of the MCP connection [SEP-2532/security/must-same-tls]", () => {
  test("a storage origin whose certificate is trusted serves them", { tags: "slow" }, async () => {
    const certificate = createCertificate();
    const { report } = await downloadFrom(certificate, certificate);
    expect(report).toEqual({ bytes: content.length });
  });

  test("one whose certificate is not gets no request", { tags: "slow" }, async () => {
    const { report, requests } = await downloadFrom(createCertificate(), createCertificate());
    expect(report.error).toMatch(/^(unavailable|untrusted)$/);
    expect(requests).toEqual([]);
  });
});
