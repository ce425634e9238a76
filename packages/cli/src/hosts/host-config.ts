import { resolve } from "node:path";
import { realpath } from "node:fs/promises";
import { definedMembers } from "@sluice/core/internal";
import { endpointOf } from "../serve/listen.ts";
import { defaultPort, type ServeCommandOptions } from "../serve/serve-options.ts";
import { parseStorageUrl, plugins } from "../storages/storage-url.ts";

/** Name of the server in the settings of a host. */
const name = "files";
/** Variable that has the token; the token itself is never printed. */
const tokenVariable = "SLUICE_TOKEN";

/** How a host reaches the server: by its URL, or by a command. */
type Reach =
  | { readonly url: string; readonly isGuarded: boolean; readonly command?: never }
  | (StartCommand & { readonly url?: never });

/** What to write into the settings of five hosts, for a server with these options; `file` is the running program. */
export function formatHostConfig(
  source: string,
  options: ServeCommandOptions,
  file: string | undefined,
): string {
  const command = stdioCommand(source, options, file);
  const config = formatReach(command, options.stdio ? command : httpReach(options));
  return [config, ...credentialsNote(source)].join("\n\n");
}

/** What to write into the settings of five hosts, for a server that each of them starts over stdio. */
export function formatCommandConfig(command: StartCommand): string {
  return formatReach(command, command);
}

function formatReach(command: StartCommand, reach: Reach): string {
  return [
    // its settings file takes commands only
    block("Claude Desktop: claude_desktop_config.json", json({ mcpServers: { [name]: command } })),
    block("Claude Code", claudeCode(reach)),
    block("VS Code: .vscode/mcp.json", vsCode(reach)),
    block("Cursor: ~/.cursor/mcp.json", cursor(reach)),
    block("Codex: ~/.codex/config.toml", codex(reach)),
  ].join("\n\n");
}

/** The line for Claude Code, for a server that runs at `url`. */
export function claudeCodeLine(url: string, isGuarded: boolean): string {
  return claudeCode({ url, isGuarded });
}

function httpReach(options: ServeCommandOptions): Reach {
  const { host, port = defaultPort, publicUrl, token, tlsCert } = options;
  const url = publicUrl ?? endpointOf(host, port, tlsCert !== undefined);
  return { url, isGuarded: token !== undefined };
}

/** Hosts start it in their own folder: every path is whole. */
export function stdioCommand(
  source: string,
  options: ServeCommandOptions,
  file: string | undefined,
): StartCommand {
  const place = parseStorageUrl(source);
  const { uri, keys, audit, tools, appendOnly, uploads, maxUpload, maxStep, saveTo, maxTotal } =
    options;
  const isFolder = place.kind === "file";
  const start = startCommandOf(file, isFolder ? [] : [plugins[place.kind]]);
  const args = [...start.args, "serve", isFolder ? resolve(place.root) : source, "--stdio"];
  // over HTTP they are those of the running server, beside which this one gets its own
  if (options.stdio && options.host !== defaultHost) args.push("--host", options.host);
  if (options.stdio && options.port) args.push("--port", String(options.port));
  if (uri !== defaultUri) args.push("--uri", uri);
  for (const [option, path] of Object.entries({ keys, audit, uploads, "save-to": saveTo }))
    if (typeof path === "string") args.push(`--${option}`, resolve(path));
  for (const ending of appendOnly ?? []) args.push("--append-only", ending);
  if (maxUpload !== undefined) args.push("--max-upload", String(maxUpload));
  if (maxStep !== undefined) args.push("--max-step", String(maxStep));
  if (maxTotal !== undefined) args.push("--max-total", String(maxTotal));
  if (tools === false) args.push("--no-tools");
  return { command: start.command, args };
}

const defaultHost = "127.0.0.1";
const defaultUri = "files://local/";

function claudeCode(reach: Reach): string {
  if (reach.command !== undefined)
    return `claude mcp add ${name} -- ${[reach.command, ...reach.args].map(shellText).join(" ")}`;
  const header = reach.isGuarded ? ` --header "Authorization: Bearer $${tokenVariable}"` : "";
  return `claude mcp add --transport http ${name} ${shellText(reach.url)}${header}`;
}

