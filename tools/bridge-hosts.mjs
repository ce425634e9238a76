// Puts `sluice bridge` between real hosts and real servers: the MCP Inspector and mcporter must print the same as without it.
// With folders, the three tools for files are all that is new. Both hosts need Node >= 24 and bring it along; bridge and
// servers run on this Node.
import { deepEqual, match } from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { freePort } from "./free-port.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const packages = ["node@24", "@modelcontextprotocol/inspector@2.12.0", "mcporter@0.12.3"];
const deadlineMs = 60_000;
const added = ["save_resource", "list_saved", "send_file"];

const fromSource = ["--conditions=@sluice/source", "--import", import.meta.resolve("tsx")];
const bridge = [...fromSource, join(root, "packages/cli/src/main.ts"), "bridge"];
const fromBridge = createRequire(join(root, "packages/bridge/package.json"));
const serverOf = (name) =>
  join(dirname(fromBridge.resolve(`@modelcontextprotocol/${name}/package.json`)), "dist/index.js");

/** Installs the hosts; gives their programs, and the Node that runs them. */
async function findHosts() {
  const asks = "node -p process.execPath && command -v mcp-inspector && command -v mcporter";
  const wanted = packages.map((name) => `--package=${name}`);
  const child = spawn("npx", ["--yes", "--loglevel=error", ...wanted, "-c", asks], {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: 4 * deadlineMs,
  });
  const [node, inspector, mcporter] = (await text(child.stdout)).trim().split("\n").slice(-3);
  return { node, inspector, mcporter };
}

