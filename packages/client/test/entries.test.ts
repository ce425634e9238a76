import { spawnSync } from "node:child_process";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { describe, expect, test } from "vitest";

const here = fileURLToPath(new URL(".", import.meta.url));

const entries = {
  index: "@sluice/client",
  connect: "@sluice/client/connect",
  send: "@sluice/client/send",
  cache: "@sluice/client/cache",
  internal: "@sluice/client/internal",
};
type Entry = keyof typeof entries;

/** The files that Node loads for all entries, where these conditions are set beside its own. */
function resolve(...conditions: readonly string[]): Record<Entry, string> {
  const code = `
    const files = Object.entries(${JSON.stringify(entries)});
    const found = files.map(([name, specifier]) => [name, import.meta.resolve(specifier)]);
    console.log(JSON.stringify(Object.fromEntries(found)));
  `;
  const flags = ["@sluice/source", ...conditions].map((condition) => `--conditions=${condition}`);
  const args = [...flags, "--input-type=module", "--eval", code];
  const { stdout } = spawnSync(process.execPath, args, { cwd: here, encoding: "utf8" });
  return JSON.parse(stdout) as Record<Entry, string>;
}
const filesFor = { node: once(() => resolve()), deno: once(() => resolve("deno")) };

/** What a bundler makes of all entries for these conditions; it gives what one of them loads. */
async function bundle(...conditions: string[]): Promise<(name: Entry) => string> {
  const built = await build({
    root: here,
    configFile: false,
    logLevel: "silent",
    resolve: { conditions: ["@sluice/source", ...conditions] },
    plugins: [
      {
        name: "entry",
        resolveId: (id) =>
          basename(id) in entries && id.startsWith(`${here}entry/`) ? id : undefined,
        load: (id) =>
          id.startsWith(`${here}entry/`)
            ? `export * from "${entries[basename(id) as Entry]}"`
            : undefined,
      },
    ],
    build: {
      write: false,
      minify: false,
      lib: {
        entry: Object.fromEntries(
          Object.keys(entries).map((name) => [name, `${here}entry/${name}`]),
        ),
        formats: ["es"],
      },
      // the peer that connect brings in
      rolldownOptions: { external: /^@modelcontextprotocol\// },
    },
  });
  const [{ output }] = [built].flat() as unknown as [{ output: Chunk[] }];
  const chunks = new Map(output.map((chunk) => [chunk.fileName, chunk]));
  return (name) => {
    const start = output.find((chunk) => chunk.isEntry && chunk.name === name)!;
    const loaded = new Set([start]);
    for (const { imports, dynamicImports } of loaded)
      for (const fileName of [...imports, ...dynamicImports])
        if (chunks.has(fileName)) loaded.add(chunks.get(fileName)!);
    return Array.from(loaded, ({ code, imports }) => [code, ...imports].join("\n")).join("\n");
  };
}

interface Chunk {
  readonly name: string;
  readonly isEntry: boolean;
  readonly fileName: string;
  readonly code: string;
  readonly imports: readonly string[];
  readonly dynamicImports: readonly string[];
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

// the flag of files that are opened, which a bundler leaves as it is
const nodeCode = /node:(?:dns|fs|https?|net)\b|O_NOFOLLOW/;

const free = [["module", "browser"], ["workerd", "worker", "browser"], ["module"]].map(
  (conditions) => ({ conditions, bundled: once(() => bundle(...conditions)) }),
);
const bundledForNode = once(() => bundle("node"));

const named = Object.entries(entries) as [Entry, string][];

describe.each(named.map(([name, specifier]) => ({ name, specifier })))("$specifier", ({ name }) => {
  test("is the Node code in Node, and the portable code in Deno", { tags: "slow" }, () => {
    expect(basename(filesFor.node()[name])).toBe(`${name}-node.ts`);
    expect(basename(filesFor.deno()[name])).toBe(`${name}.ts`);
  });

  test.each(free)(
    "is free of Node's modules under the conditions $conditions of a bundler",
    async ({ bundled }) => {
      const code = (await bundled())(name);
      expect(code.length).toBeGreaterThan(1_000);
      expect(code).not.toMatch(nodeCode);
    },
  );

  test(
    "negative control: with the condition node a bundle has them",
    { tags: "slow" },
    async () => {
      expect((await bundledForNode())(name)).toMatch(nodeCode);
    },
  );

  test("has every portable name in Node, too", async () => {
    const portable = Object.keys(await import(`../src/${name}.ts`));
    const node = Object.keys(await import(`../src/${name}-node.ts`));
    expect(portable.length).toBeGreaterThan(0);
    expect(node).toEqual(expect.arrayContaining(portable));
  });
});
