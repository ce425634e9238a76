import type { CallToolResult, ServerContext } from "@modelcontextprotocol/server";
import { definedMembers, ensureKnownOptions, isAccepted } from "@sluice/core/internal";
import type { AnyMcpServer } from "@sluice/server";
import {
  appToolMeta,
  type Host,
  type HostApp,
  optionalInput,
  serveApp,
  serverInV2,
  showsApps,
  toolFault,
  toolSchema,
} from "@sluice/server/internal";
import { z } from "zod/v4";
import { uploadRequired, uploadRequiredOutput } from "../ask/upload-required.ts";
import { typesOfName } from "../checks/media-types.ts";
import { isAcceptEntry } from "../slots/slot-token.ts";
import type { UploadPages } from "../page/upload-pages.ts";
import { uploadError, uploadsOrigin } from "../slots/upload-error.ts";
import type { AskedUploads, CheckedUpload } from "./asked-uploads.ts";

/** Names of the tools with which a model gets a file from its user. */
export interface UploadToolNames {
  /** Asks for a file. Default: `request_upload`. */
  readonly request?: string;
  /** Says whether it has come. Default: `check_upload`. */
  readonly check?: string;
}

/** Options of `attach`: the tools, and bounds of what a model may ask for. */
export interface AttachUploadsOptions {
  /** Names of the tools. Default: `request_upload` and `check_upload`. */
  readonly tools?: UploadToolNames | true;
  /** Media types (`image/png`), ranges (`image/*`) and extensions (`.pdf`). Default: everything. */
  readonly accept?: readonly string[];
  /** Largest file, in bytes. Default: as much as the server takes. */
  readonly maxBytes?: number;
  /** How long the user may take, in milliseconds. Default and maximum: 15 minutes. */
  readonly ttlMs?: number;
}

/** What the tools work with. */
interface UploadToolParts {
  readonly asked: AskedUploads;
  readonly pages: Pick<UploadPages, "urlOf">;
  readonly host: Pick<Host, "ensureOwn" | "onError">;
  readonly app: HostApp;
}

/** Registers the two tools; see `Uploads.attach`. */
export function attachUploadTools(
  { asked, pages, host, app }: UploadToolParts,
  given: AnyMcpServer,
  options: AttachUploadsOptions = {},
): void {
  ensureKnownOptions("uploads.attach", options, attachOptions);
  const { tools = true, maxBytes, ttlMs } = options;
  if (tools !== true && (typeof tools !== "object" || tools === null))
    throw new TypeError(
      "uploads.attach: tools must be true, or the names of both: { request, check }",
    );
  const names = tools === true ? {} : tools;
  ensureKnownOptions("uploads.attach: tools", names, toolNames);
  const { request = "request_upload", check = "check_upload" } = names;
  const mcp = serverInV2(given);
  host.ensureOwn(mcp);
  const { onError } = host;

  const _meta = appToolMeta(mcp, app);
  const requestConfig = { ...requestTool(check, options), ...definedMembers({ _meta }) };
  mcp.registerTool(request, requestConfig, async (args, ctx) => {
    try {
      const accept = await acceptWithin(options.accept ?? [], args.accept ?? []);
      const smallest = minOf(args.max_bytes, maxBytes);
      const field = {
        type: "file",
        title: "File",
        ...definedMembers({ accept, maxBytes: smallest }),
      } as const;
      const message = args.purpose ?? "A file is asked for.";
      const upload = await asked.request({ mcp, ctx }, { message, field, ttlMs });
      const { uploadId } = upload;
      const nextCall = `call ${check} with upload_id "${uploadId}".`;
      const inApp = showsApps(mcp, ctx)
        ? {
            url: pages.urlOf(uploadId, upload.upload.expiresAt, "app"),
            message: `I have sent the file. Please ${nextCall}`,
          }
        : undefined;
      const next = `Then ${nextCall}`;
      return uploadRequired({ ...upload, message, stage: "asked", next, app: inApp });
    } catch (error) {
      return refusal(error, ctx, onError);
    }
  });

  mcp.registerTool(check, checkTool(request), async ({ upload_id: uploadId }, ctx) => {
    try {
      return checkAnswer(await asked.check({ mcp, ctx }, uploadId), { request, check });
    } catch (error) {
      return refusal(error, ctx, onError);
    }
  });
  serveApp(mcp, app);
}

const attachOptions: Readonly<Record<keyof AttachUploadsOptions, true>> = {
  tools: true,
  accept: true,
  maxBytes: true,
  ttlMs: true,
};
const toolNames: Readonly<Record<keyof UploadToolNames, true>> = { request: true, check: true };

