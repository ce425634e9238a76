// Asks the registry for known vulnerabilities of what the packages install, and fails for those of high or critical
// severity. A registry that offers no advisories is told in one line, and is no failure.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isMain } from "./is-main.mjs";

/**
 * What an audit means: `{ findings, dependencies }`, or `{ skipped }` with the reason why there were no advisories to be
 * had. Throws for everything that is neither.
 */
export function readAudit({ stdout, stderr }) {
  // the words of pnpm are broken into lines with a border
  const said = `${stdout}\n${stderr}`.replaceAll(/\s*\n[\s│×]*/g, " ").trim();
  if (isRefusal(said)) return { skipped: said };
  let audit;
  try {
    audit = JSON.parse(stdout);
  } catch (error) {
    throw new Error(`the audit said nothing that can be read: ${said}`, { cause: error });
  }
  const dependencies = audit.metadata?.totalDependencies;
  if (!audit.advisories || !(dependencies > 0))
    throw new Error(`the audit looked at no dependencies: ${said}`);
  const findings = Object.values(audit.advisories)
    .filter(({ severity }) => ["high", "critical"].includes(severity))
    .map(
      ({ module_name: name, severity, title, url, findings: found, patched_versions: patched }) => {
        const paths = found.flatMap((each) => each.paths);
        return `${name}: ${severity}: ${title} (${url}); by ${paths[0]}; fixed in ${patched}`;
      },
    );
  return { findings, dependencies };
}

/** True when the registry has no such endpoint, refuses it, or was not reached. */
function isRefusal(said) {
  return (
    said.includes("ERR_PNPM_AUDIT_ENDPOINT_NOT_EXISTS") ||
    /ERR_PNPM_AUDIT_BAD_RESPONSE .*(?:responded with [45]\d\d|Failed to request)/.test(said)
  );
}

if (isMain(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const { packageManager } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const pnpm = ["--yes", "--loglevel=error", packageManager];
  const { error, stdout, stderr } = spawnSync(
    "npx",
    [...pnpm, "audit", "--prod", "--json", ...process.argv.slice(2)],
    {
      cwd: root,
      encoding: "utf8",
      env: { ...process.env, PNPM_CONFIG_FETCH_RETRIES: "1" },
      maxBuffer: 2 ** 26,
      shell: process.platform === "win32",
      timeout: 300_000,
    },
  );
  if (error) throw error;
  const { skipped, findings, dependencies } = readAudit({ stdout, stderr });
  for (const finding of findings ?? []) console.error(finding);
  if (findings?.length > 0) process.exit(1);
  console.log(
    skipped === undefined
      ? `audit: ${dependencies} dependencies, none with a known vulnerability of high or critical severity`
      : `audit: skipped, the registry offers no advisories: ${skipped}`,
  );
}
