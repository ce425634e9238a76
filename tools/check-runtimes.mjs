// Proves that our packages work where users run them besides plain Node: under Yarn's Plug'n'Play, in CommonJS programs of
// TypeScript without `exports`, in Jest and under pm2. Each is the tool itself, with the packed packages, in a folder of its
// own. Needs the build and a registry for the packages of others, so it is part of `npm run check`.
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "./free-port.mjs";
import { isMain } from "./is-main.mjs";
import { packAll, packageManifest } from "./pack.mjs";
import { plainSettings, run, start, stop, stopAll, untilListening } from "./shell-lines.mjs";

/** The SDK, whose versions of this repository stand in the catalog of its workspace. */
const workspace = readFileSync(new URL("../pnpm-workspace.yaml", import.meta.url), "utf8");
const sdk = Object.fromEntries(
  ["@modelcontextprotocol/server", "@modelcontextprotocol/client"].map((name) => {
    const [, version] = new RegExp(`^ {2}"${name}": (\\S+)$`, "m").exec(workspace) ?? [];
    return [name, version];
  }),
);
const versions = {
  "@yarnpkg/cli-dist": "4.18.1",
  jest: "30.5.2",
  pm2: "7.0.4",
  // the last major version with `moduleResolution: node10` as it was is 5
  typescript: "5.9.3",
  "@types/node": "20.19.43",
};
const pinned = (...names) => Object.fromEntries(names.map((name) => [name, versions[name]]));

/** Serves a folder and saves a file of it; all of it with `import`, which CommonJS compilers turn into `require`. */
const program = `
import { readFileSync } from "node:fs";
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "sluice";
import { connect, saveResource } from "sluice/client";
import { createFsBackend, openAuditFile, serve } from "sluice/node";

async function main() {
  const endpoint = "http://127.0.0.1:" + process.env["PORT"] + "/mcp";
  const audit = await openAuditFile({ path: "audit.log" });
  const sluice = createSluice({ storage: createFsBackend({ root: "served" }), endpoint, audit });
  const create = () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }));
  const serving = await serve(sluice, create);
  const client = await connect(endpoint);
  const { path } = await saveResource(client, "files://local/big.bin", "saved/");
  await client.close();
  await serving.close();
  return readFileSync(path).equals(readFileSync("served/big.bin"));
}
`;

const ended = `main().then((isEqual) => process.exit(isEqual ? 0 : 1));\n`;

/** A project of a user: the packed packages, and the tools that are named. */
function writeProject(folder, packed, tools) {
  const tarballs = Object.fromEntries(
    packed.names.map((name) => {
      const { name: id, version } = packageManifest(name);
      const file = `${id.replace("@", "").replace("/", "-")}-${version}.tgz`;
      return [id, `file:${join(packed.folder, file)}`];
    }),
  );
  mkdirSync(join(folder, "served"), { recursive: true });
  writeFileSync(join(folder, "served", "big.bin"), randomBytes(8 * 1024 * 1024 + 1));
  const manifest = { private: true, dependencies: { ...tarballs, ...sdk }, devDependencies: tools };
  writeFileSync(
    join(folder, "package.json"),
    JSON.stringify({ ...manifest, resolutions: tarballs }, undefined, 2),
  );
  return async (line, env = {}) => run(line, folder, { ...plainSettings(), ...env });
}

const npmInstall = "npm install --no-audit --no-fund --loglevel=error";

