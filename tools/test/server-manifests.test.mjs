import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { packageManifest } from "../pack.mjs";
import { startOf } from "../pack-desktop.mjs";

const read = (path) => JSON.parse(readFileSync(path, "utf8"));
const command = packageManifest("sluice");
const registry = read("server.json");
const bundle = read("templates/claude-desktop/manifest.json");

test("the MCP registry gets the name, the version and the command of the package", () => {
  expect(registry.name).toBe(command.mcpName);
  const [npm] = registry.packages;
  expect([registry.version, npm.version]).toEqual([command.version, command.version]);
  expect(npm.identifier).toBe(command.name);
  // the registry's bound
  expect(registry.description.length).toBeLessThanOrEqual(100);
});

test("the bundle for Claude Desktop starts the command of the package, over stdio, for a picked folder", () => {
  const { entry_point: entry, mcp_config: start } = bundle.server;
  expect(entry).toBe(`node_modules/sluice/${command.bin.sluice.slice(2)}`);
  expect(start.args).toEqual([
    `\${__dirname}/${entry}`,
    "serve",
    "${user_config.folder}",
    "--stdio",
  ]);
  expect(bundle.user_config.folder).toMatchObject({ type: "directory", required: true });
  expect([bundle.version, bundle.compatibility.runtimes.node]).toEqual([
    command.version,
    command.engines.node,
  ]);
});

test("the bundle's command is filled in as Claude Desktop does it", () => {
  const values = { __dirname: "/bundle", "user_config.folder": "/Users/me/My files" };
  const { command: started, args } = startOf(bundle, values);
  expect([started, args[0]]).toEqual(["node", `/bundle/${bundle.server.entry_point}`]);
  expect(args.slice(1)).toEqual(["serve", "/Users/me/My files", "--stdio"]);
  expect(() => startOf(bundle, { __dirname: "/bundle" })).toThrow("user_config.folder");
});
