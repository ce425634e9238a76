import type { CallToolResult, ServerContext, ToolAnnotations } from "@modelcontextprotocol/server";
import { definedMembers, ensureKnownOptions } from "@sluice/core/internal";
import type { AnyMcpServer } from "@sluice/server";
import {
  appToolMeta,
  type Host,
  type HostApp,
  serveApp,
  serverInV2,
  withoutDialect,
} from "@sluice/server/internal";
import { z } from "zod/v4";
import type { AskInTool } from "../ask/ask-for-files.ts";
import { uploadIdInput, uploadRequiredOutput } from "../ask/upload-required.ts";
import {
  fileFieldsOf,
  type AnsweredFiles,
  type AnsweredValues,
  type Fields,
} from "../elicitation/fields.ts";
import type { UploadedFile } from "../slots/slots.ts";

/** What a tool that asks its user for files is registered with: the question, and the tool as the SDK takes it. */
export interface FileToolConfig<F extends Fields, Input extends z.ZodObject> {
  /** Why the files are wanted, for the user to read. Tools with the same `message` and `fields` take each other's uploads. */
  readonly message: string;
  /** Name → field. At least one is a file. */
  readonly fields: F;
  /** How long the user may take, in milliseconds, at most an hour; a page at most 15 minutes. Default: 15 minutes. */
  readonly ttlMs?: number;
  readonly title?: string;
  readonly description?: string;
  /** Further arguments: a `z.object` of zod 4. `upload_id` is added. */
  readonly inputSchema?: Input;
  /** Of the handler's result. The result that asks for files is added. Not with SDK v1, which takes one object only. */
  readonly outputSchema?: z.ZodType;
  readonly annotations?: ToolAnnotations;
  readonly _meta?: Record<string, unknown>;
}

/** A file of a tool's call. It is removed when the handler ends, unless the handler keeps it. */
export interface ToolFile extends UploadedFile {
  /** Leaves it with the handler's author: it counts in its user's quota until `remove()`. */
  keep(): void;
}

/** What the user answered, and the tool's own arguments. */
export interface FileToolInput<F extends Fields, Input extends z.ZodObject> {
  readonly files: AnsweredFiles<F, ToolFile>;
  readonly values: AnsweredValues<F>;
  /** Without `upload_id`. */
  readonly args: z.output<Input>;
}

/** Answers a call whose files are there. A string is a result of one text. */
export type FileToolHandler<
  F extends Fields,
  Input extends z.ZodObject,
  Mcp extends AnyMcpServer = AnyMcpServer,
> = (
  input: FileToolInput<F, Input>,
  call: { readonly mcp: Mcp; readonly ctx: ServerContext },
) => string | CallToolResult | Promise<string | CallToolResult>;

/** What a tool is registered over. */
interface RegisterParts {
  readonly ask: AskInTool;
  readonly host: Pick<Host, "ensureOwn" | "onError">;
  readonly app: HostApp;
}

/** Registers a tool that asks; see `Uploads.registerTool`. */
export function registerFileTool<
  F extends Fields,
  Input extends z.ZodObject,
  Mcp extends AnyMcpServer,
>(
  { ask, host, app }: RegisterParts,
  given: Mcp,
  name: string,
  config: FileToolConfig<F, Input>,
  handler: FileToolHandler<F, Input, Mcp>,
): void {
  ensureConfig(config, handler);
  const { message, fields, ttlMs, outputSchema } = config;
  const { title, description, annotations } = config;
  const mcp = serverInV2(given);
  host.ensureOwn(mcp);
  if (outputSchema && (mcp as AnyMcpServer) !== given)
    throw new TypeError(
      "uploads.registerTool: SDK v1 takes one object as outputSchema, and the result that asks for files is another: leave it out",
    );
  const hasOutput = outputSchema !== undefined;
  const tool = definedMembers({
    title,
    description,
    inputSchema: withUploadId(config.inputSchema),
    outputSchema: outputSchema && withoutDialect(z.union([outputSchema, uploadRequiredOutput()])),
    annotations,
    _meta: appToolMeta(mcp, app, config._meta),
  });
  mcp.registerTool(name, tool, async ({ upload_id: uploadId, ...args }, ctx) => {
    const call = { mcp: given, ctx };
    const request = { message, fields, uploadId, ...definedMembers({ ttlMs }) };
    const outcome = await ask<F>(request, call, { hasApp: true });
    if (outcome.action === "ask") return outcome.result;
    if (outcome.action !== "accept") return nothingSent(outcome.action, hasOutput);
    const keptFiles = new Set<UploadedFile>();
    const files = toToolFiles<F>(outcome.files, keptFiles);
    try {
      const input = { files, values: outcome.values, args: args as z.output<Input> };
      const result = await handler(input, call);
      return typeof result === "string" ? textResult(result) : result;
    } finally {
      await removeOthers(outcome.files, keptFiles, host.onError);
    }
  });
  serveApp(mcp, app);
}

