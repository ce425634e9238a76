import { execFile, execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, inject, onTestFinished, test } from "vitest";
import { streamResource } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { createRawClient } from "./raw-client.ts";
import { replyUrl, startRawServer } from "./raw-server.ts";

/** A self-signed certificate for localhost, where the machine can make one. */
function createCertificate(directory: string): boolean {
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  const out = ["-keyout", join(directory, "key.pem"), "-out", join(directory, "cert.pem")];
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
  try {
    execFileSync("openssl", ["req", "-x509", ...kind, ...subject, ...out], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

test(
  "a certificate that is not trusted is told at once, with its reason and what to do",
  { tags: "slow" },
  async (context) => {
    const directory = await mkdtemp(join(tmpdir(), "sluice-"));
    onTestFinished(() => rm(directory, { recursive: true }));
    if (!createCertificate(directory)) {
      context.skip("no openssl here to make a certificate with");
      return;
    }
    const [key, cert] = await Promise.all(
      ["key.pem", "cert.pem"].map((name) => readFile(join(directory, name))),
    );
    const storage = createServer({ key, cert }).on("tlsClientError", () => {});
    let connections = 0;
    storage.on("connection", () => void connections++);
    await new Promise<void>((resolve) => storage.listen(0, "localhost", resolve));
    onTestFinished(() => void storage.close());
    const origin = `https://localhost:${(storage.address() as AddressInfo).port}`;
    await using server = await startRawServer({
      stream: (request, res) => replyUrl(res, request, `${origin}/d`),
    });
    for (const fetch of [withStreaming(), withStreaming(globalThis.fetch)]) {
      connections = 0;
      const client = createRawClient(server.url, fetch);
      const asked = streamResource(client, "x://a", { trustedOrigins: [origin] });
      await expect(asked).rejects.toMatchObject({
        code: "untrusted",
        retryable: false,
        message: expect.stringMatching(
          /DEPTH_ZERO_SELF_SIGNED_CERT.*NODE_EXTRA_CA_CERTS/,
        ) as string,
      });
      expect(connections).toBe(1);
    }
  },
);

test("an https: address of a port without TLS is told as one", async () => {
  await using server = await startRawServer({
    stream: (request, res) =>
      replyUrl(res, request, `${server.origin.replace("http:", "https:")}/d`),
  });
  const trustedOrigins = [server.origin.replace("http:", "https:")];
  for (const fetch of [withStreaming(), withStreaming(globalThis.fetch)]) {
    const client = createRawClient(server.url, fetch);
    await expect(streamResource(client, "x://a", { trustedOrigins })).rejects.toMatchObject({
      code: "protocol",
      message: expect.stringContaining("is it an http: address?") as string,
    });
  }
});

test(
  "bytes travel over TLS only when the certificate is vouched for",
  { tags: "slow" },
  async (context) => {
    const directory = await mkdtemp(join(tmpdir(), "sluice-"));
    if (!createCertificate(directory)) {
      context.skip("no openssl here to make a certificate with");
      return;
    }
    const script = inject("programs")["packages/client/test/reading-process.ts"]!;
    const [key, cert] = await Promise.all(
      ["key.pem", "cert.pem"].map((name) => readFile(join(directory, name))),
    );
    const content = Buffer.alloc(5_000_000, "x");
    const server = createServer({ key, cert }, (_req, res) => {
      res.writeHead(200, { "content-length": content.length }).end(content);
    });
    await new Promise<void>((resolve) => server.listen(0, "localhost", resolve));
    const url = `https://localhost:${(server.address() as AddressInfo).port}/`;
    const run = promisify(execFile);
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: "" };
    expect((await run(process.execPath, [script, url], { env })).stdout).toBe("untrusted");
    const trusting = { ...env, NODE_EXTRA_CA_CERTS: join(directory, "cert.pem") };
    expect((await run(process.execPath, [script, url], { env: trusting })).stdout).toBe(
      "5000000 lent",
    );
    server.close();
    await rm(directory, { recursive: true });
  },
);
