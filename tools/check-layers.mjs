// Fails when an arrow of docs/contributing/architecture.md is drawn the wrong way: reads the manifests and the
// import statements of every package, and walks what the portable entries reach.
import { readdirSync, readFileSync, existsSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { builtinModules } from "node:module";
import { isMain } from "./is-main.mjs";

/** What each package may import of this workspace. Everything else is upward or sideways. */
const mayImport = {
  core: [],
  state: ["core"],
  storage: ["core"],
  "storage-fs": ["core", "storage"],
  "storage-s3": ["core", "storage"],
  "storage-azure-blob": ["core", "storage"],
  "storage-graph": ["core", "storage"],
  "storage-files-sdk": ["core", "storage"],
  server: ["core", "state", "storage"],
  archive: ["core", "storage"],
  "state-redis": ["core", "state", "storage"],
  "binary-transfer": ["core", "storage", "server"],
  "transport-http": ["core", "state", "storage", "server", "binary-transfer"],
  resume: ["core", "state", "server", "transport-http"],
  "transport-stdio": ["core", "binary-transfer"],
  client: ["core"],
  bridge: ["core", "storage", "storage-fs", "client"],
  "transport-ws": ["core", "state", "server", "client", "binary-transfer"],
  uploads: ["core", "state", "storage", "server", "transport-http", "client"],
  cli: [
    "core",
    "state",
    "storage",
    "storage-fs",
    "storage-s3",
    "storage-azure-blob",
    "storage-graph",
    "server",
    "transport-http",
    "transport-ws",
    "client",
    "uploads",
    "bridge",
  ],
  // one install for users: re-exports alone, and no package of ours stands on it
  sluice: [
    "core",
    "state",
    "storage",
    "storage-fs",
    "server",
    "transport-http",
    "client",
    "uploads",
    "cli",
  ],
};

/**
 * The chapters of a package (the folders of its source), from the lowest to the highest: a file may import what stands
 * before its own chapter. The files beside the chapters are entries, which may import all.
 */
const chapters = {
  core: [
    "async",
    "errors",
    "bytes",
    "files",
    "transfer",
    "wire",
    "headers",
    "tokens",
    "json-rpc",
    "tree",
    "sockets",
  ],
  state: ["contract", "memory", "tokens", "conformance"],
  storage: ["contract", "plugin", "memory", "wrappers", "conformance"],
  server: [
    "faults",
    "http",
    "audit",
    "limits",
    "access",
    "content",
    "provide",
    "storage",
    "calls",
    "apps",
    "urls",
    "resources",
    "delivery",
    "changes",
    "tools",
    "attach",
    "options",
  ],
  archive: ["names", "entries", "formats", "provider"],
  resume: ["protocol", "stream", "client", "rerun", "server"],
  "transport-stdio": ["frames", "channel"],
  uploads: [
    "slots",
    "checks",
    "limits",
    "store",
    "confirm",
    "receive",
    "resumable",
    "elicitation",
    "page",
    "routes",
    "ask",
    "files-sep-2631",
    "tools",
    "options",
  ],
  "storage-fs": ["root", "read", "write", "watch"],
  "binary-transfer": ["peer", "content", "multipart", "http"],
  "transport-http": [
    "endpoint",
    "events",
    "sessions",
    "download",
    "binary",
    "page",
    "compose",
    "node",
  ],
  "transport-ws": ["messages", "binary", "client", "server"],
  client: [
    "trust",
    "net",
    "calls",
    "connect",
    "download",
    "cache",
    "foreign",
    "save",
    "tree",
    "upload",
  ],
  bridge: [
    "messages",
    "spool",
    "upstream",
    "confine",
    "relay",
    "links",
    "saved",
    "doctor",
    "tools",
    "hosts",
  ],
  cli: [
    "terminal",
    "storages",
    "server-calls",
    "save",
    "serve",
    "hosts",
    "bridge",
    "download",
    "sync",
    "upload",
    "commands",
  ],
};

/** Packages whose source may name the MCP SDK at all. */
const knowsTheSdk = new Set([
  "bridge",
  "client",
  "server",
  "binary-transfer",
  "transport-http",
  "transport-stdio",
  "transport-ws",
  "resume",
  "uploads",
  "cli",
]);

/** Entries that must run on Workers, Deno and Bun: nothing they reach may import a Node module. */
const portableEntries = [
  "core/src/index.ts",
  "core/src/internal.ts",
  "core/src/sha256.ts",
  "state/src/index.ts",
  "state/src/conformance.ts",
  "state/src/internal.ts",
  "storage/src/index.ts",
  "storage/src/plugin.ts",
  "server/src/index.ts",
  "server/src/internal.ts",
  "server/src/telemetry.ts",
  "transport-http/src/index.ts",
  "transport-http/src/internal.ts",
  "client/src/index.ts",
  "client/src/connect.ts",
  "client/src/send.ts",
  "client/src/cache.ts",
  "client/src/internal.ts",
  "archive/src/index.ts",
  "resume/src/index.ts",
  "resume/src/client.ts",
  "resume/src/internal.ts",
  "resume/src/rerun.ts",
  "transport-ws/src/client.ts",
  "binary-transfer/src/index.ts",
  "binary-transfer/src/client.ts",
  "binary-transfer/src/internal.ts",
  "uploads/src/index.ts",
  "uploads/src/experimental.ts",
  "uploads/src/internal.ts",
  "sluice/src/index.ts",
  "sluice/src/client.ts",
];

const importStatement =
  /^\s*(?:import|export)\s(?:[^"';]*?\sfrom\s+)?["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']\s*\)/gm;

/** Module specifiers that a source text imports, also dynamically; `import type` counts too. */
export function importsOf(source) {
  return [...source.matchAll(importStatement)].map((match) => match[1] ?? match[2]);
}

/** Name of the package a specifier belongs to, or undefined for a relative one. */
export function packageOf(specifier) {
  if (specifier.startsWith(".")) return undefined;
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/** The folder of a package of ours, by its name, or undefined for another one. */
function siblingOf(name) {
  if (name === "sluice") return name;
  return name.startsWith("@sluice/") ? name.slice("@sluice/".length) : undefined;
}

/** Findings for one source file of `pkg`, whose manifest is given. */
export function checkFile(pkg, file, source, manifest) {
  const findings = [];
  const declared = { ...manifest.dependencies, ...manifest.peerDependencies };
  for (const specifier of importsOf(source)) {
    const name = packageOf(specifier);
    if (name === undefined || isBuiltin(specifier) || name === manifest.name) continue;
    if (!(name in declared)) findings.push(`${file}: imports ${name}, which its manifest lacks`);
    const sibling = siblingOf(name);
    if (sibling !== undefined && !mayImport[pkg]?.includes(sibling))
      findings.push(`${file}: ${pkg} must not import ${sibling}`);
    if (name.startsWith("@modelcontextprotocol/") && !knowsTheSdk.has(pkg))
      findings.push(`${file}: ${pkg} must not import the MCP SDK`);
  }
  return findings;
}

/** The first folder of a path. */
function chapterOf(path) {
  return path.includes("/") ? path.split("/")[0] : undefined;
}

/** Imports of one source file from a chapter that does not stand below its own. */
export function checkChapters(order, file, source) {
  const own = chapterOf(file);
  if (own === undefined) return [];
  const place = order.indexOf(own);
  if (place === -1) return [`${file}: ${own} is not among the chapters of tools/check-layers.mjs`];
  return importsOf(source)
    .filter((specifier) => specifier.startsWith("."))
    .map((specifier) => chapterOf(join(dirname(file), specifier)))
    .filter((chapter) => chapter !== own && !order.slice(0, place).includes(chapter))
    .map((chapter) => `${file}: ${own} must not import ${chapter ?? "an entry of its package"}`);
}

/** Node modules reached from `entry` through relative imports, as "file imports module". */
export function checkPortable(entry, read) {
  const findings = [];
  const seen = new Set();
  const visit = (file) => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const specifier of importsOf(read(file))) {
      if (specifier.startsWith(".")) visit(resolve(dirname(file), specifier));
      else if (isBuiltin(specifier))
        findings.push(`${file}: imports ${specifier}, but a portable entry reaches it`);
    }
  };
  visit(entry);
  return findings;
}

function isBuiltin(specifier) {
  return specifier.startsWith("node:") || builtinModules.includes(specifier);
}

function sourceFiles(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && /\.m?[jt]s$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name));
}

