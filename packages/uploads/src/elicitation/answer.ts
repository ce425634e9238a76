import { fromJsonSchema, type JsonSchemaType } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import type { AnsweredFile } from "@sluice/core/internal";
import { z } from "zod/v4";
import type { SlotTerms } from "../slots/slots.ts";
import { uploadError } from "../slots/upload-error.ts";
import { isRequired, type FileField, type Fields } from "./fields.ts";

/** What a user did with a question, read but not confirmed yet. */
export type ElicitedAnswer =
  | { readonly action: "decline" | "cancel" }
  | {
      readonly action: "accept";
      /** Field → files, also for a field that takes one. Empty if none was sent. */
      readonly files: ReadonlyMap<string, readonly AnsweredFile[]>;
      readonly values: Readonly<Record<string, unknown>>;
    };

/** What an answer may name for a file field. */
export interface ExpectedSlot {
  readonly uploadId: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
  readonly terms: SlotTerms;
}

/**
 * Reads an answer (SEP-1306 §3): shapes, types of the form's fields, counts, sizes and upload ids. Throws `protocol`
 * for a malformed answer, `invalid_argument` and `too_large` for one that does not fit the question.
 */
export async function readAnswer(
  fields: Fields,
  slots: ReadonlyMap<string, ExpectedSlot>,
  raw: unknown,
): Promise<ElicitedAnswer> {
  const result = resultSchema.safeParse(raw);
  if (!result.success)
    throw uploadError("protocol", "the client's answer is not an elicitation result");
  const { action, content = {} } = result.data;
  if (action !== "accept") return { action };

  const files = new Map<string, readonly AnsweredFile[]>();
  const values: Record<string, unknown> = {};
  for (const name of Object.keys(content)) {
    if (!Object.hasOwn(fields, name)) throw invalid(name, "was not asked for");
  }
  for (const [name, field] of Object.entries(fields)) {
    const value = Object.hasOwn(content, name) ? content[name] : undefined;
    if (value === undefined && isRequired(field)) throw invalid(name, "is required and is missing");
    if (field.type !== "file") {
      if (value !== undefined) values[name] = value;
      continue;
    }
    const namedFiles = value === undefined ? [] : filesIn(name, field, value);
    ensureFits(name, slots.get(name)!, namedFiles);
    if (namedFiles.length === 0 && isRequired(field))
      throw invalid(name, "is required and has no file");
    files.set(name, namedFiles);
  }
  return { action, files, values: await checkValues(fields, values) };
}

const resultSchema = z.looseObject({
  action: z.enum(["accept", "decline", "cancel"]),
  content: z.record(z.string(), z.unknown()).optional(),
});

const fileSchema = z.object({
  name: z.string().min(1).max(1_024),
  size: z.int().nonnegative(),
  mimeType: z.string().min(1).max(255),
  uploadId: z.string(),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
});

function filesIn(name: string, { multiple }: FileField, given: unknown): AnsweredFile[] {
  const shape = multiple ? z.array(fileSchema) : fileSchema.transform((file) => [file]);
  const parsed = shape.safeParse(given);
  if (parsed.success) return parsed.data as AnsweredFile[];
  const expected = multiple ? "an array of files" : "one file";
  throw invalid(name, `must be ${expected}, each with name, size, mimeType and uploadId`);
}

function ensureFits(name: string, slot: ExpectedSlot, files: readonly AnsweredFile[]): void {
  const { uploadId, terms } = slot;
  if (files.length > terms.maxFiles)
    throw invalid(name, `has ${files.length} files, and at most ${terms.maxFiles} may be sent`);
  for (const file of files) {
    if (file.uploadId !== uploadId) throw invalid(name, "names an upload id of another question");
    if (file.size > terms.maxBytes)
      throw uploadError(
        "too_large",
        `field "${name}": the file has ${file.size} bytes, and at most ${terms.maxBytes} may be sent`,
        { size: file.size },
      );
  }
}

/** Holds the other fields to their JSON schemas; gives them with their defaults left to the client, as in MCP. */
async function checkValues(
  fields: Fields,
  values: Readonly<Record<string, unknown>>,
): Promise<Readonly<Record<string, unknown>>> {
  for (const [name, value] of Object.entries(values)) {
    const { required: _listed, ...schema } = fields[name]!;
    const checked = await fromJsonSchema(schema as JsonSchemaType)["~standard"].validate(value);
    if (checked.issues)
      throw invalid(name, checked.issues.map(({ message }) => message).join("; "));
  }
  return values;
}

function invalid(name: string, why: string): SluiceError {
  return uploadError("invalid_argument", `field "${name}": ${why}`);
}
