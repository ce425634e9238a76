import type { PrimitiveSchemaDefinition } from "@modelcontextprotocol/server";
import {
  type BinaryElicitation,
  definedMembers,
  type FileFieldSchema,
  type UploadEndpoint,
  UPLOADS_EXTENSION_ID,
} from "@sluice/core/internal";
import type { Slot, SlotTerms, UploadedFile } from "../slots/slots.ts";

/** A field of the form that takes a file, or several. */
export interface FileField {
  readonly type: "file";
  readonly title?: string;
  readonly description?: string;
  /** Media types (`image/png`), ranges (`image/*`) and extensions (`.pdf`). Default: everything. */
  readonly accept?: readonly string[];
  /** Largest file, in bytes. Default: as much as the server takes. */
  readonly maxBytes?: number;
  /** Several files. Default false. */
  readonly multiple?: boolean;
  /** Maximum files, with `multiple`. Default 10. */
  readonly maxFiles?: number;
  /** Default true. */
  readonly required?: boolean;
}

/** Any other field, as in MCP's form mode; `required` says whether it may stay empty, default false. */
export type ValueField = PrimitiveSchemaDefinition & { readonly required?: boolean };

/** What to ask for: name → field. */
export type Fields = Readonly<Record<string, FileField | ValueField>>;

type FileNames<F extends Fields> = {
  [Name in keyof F]: F[Name]["type"] extends "file" ? Name : never;
}[keyof F];

/** The files of an accepted answer: an array with `multiple`, `undefined` for what was left out. */
export type AnsweredFiles<F extends Fields, File = UploadedFile> = string extends keyof F
  ? Readonly<Record<string, File | readonly File[] | undefined>>
  : NamedFiles<F, File>;

type NamedFiles<F extends Fields, File> = {
  readonly [Name in FileNames<F>]: F[Name] extends { readonly multiple: true }
    ? readonly File[]
    : F[Name] extends { readonly required: false }
      ? File | undefined
      : File;
};

/** The other fields of an accepted answer. */
export type AnsweredValues<F extends Fields> = {
  readonly [Name in Exclude<keyof F, FileNames<F>>]: F[Name] extends { readonly required: true }
    ? ValueOf<F[Name]["type"]>
    : ValueOf<F[Name]["type"]> | undefined;
};

type ValueOf<Type> = Type extends "boolean"
  ? boolean
  : Type extends "number" | "integer"
    ? number
    : Type extends "array"
      ? readonly string[]
      : string;

/** The parameters of `elicitation/create` in mode `binary` (SEP-1306 §2). */
export interface BinaryQuestion {
  readonly mode: "binary";
  readonly message: string;
  readonly requestedSchema: {
    readonly type: "object";
    readonly properties: Readonly<Record<string, FileFieldSchema | PrimitiveSchemaDefinition>>;
    readonly required: readonly string[];
  };
  readonly uploadEndpoints: Readonly<Record<string, UploadEndpoint>>;
}

/** Whether an answer must have this field. */
export function isRequired(field: FileField | ValueField): boolean {
  return field.required ?? field.type === "file";
}

/** The fields that are files. */
export function fileFieldsOf(fields: Fields): [string, FileField][] {
  return Object.entries(fields).filter((entry): entry is [string, FileField] => {
    const [, field] = entry;
    return field.type === "file";
  });
}

/** What a slot for this field takes, from this client. */
export function termsOf(
  { accept = [], maxBytes = Number.MAX_SAFE_INTEGER, multiple, maxFiles = 10 }: FileField,
  { maxFileSize = Number.MAX_SAFE_INTEGER }: BinaryElicitation,
): SlotTerms {
  return { accept, maxBytes: Math.min(maxBytes, maxFileSize), maxFiles: multiple ? maxFiles : 1 };
}

/** The question as it goes to a client. `slots` has one slot for each file field. */
export function questionOf(
  { message, fields }: { readonly message: string; readonly fields: Fields },
  slots: ReadonlyMap<string, Slot>,
  auth: "bound" | "self",
): BinaryQuestion {
  const properties: Record<string, FileFieldSchema | PrimitiveSchemaDefinition> = {};
  const uploadEndpoints: Record<string, UploadEndpoint> = {};
  for (const [name, field] of Object.entries(fields)) {
    const slot = slots.get(name);
    if (field.type !== "file" || !slot) {
      const { required: _listed, ...schema } = field as ValueField;
      properties[name] = schema;
      continue;
    }
    properties[name] = fileSchema(field, slot);
    uploadEndpoints[name] = endpointOf(slot, auth);
  }
  const required = Object.keys(fields).filter((name) => isRequired(fields[name]!));
  const requestedSchema = { type: "object", properties, required } as const;
  return { mode: "binary", message, requestedSchema, uploadEndpoints };
}

function fileSchema(field: FileField, { terms }: Slot): FileFieldSchema {
  const { title, description, multiple = false } = field;
  return definedMembers({
    type: "file" as const,
    title,
    description,
    accept: terms.accept.length > 0 ? terms.accept : undefined,
    maxSize: terms.maxBytes,
    multiple,
    required: isRequired(field),
  });
}

function endpointOf(slot: Slot, auth: "bound" | "self"): UploadEndpoint {
  const { url, method, uploadId, expiresAt, terms } = slot;
  const meta = {
    wire: "resumable",
    auth,
    expiresAt: new Date(expiresAt).toISOString(),
    maxFiles: terms.maxFiles,
  } as const;
  return { url, method, uploadId, _meta: { [UPLOADS_EXTENSION_ID]: meta } };
}
