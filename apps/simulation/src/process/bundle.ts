import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Plugin, rolldown } from "rolldown";
import { type Edit, Edits } from "./edits.ts";

/** The product as the body of a function, and the large libraries that it imports. */
export interface ProductBundle {
  readonly code: string;
  /** By the specifier that the product has for it. */
  readonly libraries: ReadonlyMap<string, string>;
}

const product = fileURLToPath(new URL("../product.ts", import.meta.url));
/** Sources that need sockets or threads have a stand-in here. */
const standIns: ReadonlyMap<string, string> = new Map([
  [
    "client/src/net/node/http-exchange.ts",
    fileURLToPath(new URL("stand-ins/http-exchange.ts", import.meta.url)),
  ],
]);

/** Libraries that take long to evaluate: processes share them. All others are a part of the bundle. */
const isLarge = /^(?:@modelcontextprotocol\/|zod\/|file-type\/)/;

/** Bundles the sources of the product with some edits. */
export async function bundleProduct(edits: readonly Edit[]): Promise<ProductBundle> {
  const libraries = new Map<string, string>();
  const wanted = new Edits(edits);
  const plugin: Plugin = {
    name: "simulation",
    async resolveId(specifier, importer, options) {
      if (importer === undefined) return null;
      if (isLarge.test(specifier)) {
        const found = await this.resolve(specifier, importer, { ...options, skipSelf: true });
        if (!found) return null;
        libraries.set(specifier, found.id);
        return { id: specifier, external: true };
      }
      if (!specifier.startsWith(".")) return null;
      const path = join(dirname(importer), specifier);
      for (const [file, standIn] of standIns) if (path.endsWith(`/${file}`)) return standIn;
      return null;
    },
    load(path) {
      if (!/\/packages\/[a-z0-9-]+\/src\/.*\.ts$/.test(path)) return null;
      return { code: wanted.apply(path, readFileSync(path, "utf8")), moduleType: "ts" };
    },
  };
  const code = await bundle(product, plugin);
  wanted.ensureUsed();
  return { code, libraries };
}

/** Bundles the libraries: one module that exports each under the specifier it has in the product. */
export async function bundleLibraries(libraries: ReadonlyMap<string, string>): Promise<string> {
  const entry = "\0libraries";
  const lines = [...libraries].map(
    ([specifier, path], index) =>
      `import * as library${index} from ${JSON.stringify(path)};\nexport { library${index} as ${JSON.stringify(specifier)} };`,
  );
  return bundle(entry, {
    name: "libraries",
    resolveId: (specifier) => (specifier === entry ? entry : null),
    load: (id) => (id === entry ? { code: lines.join("\n"), moduleType: "js" } : null),
  });
}

async function bundle(input: string, plugin: Plugin): Promise<string> {
  const build = await rolldown({
    input,
    plugins: [plugin],
    platform: "node",
    resolve: { conditionNames: ["@sluice/source", "node", "import", "default"] },
    checks: { bundlerTimings: false },
    onLog(level, log) {
      if (level === "warn" && log.code !== "EVAL" && log.code !== "CIRCULAR_DEPENDENCY")
        throw new Error(log.message);
    },
  });
  const { output } = await build.generate({
    format: "cjs",
    codeSplitting: false,
    // a compiled function cannot import
    dynamicImportInCjs: false,
  });
  await build.close();
  return output[0].code;
}
