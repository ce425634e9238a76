import { FILE_KEYWORD } from "@sluice/core/wire";
import { callServer } from "./call-server.ts";
import type { ServerConnection } from "./connect.ts";
import { fault } from "../terminal/failure.ts";
import { printable } from "../terminal/printable.ts";

/** A tool that files go to. */
export interface FileTool {
  readonly name: string;
  /** Argument that takes a file (SEP-2631 §5); absent for a tool that asks for files when it is called. */
  readonly argument?: string;
  /** The argument takes several. */
  readonly isList: boolean;
}

/** Finds the tool of that name or, without one, the only tool that takes files. */
export async function chooseTool(
  connection: ServerConnection,
  tool: string | undefined,
): Promise<FileTool> {
  const { server } = connection;
  const tools = await callServer(connection, () => listTools(connection));
  if (tool !== undefined) {
    const found = tools.find(({ name }) => name === tool);
    if (found) return describe(found);
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
async function listTools({ client, signal }: ServerConnection): Promise<readonly ListedTool[]> {
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
    if (schema[FILE_KEYWORD] !== undefined) return { name, argument, isList: false };
    if (schema.items?.[FILE_KEYWORD] !== undefined) return { name, argument, isList: true };
  }
  return { name, isList: false };
}

interface FileSchema {
  readonly [FILE_KEYWORD]?: unknown;
  readonly items?: { readonly [FILE_KEYWORD]?: unknown };
}
