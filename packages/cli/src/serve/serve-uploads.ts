import type { CallToolResult, InputRequiredResult, McpServer } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import type { Sluice } from "@sluice/server";
import { createFsBackend, removeAbandonedWrites } from "@sluice/storage-fs";
import type { SluiceHandler } from "@sluice/transport-http";
import {
  createFileTransfer,
  createUploads,
  fileInput,
  openAiFileMeta,
  uploadIdInput,
  withUploads,
  type CloseUploadsOptions,
  type ToolCall,
  type UploadedFile,
  type Uploads,
} from "@sluice/uploads";
import { z } from "zod";
import { formatBytes } from "../terminal/quantity.ts";
import { uploadQuota } from "./serve-limits.ts";
import { makeWaitingFolder } from "./waiting-folder.ts";

/** Takes files from clients. */
export interface ServedUploads {
  /** Adds the tool that saves a file, and the methods that bring one. */
  attach<Mcp extends McpServer>(mcp: Mcp): Mcp;
  /** Adds the endpoint that takes the bytes. */
  wrap(handler: SluiceHandler): SluiceHandler;
  /** Ends what is under way, at the latest at the deadline. */
  close(options: CloseUploadsOptions): Promise<void>;
  /** Removes unsaved files, once no call is under way that could save them. Never rejects. */
  remove(): Promise<void>;
}

/** Name of the tool that saves a file. */
const toolName = "save_file";
/** Names that are tried for one file. */
const mostNames = 100;

/** Lets clients save files into `folder`, each of at most `maxBytes`. Nothing that is there is replaced. */
export async function createServedUploads(
  sluice: Sluice,
  folder: string,
  maxBytes: number,
): Promise<ServedUploads> {
  // what a killed process left of a file that it was saving; where another one is at work the next start does it
  await removeAbandonedWrites({ root: folder }).catch(() => 0);
  const waiting = await makeWaitingFolder(folder);
  const uploads = createUploads(sluice, {
    storage: createFsBackend({ root: waiting.path, writable: true }),
    unscanned: "allow",
    maxBytes,
    quota: uploadQuota(maxBytes),
  });
  const transfer = createFileTransfer(sluice, uploads);
  const target = createFsBackend({ root: folder, writable: true });
  const terms = { maxBytes } as const;

  return {
    attach(mcp) {
      mcp.registerTool(
        toolName,
        {
          title: "Save a file",
          description:
            "Takes a file from the user into this server's folder; without `file` it asks for one.",
          inputSchema: z.object({
            file: fileInput(terms)
              .describe("Leave it out: the answer says how the user sends the file")
              .optional(),
            upload_id: uploadIdInput().describe("From the answer upload_required"),
          }),
          annotations: { destructiveHint: false },
          _meta: openAiFileMeta(["file"]),
        },
        async ({ file: argument, upload_id: uploadId }, ctx) => {
          const call = { mcp, ctx };
          const given =
            argument === undefined
              ? await askFor(uploads, call, { maxBytes, uploadId })
              : { file: await transfer.open(argument, terms, call) };
          if (given.result) return given.result;
          const { file } = given;
          const { size, sha256 } = file;
          try {
            const name = await saveAs(target, file);
            const taken = name === file.name ? "" : "; the name was taken";
            const text = `Saved as ${name}, ${formatBytes(size)}${taken}`;
            return {
              content: [{ type: "text", text }],
              structuredContent: { name, size, sha256 },
            };
          } finally {
            // on a disk that is full it would take room until the server ends
            await file.remove();
          }
        },
      );
      return transfer.attach(mcp);
    },
    wrap: (handler) => withUploads(handler, uploads),
    close: (options) => uploads.close(options),
    // another server of the folder removes what is left
    remove: () => waiting.remove().catch(() => {}),
  };
}

type GivenFile =
  | { readonly file: UploadedFile; readonly result?: never }
  | { readonly result: CallToolResult | InputRequiredResult };

/** Asks the user for the file: in the client, on the upload page, or by an answer that leads a model there. */
async function askFor(
  uploads: Uploads,
  { mcp, ctx }: ToolCall,
  { maxBytes, uploadId }: { readonly maxBytes: number; readonly uploadId: string | undefined },
): Promise<GivenFile> {
  const fields = { file: { type: "file", title: "File", maxBytes } } as const;
  const message = "Which file shall be saved on the server?";
  const outcome = await uploads.requestFiles(ctx, { mcp, message, fields, uploadId });
  if (outcome.action === "ask") return { result: outcome.result };
  if (outcome.action === "accept") return { file: outcome.files.file };
  return { result: refusal("The user sent no file.") };
}

function refusal(text: string): CallToolResult {
  return { isError: true, content: [{ type: "text", text }] };
}

type TargetFolder = ReturnType<typeof createFsBackend>;

/** Saves a file under its name, with a number when that is taken. */
async function saveAs(target: TargetFolder, file: UploadedFile): Promise<string> {
  for (let number = 0; number < mostNames; number++) {
    const name = numbered(file.name, number);
    try {
      await save(target, name, file);
      return name;
    } catch (error) {
      const isTaken = SluiceError.is(error) && error.code === "precondition_failed";
      if (!isTaken) throw error;
    }
  }
  throw new SluiceError("already_exists", `uploads: too many files are called ${file.name}`);
}

async function save(target: TargetFolder, name: string, file: UploadedFile): Promise<void> {
  const { size } = file;
  await using writer = await target.write!(name, { ifAbsent: true, size });
  const { body } = await file.open();
  for await (const chunk of body) await writer.write(chunk);
  await writer.commit();
}

/** `report.pdf`, `report (1).pdf`, … */
function numbered(name: string, number: number): string {
  if (number === 0) return name;
  const dot = name.lastIndexOf(".");
  const at = dot > 0 ? dot : name.length;
  return `${name.slice(0, at)} (${number})${name.slice(at)}`;
}
