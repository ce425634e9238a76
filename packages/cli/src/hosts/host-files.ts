import { join } from "node:path";

/** Hosts whose configuration can be written. */
export const hostNames = ["claude-desktop", "claude-code", "cursor", "vscode", "codex"] as const;

/** Name of such a host. */
export type HostName = (typeof hostNames)[number];

/** The machine that a host runs on. An empty variable counts as one that is not set. */
export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly home: string;
  /** The folder that the command was started in. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Where a host keeps its servers. */
export interface ConfigFile {
  /** As people call the host. */
  readonly title: string;
  readonly path: string;
  /** Key of the servers: of an object in JSON with comments, or of a table in TOML. */
  readonly key: string;
  readonly format: "json" | "toml";
  /** It wants to be told that a server is a command: `"type": "stdio"`. */
  readonly isTyped?: boolean;
  /** What makes the host read it again. */
  readonly advice: string;
}

/** Where a host reads its servers from on this machine. */
export function configFileOf(host: HostName, machine: Machine): ConfigFile {
  const { pathOf, ...file } = hostFiles[host];
  return { ...file, path: pathOf(machine) };
}

interface KnownFile extends Omit<ConfigFile, "path"> {
  readonly pathOf: (machine: Machine) => string;
}

const hostFiles: Readonly<Record<HostName, KnownFile>> = {
  "claude-desktop": {
    title: "Claude Desktop",
    pathOf: (machine) => join(programData(machine), "Claude", "claude_desktop_config.json"),
    key: "mcpServers",
    format: "json",
    advice: "quit and start Claude Desktop",
  },
  "claude-code": {
    title: "Claude Code",
    pathOf: ({ folder }) => join(folder, ".mcp.json"),
    key: "mcpServers",
    format: "json",
    isTyped: true,
    advice: "start claude in this folder and approve the server",
  },
  cursor: {
    title: "Cursor",
    pathOf: ({ home }) => join(home, ".cursor", "mcp.json"),
    key: "mcpServers",
    format: "json",
    advice: "switch the server on in Cursor's settings, under MCP",
  },
  vscode: {
    title: "VS Code",
    pathOf: (machine) => join(programData(machine), "Code", "User", "mcp.json"),
    key: "servers",
    format: "json",
    isTyped: true,
    advice: "start the server in VS Code with the command MCP: List Servers",
  },
  codex: {
    title: "Codex",
    pathOf: ({ env, home }) => join(env["CODEX_HOME"] || join(home, ".codex"), "config.toml"),
    key: "mcp_servers",
    format: "toml",
    advice: "start codex again",
  },
};

/** Where programs of a user keep their settings. */
function programData({ platform, home, env }: Machine): string {
  if (platform === "darwin") return join(home, "Library", "Application Support");
  if (platform === "win32") return env["APPDATA"] || join(home, "AppData", "Roaming");
  return env["XDG_CONFIG_HOME"] || join(home, ".config");
}