/** Starts the demo server over `folder`; resolves with its URL and a way to end it. */
async function startDemo(folder) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/mcp`;
  const args = [...fromSource, join(root, "apps/demo-server/src/server.ts")];
  const env = { ...process.env, PORT: String(port), SLUICE_STORAGE: pathToFileURL(folder).href };
  const child = spawn(process.execPath, args, { cwd: folder, env, stdio: "ignore" });
  const ended = once(child, "exit");
  for (let tries = 0; tries < 200; tries++) {
    const isThere = await fetch(url).then(
      () => true,
      () => false,
    );
    if (isThere) return { url, stop: () => (child.kill(), ended) };
    await sleep(100);
  }
  child.kill();
  throw new Error("the demo server does not answer");
}

/** What a program prints, as JSON. */
async function printed(args) {
  const child = spawn(hosts.node, args, {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: deadlineMs,
  });
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  try {
    return JSON.parse(output.slice(output.search(/[{[]/)));
  } catch {
    throw new Error(`${args.slice(1).join(" ")}: printed ${JSON.stringify(output + errors)}`);
  }
}

const inspect =
  (...method) =>
  (server, era) => {
    const from = ["--config", config, "--server", server, "--protocol-era", era];
    const how = ["--format", "json", "-q", "--method", ...method];
    return printed([hosts.inspector, "--cli", ...from, ...how]);
  };
const inspectTool = (name, args = {}) =>
  inspect(
    "tools/call",
    "--tool-name",
    name,
    ...Object.entries(args).flatMap(([key, value]) => ["--tool-arg", `${key}=${value}`]),
  );
const port =
  (command, ...args) =>
  (server) =>
    printed([hosts.mcporter, "--config", config, command, server, ...args, "--json"]);
const portTool =
  (name, args = {}) =>
  (server) => {
    const what = [`${server}.${name}`, "--args", JSON.stringify(args)];
    return printed([hosts.mcporter, "--config", config, "call", ...what, "--output", "json"]);
  };

/** Without what differs from run to run: times, and what a host says of its configuration. */
function normal(value) {
  const times = /\d{1,2}:\d\d:\d\d [AP]M|\d{4}-\d\d-\d\dT[\d:.]+Z/g;
  const ofHost = new Set(["durationMs", "source", "sources", "transport"]);
  return JSON.parse(JSON.stringify(value).replace(times, "TIME"), (key, member) =>
    ofHost.has(key) ? undefined : member,
  );
}

/** A listing without the bridge's own tools, which must be there. */
function withoutAdded(listing) {
  const own = new Set(added);
  const tools = listing.result?.tools ?? listing.tools;
  deepEqual(
    tools.filter(({ name }) => own.has(name)).map(({ name }) => name),
    added,
  );
  const rest = tools.filter(({ name }) => !own.has(name));
  return listing.result
    ? { ...listing, result: { ...listing.result, tools: rest } }
    : { ...listing, tools: rest };
}

const folder = realpathSync(mkdtempSync(join(tmpdir(), "sluice-hosts-")));
const [served, saved] = ["served", "saved"].map((name) => join(folder, name));
for (const made of [served, saved]) mkdirSync(made);
writeFileSync(join(served, "a.txt"), "one, two\n");
const config = join(folder, "mcp.json");
const hosts = await findHosts();
const demo = await startDemo(served);

const listsTools = [inspect("tools/list"), /inputSchema/, "tools"];
const portsTools = [port("list", "--schema"), /inputSchema/, "tools"];
/** Server → how it is reached, eras, and what is asked: the call, what its answer has, and whether it lists tools. */
const servers = {
  everything: {
    command: [process.execPath, serverOf("server-everything"), "stdio"],
    eras: ["legacy"],
    asks: [
      listsTools,
      [inspectTool("echo", { message: "héllo" }), /Echo: héllo/],
      [inspectTool("get-sum", { a: 2, b: 40 }), /42/],
      [inspectTool("get-tiny-image"), /image\/png/],
      [inspect("resources/list"), /demo:\/\/resource/],
      [inspect("resources/templates/list"), /\{resourceId\}/],
      [inspect("resources/read", "--uri", "demo://resource/dynamic/text/1"), /contents/],
      [inspect("prompts/list"), /simple-prompt/],
      [
        inspect("prompts/get", "--prompt-name", "args-prompt", "--prompt-args", "city=Bern"),
        /Bern/,
      ],
      portsTools,
      [portTool("echo", { message: "héllo" }), /Echo: héllo/],
      [portTool("get-structured-content", { location: "Chicago" }), /temperature/],
      [port("resource"), /demo:\/\/resource/],
    ],
  },
  filesystem: {
    command: [process.execPath, serverOf("server-filesystem"), served],
    eras: ["legacy"],
    asks: [
      listsTools,
      [inspectTool("read_text_file", { path: join(served, "a.txt") }), /one, two/],
      [inspectTool("read_text_file", { path: "/etc/passwd" }), /denied/],
      portsTools,
      [portTool("list_directory", { path: served }), /a\.txt/],
    ],
  },
  demo: {
    url: demo.url,
    eras: ["legacy", "modern"],
    asks: [
      listsTools,
      [inspect("resources/list"), /files:\/\/demo\/a\.txt/],
      [inspect("resources/templates/list"), /files:\/\/demo/],
      [inspect("resources/read", "--uri", "files://demo/a.txt"), /one, two/],
      portsTools,
      [port("resource"), /files:\/\/demo\/a\.txt/],
      [port("resource", "files://demo/a.txt"), /one, two/],
    ],
  },
};

const folders = ["--save-to", saved, "--send-from", served];
const mcpServers = Object.fromEntries(
  Object.entries(servers).flatMap(([name, { command, url }]) => {
    const behind = url ? [url] : ["--", ...command];
    const through = (...flags) => ({
      type: "stdio",
      command: process.execPath,
      args: [...bridge, ...flags, ...behind],
    });
    const [program, ...args] = command ?? [];
    const direct = url
      ? { type: "streamable-http", url }
      : { type: "stdio", command: program, args };
    return [
      [name, direct],
      [`${name}-bridged`, through()],
      [`${name}-folders`, through(...folders)],
    ];
  }),
);
writeFileSync(config, JSON.stringify({ mcpServers, imports: [] }));

try {
  for (const [name, { eras, asks }] of Object.entries(servers)) {
    for (const [ask, holds, kind] of asks)
      // mcporter chooses its own
      for (const era of ask.length > 1 ? eras : ["any"]) {
        const [direct, bridged, filing] = await Promise.all(
          [name, `${name}-bridged`, `${name}-folders`].map((server) => ask(server, era)),
        );
        match(JSON.stringify(direct), holds);
        const ofServer = (answer) =>
          JSON.parse(JSON.stringify(normal(answer)).replaceAll(/-(bridged|folders)(?=")/g, ""));
        deepEqual(ofServer(bridged), ofServer(direct));
        deepEqual(ofServer(kind === "tools" ? withoutAdded(filing) : filing), ofServer(direct));
      }
    process.stdout.write(
      `${name}: ${asks.length} answers through the bridge are those without it, ${eras.join(" and ")}\n`,
    );
  }
} finally {
  await demo.stop();
  rmSync(folder, { recursive: true, force: true });
}
