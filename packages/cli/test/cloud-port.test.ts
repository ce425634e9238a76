import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { portWarning } from "../src/hosts/cloud-port.ts";
import { listen, listenAdvice, portOf } from "../src/serve/listen.ts";
import { listenHere, runHere, serveHere } from "./run-here.ts";

const warning = "sluice: warning: files.example.com:8443 is not on port 443";
const elsewhere = "https://files.example.com:8443/mcp";

test.each([
  [elsewhere, true],
  ["https://FILES.example.com:8443/mcp", true],
  ["https://xn--bcher-kva.example:1/", true],
  ["https://files.example.com/mcp", false],
  ["https://files.example.com:443/mcp", false],
  // no cloud host reaches these at any port
  ["http://files.example.com:8080/mcp", false],
  ["http://127.0.0.1:2532/mcp", false],
  ["https://localhost:8443/mcp", false],
  ["https://10.0.0.7:8443/mcp", false],
  ["https://[2001:db8::1]:8443/mcp", false],
  ["https://nas:8443/mcp", false],
  ["https://nas.local:8443/mcp", false],
  ["https://nas.home.arpa:8443/mcp", false],
  ["https://files.corp.internal:8443/mcp", false],
])("%s: a warning that claude.ai does not reach that port: %s", (url, isWarned) => {
  expect(portWarning(new URL(url)) !== undefined).toBe(isWarned);
});

test("serve, bridge --http and doctor print it", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-port-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const open = ["--public-url", elsewhere, "--allow-anonymous"];
  const served = await serveHere(folder, open);
  expect((await served.end()).stderr).toContain(warning);
  const bridge = ["bridge", "--http", "--port", "0", ...open, "http://127.0.0.1:9/mcp"];
  expect((await (await listenHere(bridge)).end()).stderr).toContain(warning);
  expect((await runHere(["doctor", elsewhere])).stderr).toContain(warning);
});

test("a port that is taken, and an address of another machine, each say what to do", async () => {
  const first = await listen("127.0.0.1", 0);
  onTestFinished(() => void first.close());
  await expect(listen("127.0.0.1", portOf(first))).rejects.toMatchObject({
    advice: expect.stringMatching(/another program has that port.*Ctrl-C.*--port/),
  });
  await expect(listen("192.0.2.1", 0)).rejects.toMatchObject({
    advice: "this machine does not have that address: pass another --host",
  });
  expect(listenAdvice("EACCES")).toContain("from 1024");
  expect(listenAdvice("EMFILE")).toBe("pass another --host or --port");
});
