// Makes the bundle that Claude Desktop installs: templates/claude-desktop with the packed packages, as `sluice.mcpb`. Then unpacks
// it, starts it as its manifest says, for a folder with a file, and reads that file's link. Needs the build and a registry.
//   node tools/pack-desktop.mjs [FILE]      default: sluice.mcpb here
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { packAll } from "./pack.mjs";
import { isMain } from "./is-main.mjs";
import { plainSettings, run, stopAll } from "./shell-lines.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const packer = "npx --yes --loglevel=error @anthropic-ai/mcpb@2.1.2";
const deadlineMs = 30_000;

/** The command of a manifest as Claude Desktop fills it in: `values` by the text between `${` and `}`. */
export function startOf({ server }, values) {
  const fill = (text) =>
    text.replaceAll(/\$\{([\w.]+)\}/g, (whole, name) => {
      if (values[name] === undefined) throw new Error(`the manifest has an unknown ${whole}`);
      return values[name];
    });
  const { command, args } = server.mcp_config;
  return { command: fill(command), args: args.map(fill) };
}

/** What the link to a resource gives, from a server over stdio that is then ended. */
async function readByLink({ command, args }, cwd, uri) {
  const signal = AbortSignal.timeout(deadlineMs);
  const env = { ...plainSettings(), XDG_STATE_HOME: join(cwd, "state") };
  const child = spawn(command, args, { cwd, env, stdio: ["pipe", "pipe", "inherit"], signal });
  const send = (message) =>
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const clientInfo = { name: "pack-desktop", version: "1.0.0" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  send({ id: 1, method: "initialize", params });
  try {
    for await (const line of createInterface({ input: child.stdout, signal })) {
      const { id, result } = JSON.parse(line);
      if (id === 2)
        return await (await fetch(result.structuredContent.download_url, { signal })).text();
      if (id !== 1) continue;
      send({ method: "notifications/initialized" });
      send({
        id: 2,
        method: "tools/call",
        params: { name: "get_download_link", arguments: { uri } },
      });
    }
    throw new Error("the server ended before it gave a link");
  } finally {
    child.stdin.end();
    await once(child, "exit");
  }
}

async function make(folder, target) {
  const [packs, bundle, unpacked, files] = ["packs", "bundle", "unpacked", "files"].map((name) =>
    join(folder, name),
  );
  const env = plainSettings();
  cpSync(join(root, "templates/claude-desktop"), bundle, { recursive: true });
  packAll(packs, ["sluice"]);
  const tarballs = readdirSync(packs).map((name) => `"${join(packs, name)}"`);
  const quiet = "--omit=dev --prefer-offline --no-audit --no-fund --loglevel=error";
  await run(`npm install ${quiet} ${tarballs.join(" ")}`, bundle, env);
  // it names files of this machine
  for (const name of ["package.json", "package-lock.json", "node_modules/.package-lock.json"])
    rmSync(join(bundle, name), { force: true });
  await run(`${packer} validate manifest.json`, bundle, env);
  await run(`${packer} pack "${bundle}" "${target}"`, folder, env);

  await run(`${packer} unpack "${target}" "${unpacked}"`, folder, env);
  mkdirSync(files);
  writeFileSync(join(files, "report.txt"), "a report");
  const manifest = JSON.parse(readFileSync(join(unpacked, "manifest.json"), "utf8"));
  const start = startOf(manifest, { __dirname: unpacked, "user_config.folder": files });
  const text = await readByLink(start, folder, "files://local/report.txt");
  if (text !== "a report") throw new Error(`the bundle's link gave ${JSON.stringify(text)}`);
}

if (isMain(import.meta.url)) {
  const target = resolve(process.argv[2] ?? "sluice.mcpb");
  const folder = mkdtempSync(join(tmpdir(), "sluice-desktop-"));
  try {
    await make(folder, target);
    const { length } = readFileSync(target);
    console.log(
      `${target}: ${(length / 2 ** 20).toFixed(1)} MiB; unpacked, it gives a link to a file`,
    );
  } finally {
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  }
}
