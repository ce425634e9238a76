import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere } from "./run-here.ts";

/** Makes a self-signed certificate for localhost; false where the machine cannot. */
function createCertificate(key: string, cert: string): boolean {
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
  try {
    const args = ["req", "-x509", ...kind, ...subject, "-keyout", key, "-out", cert];
    execFileSync("openssl", args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

test("a certificate that is not trusted is told with its reason by every command, over HTTP and WebSocket", async (context) => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-cli-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [key, cert, file] = ["key.pem", "cert.pem", "file"].map((name) => join(folder, name));
  if (!createCertificate(key!, cert!)) {
    context.skip("no openssl here to make a certificate with");
    return;
  }
  await writeFile(file!, "content");
  const server = createServer({ key: await readFile(key!), cert: await readFile(cert!) });
  server.on("tlsClientError", () => {}).listen(0, "localhost");
  onTestFinished(() => server.close().closeAllConnections());
  await once(server, "listening");
  const address = `localhost:${(server.address() as AddressInfo).port}/mcp`;
  for (const args of [
    ["ls", `https://${address}`],
    ["get", `https://${address}`, "files://a/b", "-o", folder],
    ["put", `https://${address}`, file!],
    ["ls", `wss://${address}`],
  ]) {
    const { status, stderr } = await runHere(args);
    expect(status).toBe(exitCodes.refused.status);
    expect(stderr).toMatch(/certificate of \S+ is not trusted.*DEPTH_ZERO_SELF_SIGNED_CERT/);
    expect(stderr).toContain("--cacert FILE");
    expect(stderr).not.toContain("--trust");
  }
});