function requestTool(check: string, { accept = [], maxBytes }: AttachUploadsOptions) {
  const bytes = optionalInput(z.int().min(1));
  const types =
    accept.length === 0 ? 'Such as "image/*" or ".pdf"' : `Some of ${accept.join(", ")}`;
  return {
    title: "Request a file from the user",
    description: `Requests a file from the user: returns an upload page and a curl command. Once it has arrived, ${check} returns its URI, for other tools that take a file.`,
    inputSchema: toolSchema({
      purpose: optionalInput(z.string().max(500)).describe(
        "What the file is for; the user reads it",
      ),
      accept: optionalInput(z.array(z.string().max(255)).max(20)).describe(types),
      max_bytes: maxBytes === undefined ? bytes : bytes.describe(`At most ${maxBytes}`),
    }),
    outputSchema: uploadRequiredOutput(),
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
  };
}

function checkTool(request: string) {
  return {
    title: "Check an upload",
    description: `Checks whether the file from ${request} arrived; waits up to 20 s.`,
    inputSchema: toolSchema({ upload_id: z.string().describe(`From ${request}`) }),
    outputSchema: toolSchema({
      status: z.enum(["waiting", "received", "declined"]),
      upload_id: z.string(),
      file: z.string().optional(),
      name: z.string().optional(),
      size: z.number().optional(),
      mime_type: z.string().optional(),
      sha256: z.string().optional(),
      page_url: z.string().optional(),
      expires_at: z.string(),
    }),
    annotations: { readOnlyHint: true, openWorldHint: false },
  };
}

function checkAnswer(
  checked: CheckedUpload,
  { request, check }: { readonly request: string; readonly check: string },
): CallToolResult {
  const { uploadId, upload, status } = checked;
  const facts = {
    status,
    upload_id: uploadId,
    expires_at: new Date(upload.expiresAt).toISOString(),
  };
  if (checked.status === "received") {
    const { name, size, mimeType, sha256 } = checked.file;
    const text = `${name}, ${size} bytes, ${mimeType}, is here. Give it to a tool that takes a file as:\n${checked.uri}`;
    const file = {
      file: checked.uri,
      name,
      size,
      mime_type: mimeType,
      ...definedMembers({ sha256 }),
    };
    return answer(text, { ...facts, ...file });
  }
  if (checked.status === "declined")
    return answer(`The user does not send a file. Ask before you call ${request} again.`, facts);
  const why = checked.isUndone
    ? "The file has arrived, but the user has not confirmed it: ask the user to press Done"
    : "Nothing has come yet. Remind the user of the page";
  const text = `${why}: ${upload.pageUrl}\nThen call ${check} again with the same upload_id.`;
  return answer(text, { ...facts, page_url: upload.pageUrl });
}

function answer(text: string, structuredContent: Record<string, unknown>): CallToolResult {
  return { content: [{ type: "text", text }], structuredContent };
}

/**
 * What a model asks for, where its author allows it: an extension that may mean more than that becomes the type that it may
 * mean. Rejects with `invalid_argument` and what is allowed.
 */
async function acceptWithin(
  allowed: readonly string[],
  wanted: readonly string[],
): Promise<readonly string[]> {
  if (wanted.length === 0) return allowed;
  const malformed = wanted.find((entry) => !isAcceptEntry(entry));
  if (malformed !== undefined || wanted.join().length > maxAcceptChars)
    throw uploadError(
      "invalid_argument",
      "accept: name a few media types such as image/png, ranges such as image/*, or extensions such as .pdf",
    );
  if (allowed.length === 0) return wanted;
  // a large table, wanted only here
  const { default: mime } = await import("mime");
  const typeWithin = (entry: string): string => {
    if (allowed.includes(entry)) return entry;
    const types = entry.startsWith(".")
      ? typesOfName(`x${entry}`, true, (extension) => mime.getType(extension))
      : [entry];
    const within = types.filter((mimeType) => isAccepted({ name: "", mimeType }, allowed));
    if (within.length > 0) return within.length === types.length ? entry : within[0]!;
    throw uploadError(
      "invalid_argument",
      `accept: ${JSON.stringify(entry)} is not among what is taken here: ${allowed.join(", ")}`,
    );
  };
  return [...new Set(wanted.map(typeWithin))];
}

/** Maximum characters, which the token of a slot holds. */
const maxAcceptChars = 600;

function minOf(...limits: readonly (number | undefined)[]): number | undefined {
  const givenLimits = limits.filter((limit) => limit !== undefined);
  return givenLimits.length === 0 ? undefined : Math.min(...givenLimits);
}

/** An error in words for a model; faults of ours go to `onError`. */
function refusal(
  error: unknown,
  ctx: ServerContext,
  onError: (error: unknown) => void,
): CallToolResult {
  const { text, isServerFault } = toolFault(error, uploadsOrigin);
  if (isServerFault && !ctx.mcpReq.signal.aborted) onError(error);
  return { isError: true, content: [{ type: "text", text }] };
}
