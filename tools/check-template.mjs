// Proves that the plugin template works where a newcomer puts it: copied out of this repository, installed with npm, then
// checked and tested as its README says. Once before a release, with packed tarballs beside it, and once after it, from a
// registry that has our packages. Needs the build, so it is part of `npm run check`.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { copyTemplate, packageNames, vendorPackages } from "./copy-template.mjs";
import { startRegistry } from "./packed-registry.mjs";

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

const folder = mkdtempSync(join(tmpdir(), "sluice-template-"));
try {
  const before = join(folder, "before");
  copyTemplate(before);
  vendorPackages(before);
  const passed = await tryCopy(before);

  const after = join(folder, "after");
  copyTemplate(after);
  const registry = await startRegistry(join(folder, "registry"), packageNames);
  await tryCopy(after, `--@sluice:registry=${registry.origin}`);
  registry.close();
  console.log(
    `template: copied, installed before and after a release, checked; ${passed} tests passed`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
