/** One of the official SDK's own example servers, with the two lines of Sluice in it. Its parent is told where it serves. */
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createFrontHandler } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { listen } from "../listen.ts";

/** What the parent sets. */
export interface SdkExampleSettings {
  /** Name of a file in `examples/server` of the SDK. */
  readonly example: string;
  /** What the resource `files://sdk/a.bin` holds. */
  readonly content: { readonly text: string; readonly times: number };
  readonly delivery: "direct" | "downloadUrl";
}

/** What it says first. */
export interface SdkExampleHello {
  readonly url: string;
}

const settings = JSON.parse(process.argv[2] ?? "{}") as SdkExampleSettings;
const { text, times } = settings.content;
const free = await listen(createServer());
const { port } = free;
await free.close();
const url = `http://127.0.0.1:${port}/mcp`;
const sluice = createSluice({
  storage: createMemoryBackend({ "a.bin": text.repeat(times) }),
  baseUri: "files://sdk/",
  endpoint: url,
  keys: [generateKey()],
  delivery: settings.delivery,
});
Object.assign(globalThis, { sluice, createFrontHandler, toNodeHandler });

/** Replaces exactly one place, or throws. */
function insert(program: string, place: RegExp, replacement: string): string {
  const changed = program.replace(place, replacement);
  if (changed === program) throw new Error(`the example has no ${String(place)}`);
  return changed;
}

const required = createRequire(import.meta.url).resolve("@modelcontextprotocol/sdk/package.json");
const sdk = join(dirname(required), "../esm");
const original = join(sdk, "examples/server", `${settings.example}.js`);
let source = await readFile(original, "utf8");
source = insert(source, /\n {4}return server;\n\};/, "\n    return sluice.attach(server);\n};");
source = insert(
  source,
  /const app = createMcpExpressApp\(\);/,
  "$&\napp.use(toNodeHandler(createFrontHandler(sluice)));",
);
source = insert(source, /const ((?:MCP_)?PORT) = .*;/, `const $1 = ${port};`);
source = source.replaceAll(
  /from '(\.\.?\/[^']+)'/g,
  (_all, path: string) => `from '${new URL(path, pathToFileURL(original)).href}'`,
);
const folder = await mkdtemp(join(tmpdir(), "sluice-example-"));
await symlink(join(sdk, "../../../.."), join(folder, "node_modules"));
const file = join(folder, "example.mjs");
await writeFile(file, source);
// what the example tells its operator
console.log = () => {};
await import(pathToFileURL(file).href);
await rm(folder, { recursive: true });
for (;;) {
  const isUp = await fetch(url, { method: "OPTIONS" }).then(
    () => true,
    () => false,
  );
  if (isUp) break;
  await new Promise((resolve) => setTimeout(resolve, 20));
}
process.on("disconnect", () => process.exit());
process.send?.({ url } satisfies SdkExampleHello);