function checkRepository(root) {
  const packages = join(root, "packages");
  const findings = [];
  for (const pkg of readdirSync(packages)) {
    if (!(pkg in mayImport)) findings.push(`packages/${pkg} has no row in tools/check-layers.mjs`);
    const manifest = JSON.parse(readFileSync(join(packages, pkg, "package.json"), "utf8"));
    for (const name of Object.keys(manifest.dependencies ?? {})) {
      const sibling = siblingOf(name);
      if (sibling !== undefined && !mayImport[pkg]?.includes(sibling))
        findings.push(`packages/${pkg}/package.json: ${pkg} must not depend on ${name}`);
    }
    const sources = join(packages, pkg, "src");
    for (const file of sourceFiles(sources)) {
      const source = readFileSync(file, "utf8");
      findings.push(...checkFile(pkg, relative(root, file), source, manifest));
      if (chapters[pkg])
        findings.push(
          ...checkChapters(chapters[pkg], relative(sources, file), source).map(
            (finding) => `packages/${pkg}/src/${finding}`,
          ),
        );
    }
  }
  for (const entry of portableEntries)
    findings.push(
      ...checkPortable(join(packages, entry), (file) => readFileSync(file, "utf8")).map((finding) =>
        finding.replace(root + "/", ""),
      ),
    );
  return findings;
}

if (isMain(import.meta.url)) {
  const findings = checkRepository(dirname(dirname(fileURLToPath(import.meta.url))));
  for (const finding of findings) console.error(finding);
  if (findings.length > 0) process.exit(1);
  console.log("layers: every import points downward");
}
