// Holds what the hosting service reads, before it does: workflows, dependency updates, forms of issues, and the manifests for
// registries of servers are valid by the published schemas; workflows keep the rules below.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Ajv } from "ajv";
import { parse } from "yaml";
import { isMain } from "./is-main.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const read = (path) => readFileSync(join(root, path), "utf8");

/** Which schema of `tools/schemas` holds for a path. */
const schemas = [
  ["github-workflow", /^\.github\/workflows\/.*\.yml$/],
  ["dependabot-2.0", /^\.github\/dependabot\.yml$/],
  ["github-issue-forms", /^\.github\/ISSUE_TEMPLATE\/(?!config).*\.yml$/],
  ["mcpb-manifest-v0.3", /^templates\/claude-desktop\/manifest\.json$/],
];

/** A function that gives the findings of a schema in a value, each with its place. */
export function validatorOf(schema) {
  const validate = new Ajv({ strict: false, validateFormats: false }).compile(schema);
  return (value) =>
    validate(value)
      ? []
      : validate.errors.map(({ instancePath, message }) => `${instancePath || "/"} ${message}`);
}

/** A line of a step: one script of ours, without a value of the event in it, which anyone may have written. */
const runLine = /^(?:\.ci\/(?<script>[\w-]+)|npm (?:run )?(?<task>[\w:-]+)(?: -- [\w -]+)?)$/;

function checkRun(line, { scripts, tasks }) {
  const { script, task } = runLine.exec(line)?.groups ?? {};
  if (script === undefined && task === undefined)
    return `\`${line}\` is not one script: write it into .ci, where .ci/run calls it too`;
  if (script !== undefined && !scripts.includes(script)) return `.ci/${script} does not exist`;
  if (task !== undefined && !tasks.includes(task)) return `package.json has no script ${task}`;
  return undefined;
}

/** Uses of actions in the text of a workflow, each with its digest and the version in the comment. */
export function actionsOf(text) {
  return [...text.matchAll(/^\s*-? *uses: (\S+)(?: # (v\d+\.\d+\.\d+))?$/gm)].map(
    ([, uses, version]) => {
      const [action, digest] = uses.split("@");
      return { action, digest, version };
    },
  );
}

/** Findings of our rules in one workflow. `known` is `{ scripts, tasks }`: the files of `.ci`, the scripts of package.json. */
export function checkWorkflow(text, known) {
  const { permissions, jobs = {} } = parse(text);
  const findings = [];
  if (permissions?.contents !== "read" || Object.keys(permissions).length !== 1)
    findings.push("permissions: begin with contents: read, and give a job what it needs");
  for (const [name, { needs = [], steps = [], ...job }] of Object.entries(jobs)) {
    if (job["timeout-minutes"] === undefined) findings.push(`${name}: has no timeout-minutes`);
    for (const needed of [needs].flat())
      if (!Object.hasOwn(jobs, needed)) findings.push(`${name}: needs ${needed}, which is no job`);
    const wrong = steps
      .filter(({ run }) => run !== undefined)
      .map(({ run }) => checkRun(run, known));
    findings.push(...wrong.filter(Boolean).map((finding) => `${name}: ${finding}`));
    const checkouts = steps.filter(({ uses }) => uses?.startsWith("actions/checkout@"));
    if (checkouts.some((step) => step.with?.["persist-credentials"] !== false))
      findings.push(`${name}: a checkout leaves its token: write persist-credentials: false`);
  }
  const unpinned = actionsOf(text).filter(
    ({ digest, version }) => !/^[0-9a-f]{40}$/.test(digest ?? "") || version === undefined,
  );
  for (const { action } of unpinned)
    findings.push(`${action}: pin it by its whole digest, with the version behind: @… # v1.2.3`);
  return findings;
}

/** Actions that have more than one digest in the workflows of this repository. */
export function checkOneDigest(texts) {
  const digests = new Map();
  for (const { action, digest } of texts.flatMap(actionsOf))
    digests.set(action, (digests.get(action) ?? new Set()).add(digest));
  return [...digests]
    .filter(([, found]) => found.size > 1)
    .map(([action]) => `${action}: has several digests`);
}

function checkRepository() {
  const files = readdirSync(join(root, ".github"), { recursive: true }).map((path) =>
    join(".github", path),
  );
  const paths = [...files, "templates/claude-desktop/manifest.json"].filter((path) =>
    existsSync(join(root, path)),
  );
  const { scripts } = JSON.parse(read("package.json"));
  const known = { scripts: readdirSync(join(root, ".ci")), tasks: Object.keys(scripts) };
  const validated = schemas.flatMap(([name, pattern]) => {
    const findingsOf = validatorOf(JSON.parse(read(`tools/schemas/${name}.json`)));
    return paths
      .filter((path) => pattern.test(path))
      .map((path) => ({ path, findings: findingsOf(parse(read(path))) }));
  });
  const workflows = paths.filter((path) => schemas[0][1].test(path));
  const ruled = workflows.map((path) => ({ path, findings: checkWorkflow(read(path), known) }));
  const pinned = { path: ".github/workflows", findings: checkOneDigest(workflows.map(read)) };
  const all = [...validated, ...ruled, pinned];
  return {
    files: validated.length,
    findings: all.flatMap(({ path, findings }) => findings.map((finding) => `${path}: ${finding}`)),
  };
}

if (isMain(import.meta.url)) {
  const { files, findings } = checkRepository();
  for (const finding of findings) console.error(finding);
  if (findings.length > 0) process.exit(1);
  console.log(`workflows: ${files} files are valid, and every action is pinned by its digest`);
}
