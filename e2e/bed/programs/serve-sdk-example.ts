/** The official SDK's own example servers, each with the two lines of Sluice in it. Their parent is told where they serve. */
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { generateKey } from "@sluice/core";
import type { DeliveryMode } from "@sluice/core/internal";
import { createSluice, type Sluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createFrontHandler } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { freePort, untilAnswered } from "../listen.ts";

/** What the parent sets. */
export interface SdkExampleSettings {
  /** Names of files in `examples/server` of the SDK. */
  readonly examples: readonly string[];
  /** What each resource below `files://sdk/` holds. */
  readonly content: { readonly text: string; readonly times: number };
  /** The names of the resources: how their bytes travel. */
  readonly modes: readonly DeliveryMode[];
}

/** What it says first: the URL of each example by its name. */
export type SdkExampleHello = Readonly<Record<string, string>>;

const { examples, content, modes } = JSON.parse(process.argv[2] ?? "{}") as SdkExampleSettings;
const text = content.text.repeat(content.times);
/** What the lines in the examples refer to. */
const sluices: Record<string, Sluice> = {};
Object.assign(globalThis, { sluices, createFrontHandler, toNodeHandler });
const required = createRequire(import.meta.url).resolve("@modelcontextprotocol/sdk/package.json");
const sdk = join(dirname(required), "../esm");
const folder = await mkdtemp(join(tmpdir(), "sluice-example-"));
await symlink(join(sdk, "../../../.."), join(folder, "node_modules"));
// what an example tells its operator
console.log = () => {};

/** Replaces exactly one place, or throws. */
function insert(program: string, place: RegExp, replacement: string): string {
  const changed = program.replace(place, replacement);
  if (changed === program) throw new Error(`the example has no ${String(place)}`);
  return changed;
}

/** Starts an example on a port of its own; gives its URL. */
async function start(example: string): Promise<string> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/mcp`;
  sluices[example] = createSluice({
    storage: createMemoryBackend(Object.fromEntries(modes.map((mode) => [mode, text]))),
    baseUri: "files://sdk/",
    endpoint: url,
    keys: [generateKey()],
    delivery: ({ info }) => info.key as DeliveryMode,
  });
  const original = join(sdk, "examples/server", `${example}.js`);
  let source = await readFile(original, "utf8");
  const sluice = `sluices.${example}`;
  source = insert(
    source,
    /\n {4}return server;\n\};/,
    `\n    return ${sluice}.attach(server);\n};`,
  );
  source = insert(
    source,
    /const app = createMcpExpressApp\(\);/,
    `$&\napp.use(toNodeHandler(createFrontHandler(${sluice})));`,
  );
  source = insert(source, /const ((?:MCP_)?PORT) = .*;/, `const $1 = ${port};`);
  source = source.replaceAll(
    /from '(\.\.?\/[^']+)'/g,
    (_all, path: string) => `from '${new URL(path, pathToFileURL(original)).href}'`,
  );
  const file = join(folder, `${example}.mjs`);
  await writeFile(file, source);
  await import(pathToFileURL(file).href);
  await untilAnswered(url);
  return url;
}

const urls = await Promise.all(examples.map(async (name) => [name, await start(name)] as const));
await rm(folder, { recursive: true });
process.on("disconnect", () => process.exit());
process.send?.(Object.fromEntries(urls) satisfies SdkExampleHello);
