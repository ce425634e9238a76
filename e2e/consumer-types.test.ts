// @module-tag slow
// The first clients of the docs type-check in projects of users: with the settings of Node, of bundlers and of Bun, and with
// both versions of the SDK.
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-types-"));
  const installed = {
    sluice: "packages/sluice",
    "@sluice/client": "packages/client",
    "@modelcontextprotocol/client": "packages/client/node_modules/@modelcontextprotocol/client",
    "@modelcontextprotocol/sdk": "packages/client/node_modules/@modelcontextprotocol/sdk",
    "@types/node": "node_modules/@types/node",
  };
  for (const [name, source] of Object.entries(installed)) {
    const link = join(folder, "node_modules", name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(root, source), link);
  }
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
});
afterEach(() => rm(folder, { recursive: true }));

const strict = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  target: "es2023",
  types: ["node"],
  // our packages are read as sources here
  customConditions: ["@sluice/source"],
  allowImportingTsExtensions: true,
};

const settings = {
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
};

/** The errors of programs, each in a file. Users have declarations of our sources: errors in those do not count. */
async function check(compilerOptions: object, programs: Record<string, string>): Promise<string[]> {
  for (const [name, code] of Object.entries(programs)) await writeFile(join(folder, name), code);
  const project = { compilerOptions, files: Object.keys(programs) };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(project));
  const compiler = join(root, "node_modules/typescript/bin/tsc");
  const output = await new Promise<string>((resolve) => {
    execFile(process.execPath, [compiler, "-p", folder], { cwd: folder }, (_, stdout) =>
      resolve(stdout),
    );
  });
  return output.split("\n").filter((line) => /^[\w-]+\.ts\(/.test(line));
}

const example = (name: string): Promise<string> =>
  readFile(join(root, "e2e/examples", name), "utf8");

const withSdk1 = `
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { createStreaming, saveResource, streamResource } from "sluice/client";

const { fetch, capabilities } = createStreaming();
const client = new Client({ name: "me", version: "1.0.0" }, { capabilities });
const endpoint = new URL("http://127.0.0.1:2532/mcp");
await client.connect(new StreamableHTTPClientTransport(endpoint, { fetch }));
const { path, sha256 }: { path: string; sha256: string } = await saveResource(client, "a:b", "c/");
const stream = await streamResource(client, "a:b");
const { size }: { size: number } = await stream.saveTo("c/", { connections: 4 });
console.log(path, sha256, size);
`;

test.each(Object.entries(settings))("first clients under %s", async (_, compilerOptions) => {
  const errors = await check(compilerOptions, {
    "first.ts": await example("first-client.ts"),
    "own.ts": await example("client.ts"),
    "sdk1.ts": withSdk1,
  });
  expect(errors).toEqual([]);
});

test("wrong calls are type errors, each at its line", async () => {
  const errors = await check(settings.bundler, {
    "wrong.ts": `import { connect, createStreaming, saveResource } from "sluice/client";
const client = await connect("http://127.0.0.1:2532/mcp");
await saveResource(client, "a:b");
await saveResource(client, "a:b", "c/", { conections: 4 });
await connect("http://127.0.0.1:2532/mcp", { token: 7 });
createStreaming({ bytes: "nodejs" });
await saveResource({}, "a:b", "c/");
await client.noSuchMethod();
`,
  });
  const lines = errors.map((error) => /^wrong\.ts\((\d+),/.exec(error)?.[1]);
  expect(lines).toEqual(["3", "4", "5", "6", "7", "8"]);
});
