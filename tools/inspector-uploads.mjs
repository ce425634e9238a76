// Sends a file through the web page of the MCP Inspector, in both protocol eras: the tool of the upload example asks, the
// Inspector opens the upload page, and the tool gets the file. Needs Chromium; the Inspector brings Node >= 22 along.
import { match } from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { freePort } from "./free-port.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const required = createRequire(join(root, "e2e/package.json"));
const { chromium } = required("playwright-core");
const tsx = pathToFileURL(createRequire(join(root, "package.json")).resolve("tsx"));
const folder = mkdtempSync(join(tmpdir(), "sluice-inspector-"));
const children = [];

/** Starts a program in the folder; it ends with this one. */
function start(command, args, env) {
  const child = spawn(command, args, {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "inherit"],
    detached: true,
  });
  children.push(child);
  return child;
}

async function untilServed(url) {
  for (let left = 600; left > 0; left--) {
    if (
      await fetch(url).then(
        () => true,
        () => false,
      )
    )
      return;
    await sleep(100);
  }
  throw new Error(`nothing answers at ${url}`);
}

async function startInspector(endpoint, era) {
  const [port, sandbox, apps] = [await freePort(), await freePort(), await freePort()];
  const packages = ["--package=node@24", "--package=@modelcontextprotocol/inspector@2.12.0"];
  const command = `mcp-inspector --web --transport http --server-url ${endpoint} --protocol-era ${era}`;
  start("npx", ["--yes", "--loglevel=error", ...packages, "-c", command], {
    DANGEROUSLY_OMIT_AUTH: "true",
    MCP_AUTO_OPEN_ENABLED: "false",
    MCP_STORAGE_DIR: join(folder, era),
    MCP_INSPECTOR_SECRET_STORE: "memory",
    CLIENT_PORT: String(port),
    MCP_SANDBOX_PORT: String(sandbox),
    MCP_APP_ORIGIN_PORT: String(apps),
  });
  const url = `http://127.0.0.1:${port}/`;
  await untilServed(url);
  return url;
}

/** What the tool says in the Inspector's page of the file that the user sent. */
async function sendFile(browser, url, era) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 } });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  await page.goto(url);
  await page.locator("input[type=checkbox], [role=switch]").first().click({ force: true });
  await page.getByText("Tools", { exact: true }).first().click();
  await page.getByText("count_lines").first().click();
  await page.getByRole("button", { name: "Execute Tool" }).click();
  // together: a wait that fails alone would end this process before its children
  const [upload] = await Promise.all([
    context.waitForEvent("page"),
    page.getByRole("button", { name: "Open in Browser" }).click(),
  ]);
  const text = { name: "poem.txt", mimeType: "text/plain", buffer: Buffer.from("one\ntwo\n") };
  await upload.locator("input[type=file]").setInputFiles(text);
  await upload.getByText("sent", { exact: false }).first().waitFor();
  await upload.locator("#done").click();
  // the modern revision knows no notification that the page is done
  if (era === "modern") await page.getByRole("button", { name: "I've completed it" }).click();
  const said = await page
    .getByText(/It has \d+ lines/)
    .first()
    .innerText();
  await context.close();
  return said;
}

let browser;
try {
  for (const name of ["files", "uploads"]) mkdirSync(join(folder, name));
  const endpoint = "http://127.0.0.1:2532/mcp"; // of the example
  const example = join(root, "e2e/examples/upload-server.ts");
  const run = ["--conditions=@sluice/source", `--import=${tsx.href}`, example];
  start(process.execPath, run, {});
  await untilServed(endpoint);
  browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
  });
  for (const era of ["legacy", "modern"]) {
    const said = await sendFile(browser, await startInspector(endpoint, era), era);
    match(said, /It has 2 lines/);
    process.stdout.write(`${era}: a file through the web page of the Inspector\n`);
  }
} finally {
  await browser?.close();
  for (const { pid } of children) {
    try {
      process.kill(-pid);
    } catch {
      // it has ended by itself
    }
  }
  rmSync(folder, { recursive: true, force: true });
}
