// Lists, reads, calls each tool and moves files both ways through the command line of the MCP Inspector, in both protocol
// eras: a client that has never heard of Sluice must get along. The Inspector needs Node >= 22 and brings it along; the server
// runs on this Node.
import { deepEqual } from "node:assert/strict";
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

/** Installs the Inspector; gives its program, and the Node that runs it. */
async function findInspector() {
  const asks = "node -p process.execPath && command -v mcp-inspector";
  const child = spawn("npx", ["--yes", "--loglevel=error", ...packages, "-c", asks], {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: deadlineMs,
  });
  const [node, program] = (await text(child.stdout)).trim().split("\n").slice(-2);
  return { node, program };
}

const inspector = await findInspector();

/** The result of one method, as the Inspector prints it. */
async function inspect(url, era, ...method) {
  const how = ["--transport", "http", "--protocol-era", era, "--format", "json", "-q"];
  const args = [inspector.program, "--cli", url, ...how, "--method", ...method];
  const child = spawn(inspector.node, args, {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: deadlineMs,
  });
  const printed = await text(child.stdout);
  try {
    return JSON.parse(printed.slice(printed.indexOf("{"))).result;
  } catch {
    throw new Error(`${era} ${method.join(" ")}: the Inspector printed ${JSON.stringify(printed)}`);
  }
}

/** Calls a tool; gives its result. */
const callTool = (url, era, name, args = {}) =>
  inspect(
    url,
    era,
    "tools/call",
    "--tool-name",
    name,
    ...Object.entries(args).flatMap(([key, value]) => ["--tool-arg", `${key}=${value}`]),
  );

/** Lists, reads and links files by the tools, and brings one in by either way. */
async function callEachTool(url, era) {
  const { tools } = await inspect(url, era, "tools/list");
  deepEqual(tools.map(({ name }) => name).toSorted(), [
    "check_upload",
    "get_download_link",
    "keep_file",
    "list_files",
    "read_file",
    "request_upload",
    "stat_file",
  ]);
  const listed = await callTool(url, era, "list_files");
  deepEqual(listed.structuredContent.files.map((file) => file.uri).toSorted(), uris);
  const read = await callTool(url, era, "read_file", { uri: uris[0], range: "lines 3-3" });
  deepEqual(read.content[0], { type: "text", text: "zwölf Zeilen\n" });
  const stat = await callTool(url, era, "stat_file", { uri: uris[1] });
  deepEqual(stat.structuredContent.size, 3);
  const linked = await callTool(url, era, "get_download_link", { uri: uris[1] });
  const response = await fetch(linked.structuredContent.download_url);
  deepEqual([...new Uint8Array(await response.arrayBuffer())], [0, 1, 255]);
  for (const [ask, take, expected] of [
    ["keep_file", "keep_file", { name: "poem.txt", size: 8 }],
    ["request_upload", "check_upload", { status: "received", name: "poem.txt", size: 8 }],
  ]) {
    const asked = (await callTool(url, era, ask)).structuredContent;
    deepEqual(asked.status, "upload_required");
    const sent = await fetch(`${asked.upload_url}poem.txt`, {
      method: asked.method,
      body: "one\ntwo\n",
    });
    deepEqual(sent.status, 201);
    const taken = await callTool(url, era, take, { upload_id: asked.upload_id });
    const { status, name, size } = taken.structuredContent;
    deepEqual({ ...(status && { status }), name, size }, expected);
  }
  return tools.length;
}

const uris = ["files://site/notes/today.md", "files://site/photo.bin"];
const site = await startSite();
try {
  for (const era of ["modern", "legacy"]) {
    const { resources } = await inspect(site.url, era, "resources/list");
    deepEqual(resources.map(({ uri }) => uri).toSorted(), uris);
    const { contents } = await inspect(site.url, era, "resources/read", "--uri", uris[0]);
    deepEqual([contents[0].uri, contents[0].text], [uris[0], "# Today\n\nzwölf Zeilen\n"]);
    const { resourceTemplates } = await inspect(site.url, era, "resources/templates/list");
    deepEqual(
      resourceTemplates.map(({ uriTemplate }) => uriTemplate),
      ["files://site/{+key}"],
    );
    const count = await callEachTool(site.url, era);
    process.stdout.write(
      `${era}: list, read, templates and ${count} tools through the Inspector\n`,
    );
  }
} finally {
  site.stop();
}