const checks = {
  async "Yarn Plug'n'Play"(folder, packed) {
    const line = writeProject(folder, packed, {});
    const yarnPackage = `@yarnpkg/cli-dist@${versions["@yarnpkg/cli-dist"]}`;
    const yarn = `npx --yes --loglevel=error --package=${yarnPackage} yarn`;
    const registry = await line("npm config get registry");
    const settings = { YARN_NPM_REGISTRY_SERVER: registry.trim(), YARN_ENABLE_TELEMETRY: "0" };
    writeFileSync(join(folder, "yarn.lock"), "");
    await line(`${yarn} install --no-immutable`, settings);
    writeFileSync(join(folder, "program.mjs"), program + ended);
    await line(`${yarn} node program.mjs`, { ...settings, PORT: String(await freePort()) });
    // what the server writes: keys, and files of its clients
    await line(`${yarn} sluice keys new keys`, settings);
    const port = await freePort();
    const serving = `${yarn} sluice serve served --keys keys --uploads received --port ${port}`;
    const env = { ...plainSettings(), ...settings, XDG_STATE_HOME: join(folder, "state") };
    const server = start(serving, folder, env);
    await untilListening(server, port, 60_000);
    await line(`${yarn} sluice put http://127.0.0.1:${port}/mcp served/big.bin`, settings);
    await stop(server);
  },
  async "TypeScript in CommonJS, moduleResolution node10"(folder, packed) {
    const line = writeProject(folder, packed, pinned("typescript", "@types/node"));
    writeFileSync(join(folder, "program.ts"), program + ended);
    const compilerOptions = {
      module: "commonjs",
      moduleResolution: "node10",
      target: "es2022",
      strict: true,
      skipLibCheck: true,
      esModuleInterop: true,
      types: ["node"],
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions }));
    await line(npmInstall);
    await line("npx tsc");
    await line("node program.js", { PORT: String(await freePort()) });
  },
  async "Jest with --experimental-vm-modules"(folder, packed) {
    const line = writeProject(folder, packed, pinned("jest"));
    const test = `test("saves", async () => expect(await main()).toBe(true), 60_000);\n`;
    writeFileSync(join(folder, "saves.test.mjs"), program + test);
    const loaded = `(await import("sluice")).createSluice`;
    const inCommonJs = `test("loads", async () => expect(typeof ${loaded}).toBe("function"));\n`;
    writeFileSync(join(folder, "loads.test.js"), inCommonJs);
    await line(npmInstall);
    const settings = { NODE_OPTIONS: "--experimental-vm-modules" };
    const matched = `--testMatch '**/*.test.mjs' '**/*.test.js'`;
    await line(`npx jest ${matched}`, { ...settings, PORT: String(await freePort()) });
  },
  async pm2(folder, packed) {
    const line = writeProject(folder, packed, pinned("pm2"));
    await line(npmInstall);
    const settings = { PM2_HOME: join(folder, "pm2"), XDG_STATE_HOME: join(folder, "state") };
    const pm2 = (rest) => line(`npx pm2 ${rest}`, settings);
    const [forkPort, clusterPort] = [await freePort(), await freePort()];
    const serving = "-- serve served --port";
    try {
      await pm2(`start node_modules/.bin/sluice --name fork ${serving} ${forkPort}`);
      const url = `http://127.0.0.1:${forkPort}/mcp`;
      const isAnswered = () => fetch(url).then(Boolean, () => false);
      await until(isAnswered, `pm2: nothing listens at ${url} in fork mode`);
      await pm2(`start node_modules/.bin/sluice --name cluster -i 1 ${serving} ${clusterPort}`);
      const log = join(settings.PM2_HOME, "logs", "cluster-error-1.log");
      const isLogged = () =>
        existsSync(log) && /with pm2 in fork mode/.test(readFileSync(log, "utf8"));
      await until(isLogged, `pm2: ${log} does not say what to do`);
    } finally {
      await pm2("kill");
    }
  },
};

/** Waits until a condition holds, for a minute at most. */
async function until(holds, otherwise) {
  for (const end = performance.now() + 60_000; performance.now() < end; await sleep(100))
    if (await holds()) return;
  throw new Error(otherwise);
}

if (isMain(import.meta.url)) {
  const named = process.argv.slice(2);
  const folder = mkdtempSync(join(tmpdir(), "sluice-runtimes-"));
  try {
    const packed = { folder: join(folder, "packed"), names: [] };
    packed.names = packAll(packed.folder, ["sluice"]);
    for (const [at, [name, check]] of Object.entries(checks).entries()) {
      if (named.length > 0 && !named.some((part) => name.includes(part))) continue;
      const before = Date.now();
      await check(join(folder, String(at)), packed);
      console.log(`${name}: works (${Math.round((Date.now() - before) / 1_000)} s)`);
    }
  } finally {
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  }
}
