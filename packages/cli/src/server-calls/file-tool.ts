import { FILE_KEYWORD, type FileInputDescriptor } from "@sluice/core/internal";
import { fault } from "../terminal/failure.ts";
import { printable } from "../terminal/print.ts";
import { formatBytes } from "../terminal/quantity.ts";
import { callServer } from "./call-server.ts";
import type { ClientConnection } from "./connect.ts";

/** A tool that gets files. */
export interface FileTool {
  readonly name: string;
  /** Argument that takes a file (SEP-2631 §5); absent for a tool that asks for files when it is called. */
  readonly argument?: string;
  /** The argument takes several. */
  readonly isList: boolean;
  /** What the argument takes. */
  readonly takes?: FileInputDescriptor;
}

/** What a tool takes, for people: `uri of save_file takes image/png, at most 5.0 MiB`. */
export function describeTool({ name, argument, takes }: FileTool): string {
  const { accept = [], maxSize } = takes ?? {};
  const types = accept.length === 0 ? "any type" : accept.join(", ");
  const limit = maxSize === undefined ? "" : `, at most ${formatBytes(maxSize)}`;
  return printable(`${argument} of ${name} takes ${types}${limit}`);
}

/** Finds the tool of that name or, without one, the only tool that takes files. */
export async function chooseTool(
  connection: ClientConnection,
  tool: string | undefined,
): Promise<FileTool> {
  const { server } = connection;
  const tools = await callServer(connection, () => listTools(connection));
  if (tool !== undefined) {
    const namedTool = tools.find(({ name }) => name === tool);
    if (namedTool) return describe(namedTool);
    throw fault("not_found", `${server} has no tool ${tool}`, "name one that it has with --tool");
  }
  const takers = tools.map(describe).filter(({ argument }) => argument !== undefined);
  const [only, another] = takers;
  if (!only)
    throw fault(
      "unsupported",
      `${server} has no tool that takes a file`,
      "name one that asks for files with --tool",
    );
  if (!another) return only;
  const names = takers.map(({ name }) => printable(name)).join(", ");
  throw fault("invalid_argument", `several tools take files: ${names}`, "name one with --tool");
}

/** Without the capability the SDK answers for the server, and writes a line to standard output. */
async function listTools({ client, signal }: ClientConnection): Promise<readonly ListedTool[]> {
  if (!client.getServerCapabilities()?.tools) return [];
  const { tools } = await client.listTools({}, { signal });
  return tools;
}

interface ListedTool {
  readonly name: string;
  readonly inputSchema: { readonly properties?: unknown };
}

function describe({ name, inputSchema }: ListedTool): FileTool {
  const properties = Object.entries((inputSchema.properties ?? {}) as Record<string, FileSchema>);
  for (const [argument, schema] of properties) {
    const single = schema[FILE_KEYWORD];
    const takes = single ?? schema.items?.[FILE_KEYWORD];
    if (takes !== undefined)
      return { name, argument, isList: single === undefined, takes: descriptorOf(takes) };
  }
  return { name, isList: false };
}

interface FileSchema {
  readonly [FILE_KEYWORD]?: unknown;
  readonly items?: { readonly [FILE_KEYWORD]?: unknown };
}

/** What a server says that an argument takes, as far as it is well formed. */
function descriptorOf(said: unknown): FileInputDescriptor {
  const { accept, maxSize } = Object(said) as { accept?: unknown; maxSize?: unknown };
  const types = Array.isArray(accept) ? accept.filter((type) => typeof type === "string") : [];
  return { accept: types, ...(typeof maxSize === "number" && { maxSize }) };
}
