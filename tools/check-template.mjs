// Proves that the plugin template works where a newcomer puts it: copied out of this repository, installed with npm, then
// checked and tested as its README says. Once before a release, with packed tarballs beside it, and once after it, from a
// registry that has our packages. Needs the build, so it is part of `npm run check`.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { copyTemplate, packageNames, packInto, vendorPackages } from "./copy-template.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const deadlineMs = 120_000;

/** Runs a command to its end; what it printed is shown only when it fails. */
async function run(cwd, command, ...args) {
  const child = spawn(command, args, {
    cwd,
    shell: process.platform === "win32",
    timeout: deadlineMs,
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (said += text));
  const [status] = await once(child, "close");
  if (status === 0) return said;
  throw new Error(`${command} ${args.join(" ")}\n${said}`);
}

/** Installs a copy, and runs its checks and its tests; gives how many rules it kept. */
async function tryCopy(copy, ...options) {
  const quiet = ["--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"];
  await run(copy, "npm", "install", ...quiet, ...options);
  await run(copy, "npm", "run", "check");
  const output = await run(copy, "npm", "test");
  const passed = Number(/^(?:# |ℹ )pass (\d+)$/m.exec(output)?.[1] ?? 0);
  if (passed < 50) throw new Error(`the template ran ${passed} rules only\n${output}`);
  return passed;
}

/** The version of the next release: the first one is a minor. */
function releasedVersion(name) {
  const path = join(root, "packages", name, "package.json");
  const { version } = JSON.parse(readFileSync(path, "utf8"));
  return version === "0.0.0" ? "0.1.0" : version;
}

/** A registry that has the packages as a release would publish them. */
async function startRegistry(folder) {
  const files = new Map();
  const server = createServer((request, response) => {
    const answer = files.get(decodeURIComponent(request.url));
    response.writeHead(answer ? 200 : 404).end(answer?.());
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const origin = `http://127.0.0.1:${server.address().port}`;
  for (const name of packageNames) {
    const file = packInto(folder, name);
    const tarball = readFileSync(join(folder, file));
    const { stdout } = spawnSync("tar", ["-xzOf", join(folder, file), "package/package.json"]);
    const manifest = JSON.parse(stdout);
    const version = releasedVersion(name);
    for (const other of packageNames) {
      const id = `@sluice/${other}`;
      if (manifest.dependencies?.[id]) manifest.dependencies[id] = `^${releasedVersion(other)}`;
    }
    const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`;
    const dist = { tarball: `${origin}/${file}`, integrity };
    const versions = { [version]: { ...manifest, version, dist } };
    const packument = { name: manifest.name, "dist-tags": { latest: version }, versions };
    files.set(`/${manifest.name}`, () => JSON.stringify(packument));
    files.set(`/${file}`, () => tarball);
  }
  return { origin, close: () => server.close() };
}

const folder = mkdtempSync(join(tmpdir(), "sluice-template-"));
try {
  const before = join(folder, "before");
  copyTemplate(before);
  vendorPackages(before);
  const passed = await tryCopy(before);

  const after = join(folder, "after");
  copyTemplate(after);
  const registry = await startRegistry(join(folder, "registry"));
  await tryCopy(after, `--@sluice:registry=${registry.origin}`);
  registry.close();
  console.log(
    `template: copied, installed before and after a release, checked; ${passed} tests passed`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
