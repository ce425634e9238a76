import type { CallToolResult } from "@modelcontextprotocol/server";
import { definedMembers, sizeText, UPLOADS_EXTENSION_ID } from "@sluice/core/internal";
import { optionalInput, toolSchema } from "@sluice/server/internal";
import { z } from "zod/v4";
import { acceptText } from "../elicitation/limits-text.ts";
import type { SlotTerms } from "../slots/slots.ts";
import type { BegunUpload } from "./reserve-question.ts";

/**
 * The schema of the argument with which a model calls a tool again that asked for files in its result. `registerTool` adds it;
 * a tool over `ask` declares it as `upload_id`, and passes it on as `uploadId`.
 */
export function uploadIdInput(): z.ZodOptional<z.ZodType<string | undefined>> {
  return optionalInput(z.string()).describe("Only after an upload_required answer: its upload_id");
}

/** What stands in the way of an answer, as far as it is known. */
export type UploadStage = "asked" | "waiting" | { readonly arrivedFiles: number };

/** An upload that is asked for, in words and in data. */
export interface RequiredUpload extends BegunUpload {
  readonly message: string;
  readonly stage: UploadStage;
  /** What to do once the file is there. */
  readonly next: string;
  /** Absent if the host shows no App for the tool. */
  readonly app?: UploadInApp | undefined;
}

/** An upload that an App of the host shows: in the result's `_meta`, which the model does not get. */
interface UploadInApp {
  /** Of its page: a permission, as that of the page in a tab. */
  readonly url: string;
  /** What the user's message says when the files are there. */
  readonly message: string;
}

/** The data of an answer that asks for files: its `structuredContent`. */
export interface UploadRequired {
  readonly status: "upload_required";
  readonly upload_id: string;
  readonly page_url: string;
  /** Ends with a slash: the name of the file may stand behind it. Absent if only a page can answer. */
  readonly upload_url?: string | undefined;
  readonly method?: "PUT" | undefined;
  /** Maximum bytes of a file. */
  readonly max_bytes?: number | undefined;
  readonly accept?: readonly string[] | undefined;
  /** ISO 8601 date-time. */
  readonly expires_at: string;
}

const requiredContent = toolSchema({
  status: z.literal("upload_required"),
  upload_id: z.string(),
  page_url: z.string(),
  upload_url: z.string().optional(),
  method: z.literal("PUT").optional(),
  max_bytes: z.number().optional(),
  accept: z.array(z.string()).optional(),
  expires_at: z.string(),
});

/**
 * The schema of the answer of a tool that asks for files. SDKs compare each result with the `outputSchema` of its tool, so
 * a tool over `ask` that has one allows both: `z.union([report, uploadRequiredOutput()])`. `registerTool` does so itself.
 */
export function uploadRequiredOutput(): z.ZodType<UploadRequired> {
  return requiredContent;
}

/** A tool's answer that asks for files: for a model that can ask its user, or run a command. */
export function uploadRequired(required: RequiredUpload): CallToolResult {
  const { uploadId, upload, app } = required;
  const { uploadUrl, pageUrl, expiresAt } = upload;
  const [only, ...others] = Object.values(upload.slots);
  const terms = others.length === 0 ? only?.terms : undefined;
  const content: UploadRequired = {
    status: "upload_required",
    upload_id: uploadId,
    page_url: pageUrl,
    expires_at: new Date(expiresAt).toISOString(),
    ...definedMembers({
      upload_url: uploadUrl === undefined ? undefined : withSlash(uploadUrl),
      method: uploadUrl === undefined ? undefined : ("PUT" as const),
      max_bytes: terms?.maxBytes,
      accept: terms && terms.accept.length > 0 ? terms.accept : undefined,
    }),
  };
  return {
    content: [{ type: "text", text: textOf(required) }],
    structuredContent: { ...content },
    ...(app && { _meta: { [UPLOADS_EXTENSION_ID]: { app } } }),
  };
}

function textOf({ upload, message, stage, next }: RequiredUpload): string {
  const { pageUrl, uploadUrl, expiresAt } = upload;
  const slots = Object.entries(upload.slots);
  const wantedFiles = slots.map(
    ([name, { terms }]) => (slots.length === 1 ? "" : `${name}: `) + wordsFor(terms),
  );
  const minutes = Math.max(1, Math.round((expiresAt - Date.now()) / 60_000));
  return [
    typeof stage === "string" ? stages[stage] : arrivalText(stage.arrivedFiles),
    `${message} (${wantedFiles.join("; ")})`,
    `Ask the user to open this page and send it there, within ${minutes} min:`,
    pageUrl,
    ...(uploadUrl === undefined
      ? []
      : [
          "Or, if the file is where you can run commands, without an Authorization header:",
          // says why a file is refused
          `curl -sS --fail-with-body -T FILE '${withSlash(uploadUrl)}'`,
        ]),
    next,
  ].join("\n");
}

/** Behind the slash curl puts the name of the file. */
function withSlash(url: string): string {
  return `${url}/`;
}

function arrivalText(arrivedFiles: number): string {
  if (arrivedFiles === 0) return "Nothing has come yet.";
  const words = arrivedFiles === 1 ? "1 file has arrived" : `${arrivedFiles} files have arrived`;
  return `${words}, but the user has not confirmed the answer: ask the user to press Done.`;
}

const stages: Readonly<Record<Extract<UploadStage, string>, string>> = {
  asked: "A file from the user is needed.",
  waiting:
    "The user has been asked and has not answered yet. What is open for it, a page or a dialog, still counts.",
};

function wordsFor({ accept, maxBytes, maxFiles }: SlotTerms): string {
  const kinds = acceptText(accept);
  const count = maxFiles === 1 ? "one file" : `up to ${maxFiles} files`;
  return `${count}, at most ${sizeText(maxBytes)}${kinds === "" ? "" : `, ${kinds}`}`;
}
