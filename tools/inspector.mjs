// Lists, reads and calls through the MCP Inspector's command line in both protocol eras: a client that has
// never heard of Sluice must get along. The Inspector needs Node >= 22 and brings it along; the server
// runs on this Node.
import { deepEqual, match } from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const packages = ["--package=node@24", "--package=@modelcontextprotocol/inspector@2.12.0"];
const deadlineMs = 120_000;

/** Starts the site; resolves with its URL and a way to end it. */
async function startSite() {
  const child = spawn(
    process.execPath,
    ["--conditions=@sluice/source", "--import", "tsx", "e2e/inspector/main.ts"],
    { cwd: root, stdio: ["pipe", "pipe", "inherit"] },
  );
  const [url] = await Promise.race([
    once(createInterface(child.stdout), "line"),
    once(child, "exit").then(() => Promise.reject(new Error("the site ended"))),
  ]);
  return { url, stop: () => child.stdin.end() };
}

/** The result of one method, as the Inspector prints it. */
async function inspect(url, era, ...method) {
  const call = [
    "--cli",
    url,
    "--transport",
    "http",
    "--protocol-era",
    era,
    "--format",
    "json",
    "-q",
  ];
  const command = ["mcp-inspector", ...call, "--method", ...method];
  const child = spawn(
    "npx",
    ["--yes", "--loglevel=error", ...packages, "-c", command.map((each) => `'${each}'`).join(" ")],
    { stdio: ["ignore", "pipe", "inherit"], timeout: deadlineMs },
  );
  const printed = await text(child.stdout);
  try {
    return JSON.parse(printed.slice(printed.indexOf("{"))).result;
  } catch {
    throw new Error(`${era} ${method.join(" ")}: the Inspector printed ${JSON.stringify(printed)}`);
  }
}

const site = await startSite();
try {
  for (const era of ["modern", "legacy"]) {
    const { resources } = await inspect(site.url, era, "resources/list");
    deepEqual(resources.map(({ uri }) => uri).toSorted(), [
      "files://site/notes/today.md",
      "files://site/photo.bin",
    ]);
    const uri = "files://site/notes/today.md";
    const { contents } = await inspect(site.url, era, "resources/read", "--uri", uri);
    deepEqual([contents[0].uri, contents[0].text], [uri, "# Today\n\nzwölf Zeilen\n"]);
    const { resourceTemplates } = await inspect(site.url, era, "resources/templates/list");
    deepEqual(
      resourceTemplates.map(({ uriTemplate }) => uriTemplate),
      ["files://site/{+key}"],
    );
    const tool = ["--tool-name", "read_file", "--tool-arg", `uri=${uri}`, "range=lines 3-3"];
    const { content } = await inspect(site.url, era, "tools/call", ...tool);
    deepEqual(content[0], { type: "text", text: "zwölf Zeilen\n" });
    match(content[1].text, /^bytes 9-22, lines 3-3 of 23 bytes; this is the end; etag: ".+"$/);
    process.stdout.write(`${era}: list, read, templates and a tool through the Inspector\n`);
  }
} finally {
  site.stop();
}