const configNames: Readonly<Record<keyof FileToolConfig<Fields, z.ZodObject>, true>> = {
  message: true,
  fields: true,
  ttlMs: true,
  title: true,
  description: true,
  inputSchema: true,
  outputSchema: true,
  annotations: true,
  _meta: true,
};

/** Throws a `TypeError` for a tool that could never ask, when it is registered and not when it is called. */
function ensureConfig(config: FileToolConfig<Fields, z.ZodObject>, handler: unknown): void {
  const { message, fields }: Partial<typeof config> = config ?? {};
  if (typeof message !== "string" || typeof fields !== "object")
    throw new TypeError(
      "uploads.registerTool: pass { message, fields }: what to ask the user, and for which files",
    );
  ensureKnownOptions("uploads.registerTool", config, configNames);
  if (fileFieldsOf(fields).length === 0)
    throw new TypeError(
      'uploads.registerTool: no field is a file: fields has at least one of { type: "file" }',
    );
  if (typeof handler !== "function")
    throw new TypeError("uploads.registerTool: the last argument is the handler of the tool");
}

type ToolArguments = Record<string, unknown> & { readonly upload_id?: string | undefined };

function withUploadId(inputSchema: z.ZodObject = z.object({})): z.ZodType<ToolArguments> {
  if (typeof (inputSchema as Partial<z.ZodObject>).safeExtend !== "function")
    throw new TypeError("uploads.registerTool: inputSchema must be a z.object of zod 4");
  if (Object.hasOwn(inputSchema.shape, "upload_id"))
    throw new TypeError(
      "uploads.registerTool: leave upload_id out of inputSchema: it is added to every tool that asks",
    );
  return withoutDialect(inputSchema.safeExtend({ upload_id: uploadIdInput() }));
}

/** The result of a call whose user sent nothing. With an `outputSchema` only an error may have no data. */
function nothingSent(action: "decline" | "cancel", isError: boolean): CallToolResult {
  const text =
    action === "decline"
      ? "The user declined to send a file. Ask the user before you call this tool again."
      : "The user closed the request without sending a file.";
  return { ...(isError && { isError }), ...textResult(text) };
}

function textResult(text: string): CallToolResult {
  return { content: [{ type: "text", text }] };
}

function filesIn(files: AnsweredFiles<Fields>): UploadedFile[] {
  return Object.values(files).flatMap((each) => each ?? []);
}

function toToolFiles<F extends Fields>(
  files: AnsweredFiles<F>,
  kept: Set<UploadedFile>,
): AnsweredFiles<F, ToolFile> {
  const toToolFile = (file: UploadedFile): ToolFile => ({
    ...file,
    keep: () => void kept.add(file),
  });
  const entries = Object.entries<UploadedFile | readonly UploadedFile[] | undefined>(files);
  const toolFiles = entries.map(([name, each]) => [
    name,
    Array.isArray(each) ? each.map(toToolFile) : each && toToolFile(each as UploadedFile),
  ]);
  return Object.fromEntries(toolFiles) as AnsweredFiles<F, ToolFile>;
}

/** Removes the files that the handler did not keep. Never rejects: the result of the tool stands. */
async function removeOthers(
  files: AnsweredFiles<Fields>,
  kept: ReadonlySet<UploadedFile>,
  onError: (error: unknown) => void,
): Promise<void> {
  const others = filesIn(files).filter((file) => !kept.has(file));
  for (const removal of await Promise.allSettled(others.map((file) => file.remove())))
    if (removal.status === "rejected") onError(removal.reason);
}