function vsCode(reach: Reach): string {
  if (reach.command !== undefined)
    return json({ servers: { [name]: { type: "stdio", ...commandOf(reach) } } });
  const id = "sluice-token";
  const inputs = [{ type: "promptString", id, description: "Token of sluice", password: true }];
  const { url, isGuarded } = reach;
  const headers = isGuarded ? { Authorization: `Bearer \${input:${id}}` } : undefined;
  return json({
    ...definedMembers({ inputs: isGuarded ? inputs : undefined }),
    servers: { [name]: { type: "http", url, ...definedMembers({ headers }) } },
  });
}

function cursor(reach: Reach): string {
  const server = reach.command === undefined ? cursorUrl(reach) : commandOf(reach);
  const config = Buffer.from(JSON.stringify(server)).toString("base64");
  const link = new URLSearchParams({ name, config });
  return `${json({ mcpServers: { [name]: server } })}\ncursor://anysphere.cursor-deeplink/mcp/install?${link.toString()}`;
}

function cursorUrl({ url, isGuarded }: Reach & { readonly url: string }): object {
  const headers = isGuarded ? { Authorization: `Bearer \${env:${tokenVariable}}` } : undefined;
  return { url, ...definedMembers({ headers }) };
}

function codex(reach: Reach): string {
  const lines =
    reach.command === undefined
      ? [
          `url = ${tomlText(reach.url)}`,
          ...(reach.isGuarded ? [`bearer_token_env_var = ${tomlText(tokenVariable)}`] : []),
        ]
      : [`command = ${tomlText(reach.command)}`, `args = [${reach.args.map(tomlText).join(", ")}]`];
  return [`[mcp_servers.${name}]`, ...lines].join("\n");
}

function commandOf({ command, args }: StartCommand): StartCommand {
  return { command, args };
}

/** Hosts give a command few variables of their environment. */
function credentialsNote(source: string): readonly string[] {
  const { kind } = parseStorageUrl(source);
  if (kind === "file") return [];
  return [
    `# A command needs the variables with the credentials of ${kind}: write them into "env" beside "args".`,
  ];
}

function block(title: string, text: string): string {
  return `# ${title}\n${text}`;
}

function json(value: object): string {
  return JSON.stringify(value, undefined, 2);
}

/** A word of a POSIX shell. */
export function shellText(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A basic string of TOML 1.0, whose escapes JSON also has; only DEL must also be escaped. */
export function tomlText(text: string): string {
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}

/** The words before `serve` in the command that starts this program again from any folder. */
export interface StartCommand {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * The command that starts `file`, the running program: `npx` where that finds the package from any folder, which it does in its
 * own cache and among global packages, and the file itself where it lies in a project or a clone. `packages` are wanted beside it.
 */
export function startCommandOf(
  file: string | undefined,
  packages: readonly string[] = [],
): StartCommand {
  if (file !== undefined && !isFoundByName(file)) return { command: "node", args: [file] };
  const beside = ["sluice", ...packages].flatMap((each) => ["-p", each]);
  return { command: "npx", args: ["-y", ...(packages.length === 0 ? [] : beside), "sluice"] };
}

/** Path of the running program, behind the links that package managers make. */
export async function runningFile(): Promise<string | undefined> {
  const [, file] = process.argv;
  return file === undefined ? undefined : realpath(file).catch(() => file);
}

function isFoundByName(file: string): boolean {
  return caches.test(file) || globals.test(file);
}

/** Where npx, `pnpm dlx` and `yarn dlx` keep what they run once. */
const caches = /[/\\](?:_npx|dlx)[/\\]/;

/** Where npm, pnpm, Yarn and Bun keep global packages. */
const globals =
  /[/\\](?:(?:lib|npm)[/\\]node_modules|global[/\\](?:[\w.]+[/\\])?(?:node_modules|\.pnpm))[/\\]/;
