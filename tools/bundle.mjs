// Makes the JavaScript of packages, one file an entry and what entries share; `tsc -b` makes their declarations. What a
// manifest has in `dist/modules` stays one file a module.
//   node tools/bundle.mjs [NAME...]     all packages when none is named; with or without @sluice/
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown, RolldownMagicString } from "rolldown";
import { isMain } from "./is-main.mjs";

const packages = fileURLToPath(new URL("../packages/", import.meta.url));
const isScript = /\.js(?:\.map)?$/;

/** The files directly in `src/` are the entries of a package. */
function entriesOf(source) {
  const files = readdirSync(source).filter((name) => name.endsWith(".ts"));
  return Object.fromEntries(
    files.map((name) => [name.slice(0, -".ts".length), join(source, name)]),
  );
}

/** Whether the evaluation of an expression may do something, as far as the bundler of an application can tell. */
function mayAct(node) {
  if (node === null || typeof node !== "object") return false;
  if (Array.isArray(node)) return node.some(mayAct);
  if (/Function|Class/.test(node.type)) return false;
  const acts = /^(?:CallExpression|NewExpression|TaggedTemplateExpression|TemplateLiteral)$/;
  return acts.test(node.type) || Object.values(node).some(mayAct);
}

/**
 * Marks what a file computes when it is loaded as free of effects, so that an application's bundler leaves it out where
 * nothing uses it. Our modules promise that (`sideEffects: false`), but the promise is one for whole files.
 */
const pureConstants = {
  name: "pure-constants",
  renderChunk(code) {
    const marked = new RolldownMagicString(code);
    for (const { type, declarations } of this.parse(code).body) {
      if (type !== "VariableDeclaration") continue;
      for (const { init } of declarations) {
        if (!mayAct(init) || code.startsWith("/* @__PURE__ */", init.start - 16)) continue;
        marked.appendLeft(init.start, "/* @__PURE__ */ (() => (");
        marked.appendRight(init.end, "))()");
      }
    }
    return { code: marked };
  },
};

/** In what is made for Node.js, `x.node.ts` stands for the `x.ts` beside it. */
const nodeFiles = {
  name: "node-files",
  resolveId(specifier, importer) {
    if (importer === undefined || !/^\.{1,2}\/.*\.ts$/.test(specifier)) return null;
    const file = join(dirname(importer), specifier.replace(/\.ts$/, ".node.ts"));
    return existsSync(file) ? file : null;
  },
};

/** What every server loads has one file for all that entries share. Elsewhere such a file would load later parts early. */
const withOneShared = new Set(["core", "storage"]);

/** Throws for an import of a package that users of this one would not have. */
export function ensureInstalled(files, { name, dependencies, peerDependencies }) {
  const own = new Set(files.map(({ fileName }) => fileName));
  const imported = files.flatMap(({ imports = [], dynamicImports = [] }) => [
    ...imports,
    ...dynamicImports,
  ]);
  for (const specifier of imported) {
    if (specifier.startsWith("node:") || own.has(specifier)) continue;
    const [packageName] = /^(?:@[^/]+\/)?[^/]+/.exec(specifier);
    if (!Object.hasOwn({ ...dependencies, ...peerDependencies }, packageName))
      throw new Error(`${name}: imports ${specifier}, which its manifest does not name`);
  }
}

/** The files that a manifest leads to, whatever the condition. */
function targetsOf(exported) {
  return typeof exported === "string" ? [exported] : Object.values(exported).flatMap(targetsOf);
}

/** Writes the JavaScript of a package anew, beside its declarations. */
export async function bundle(name, plugins = [pureConstants], dist = join(packages, name, "dist")) {
  const folder = join(packages, name);
  const source = join(folder, "src");
  const before = existsSync(dist) ? readdirSync(dist, { recursive: true }) : [];
  for (const file of before) if (isScript.test(file)) rmSync(join(dist, file));
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const targets = new Set(targetsOf([manifest.exports, manifest.bin ?? {}]));
  const entries = Object.entries(entriesOf(source));
  const options = {
    cwd: folder,
    // an import of another package stays one, also of ours; what newer syntax is made of comes along
    external: (id) => !/^(?:[./\0]|@oxc-project\/runtime\/)/.test(id) && !id.startsWith(folder),
    platform: "neutral",
    transform: { target: "es2023" },
    treeshake: { moduleSideEffects: manifest.sideEffects },
    experimental: { nativeMagicString: true },
    // a busy machine is not a fault of the bundle
    checks: { bundlerTimings: false },
    onLog(level, log) {
      if (level !== "debug") throw new Error(`${name}: ${log.message}`);
    },
  };
  const output = {
    // the declarations have the documentation; bundlers need the marks of pure calls
    comments: { legal: true, annotation: true, jsdoc: false },
    // packages have no maps, and a mark that leads to none is a warning of bundlers
    sourcemap: "hidden",
  };
  const write = async (prefix, used, more) => {
    const named = entries.filter(([entry]) => targets.has(`./dist/${prefix}${entry}.js`));
    if (named.length === 0) return;
    const bundled = await rolldown({ ...options, plugins: used, input: Object.fromEntries(named) });
    const written = await bundled.write({ ...output, dir: join(dist, prefix), ...more });
    await bundled.close();
    ensureInstalled(written.output, manifest);
  };
  await write("", [nodeFiles, ...plugins], {
    chunkFileNames: "shared/[name].js",
    ...(withOneShared.has(name) && {
      codeSplitting: { groups: [{ name: "shared", minShareCount: 2 }] },
    }),
  });
  // for bundlers of applications, which load a part by itself only where it is a file
  await write("modules/", plugins, { preserveModules: true, preserveModulesRoot: source });
}

if (isMain(import.meta.url)) {
  const isBuilt = (name) => existsSync(join(packages, name, "tsconfig.build.json"));
  const named = process.argv.slice(2).map((name) => name.replace(/^@sluice\//, ""));
  const wanted = named.length === 0 ? readdirSync(packages).filter(isBuilt) : named;
  for (const name of wanted) await bundle(name);
}
