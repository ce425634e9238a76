import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const compiler = join(root, "node_modules/typescript/bin/tsc");

const strict = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  target: "es2023",
  types: ["node"],
  allowImportingTsExtensions: true,
};

/** Compiler options of users, by their name. */
export const consumerSettings = {
  nodenext: { ...strict, module: "nodenext" },
  bundler: { ...strict, module: "esnext", moduleResolution: "bundler", lib: ["es2023", "dom"] },
  // @tsconfig/bun
  bun: {
    ...strict,
    lib: ["ESNext"],
    target: "ESNext",
    module: "Preserve",
    moduleResolution: "bundler",
    moduleDetection: "force",
    allowJs: true,
    verbatimModuleSyntax: true,
    noFallthroughCasesInSwitch: true,
    noUncheckedIndexedAccess: true,
    noImplicitOverride: true,
  },
} as const;

/** A project of a user in a temporary folder, with every package of the workspace as it is published, and both SDKs. */
export interface ConsumerProject {
  /** Errors of programs, by the paths of their files. Replaces the programs before. */
  check(compilerOptions: object, programs: Readonly<Record<string, string>>): Promise<string[]>;
  [Symbol.asyncDispose](): Promise<void>;
}

export async function openConsumerProject(): Promise<ConsumerProject> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-types-"));
  const modules = join(folder, "node_modules");
  const types = join(folder, "types");
  await emitDeclarations(folder, types);
  await writeFile(join(types, "package.json"), JSON.stringify({ type: "module" }));
  for (const name of await readdir(join(root, "packages"))) await publish(modules, types, name);
  const packages = (await readdir(join(root, "packages"))).map((name) => `packages/${name}`);
  for (const owner of ["e2e", ".", ...packages])
    await linkModules(join(root, owner, "node_modules"), modules);
  return {
    async check(compilerOptions, programs) {
      const project = join(folder, "project");
      await rm(project, { recursive: true, force: true });
      await mkdir(project);
      await writeFile(join(project, "package.json"), JSON.stringify({ type: "module" }));
      for (const [name, code] of Object.entries(programs)) {
        await mkdir(dirname(join(project, name)), { recursive: true });
        await writeFile(join(project, name), code);
      }
      return compile(project, { compilerOptions, files: Object.keys(programs) });
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

/** Writes the declarations of all packages, as the build does, below `types`. */
async function emitDeclarations(folder: string, types: string): Promise<void> {
  const compilerOptions = {
    noCheck: true,
    emitDeclarationOnly: true,
    rootDir: join(root, "packages"),
    outDir: types,
    typeRoots: [join(root, "node_modules/@types")],
  };
  const include = [join(root, "packages/*/src")];
  const project = { extends: join(root, "tsconfig.base.json"), compilerOptions, include };
  const errors = await compile(folder, project);
  if (errors.length > 0) throw new Error(errors.join("\n"));
}

/** Installs a package: its published manifest, and its declarations as `dist`. */
async function publish(modules: string, types: string, name: string): Promise<void> {
  const manifest = JSON.parse(await readFile(join(root, "packages", name, "package.json"), "utf8"));
  const installed = join(modules, manifest.name);
  await mkdir(installed, { recursive: true });
  const { version, type, publishConfig } = manifest;
  const published = { name: manifest.name, version, type, exports: publishConfig.exports };
  await writeFile(join(installed, "package.json"), JSON.stringify(published));
  await symlink(join(types, name, "src"), join(installed, "dist"));
}

/** Links the packages of others that are in `source`, unless they are linked already. */
async function linkModules(source: string, modules: string): Promise<void> {
  for (const name of await readdir(source)) {
    if (name.startsWith(".") || name === "sluice" || name === "@sluice") continue;
    const names = name.startsWith("@")
      ? (await readdir(join(source, name))).map((inner) => join(name, inner))
      : [name];
    for (const found of names) {
      await mkdir(dirname(join(modules, found)), { recursive: true });
      await symlink(join(source, found), join(modules, found)).catch(unlessLinked);
    }
  }
}

function unlessLinked(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}

/** The errors that the compiler prints for a project, each in one line. */
export async function compile(folder: string, project: object): Promise<string[]> {
  const settings = join(folder, "tsconfig.json");
  await writeFile(settings, JSON.stringify(project));
  const output = await new Promise<string>((resolve, reject) => {
    execFile(
      process.execPath,
      [compiler, "-p", settings, "--pretty", "false"],
      { cwd: folder, timeout: 300_000 },
      (error, stdout) => (error?.killed ? reject(error) : resolve(stdout)),
    );
  });
  return output.split("\n").filter((line) => /\berror TS\d+:/.test(line));
}
