import type { PrimitiveSchemaDefinition } from "@modelcontextprotocol/server";
import {
  type FileFieldSchema,
  sizeText,
  type UploadEndpoint,
  UPLOADS_EXTENSION_ID,
} from "@sluice/core/internal";
import { html, type Html } from "@sluice/server/internal";
import { acceptText } from "../elicitation/limits-text.ts";

/** One field of the form. */
export interface PageField {
  /** For the elements of the page. */
  readonly id: string;
  readonly name: string;
  readonly schema: FileFieldSchema | PrimitiveSchemaDefinition;
  readonly isRequired: boolean;
  /** Where the files go. */
  readonly endpoint: UploadEndpoint | undefined;
}

/** A field with its label and everything that is said about it. */
export function fieldHtml(field: PageField): Html {
  const { schema, endpoint } = field;
  if (schema.type === "file") return endpoint ? fileHtml(field, schema, endpoint) : html``;
  return valueHtml(field, schema);
}

function fileHtml(
  { id, name, isRequired }: PageField,
  { title = name, description, accept = [], maxSize, multiple = false }: FileFieldSchema,
  { url, uploadId, _meta }: UploadEndpoint,
): Html {
  const maxFiles = multiple ? (_meta?.[UPLOADS_EXTENSION_ID]?.maxFiles ?? 10) : 1;
  const limits = limitsText({ accept, maxSize, maxFiles });
  const described = description === undefined ? `${id}-limits` : `${id}-hint ${id}-limits`;
  return html`<section
    class="field"
    aria-labelledby="${id}-title"
    data-kind="files"
    data-id="${id}"
    data-name="${name}"
    data-title="${title}"
    data-url="${url}"
    data-upload-id="${uploadId}"
    data-accept="${JSON.stringify(accept)}"
    data-accept-text="${acceptText(accept)}"
    data-max-bytes="${maxSize}"
    data-max-files="${maxFiles}"
    data-multiple="${multiple}"
    data-required="${isRequired}"
  >
    <h2 id="${id}-title"><bdi>${title}</bdi>${optional(isRequired)}</h2>
    ${hint(id, description)}
    <div class="drop">
      <input
        type="file"
        id="${id}"
        class="unseen"
        aria-describedby="${described} ${id}-error"
        aria-required="${isRequired}"
        ${multiple && html` multiple`}${accept.length > 0 && html` accept="${accept.join(",")}"`}
      />
      <label for="${id}"
        ><span class="choose">${multiple ? "Choose files" : "Choose a file"}</span
        ><span class="unseen"> for ${title}</span></label
      >
      <span class="or">or drop ${multiple ? "them" : "it"} here</span>
      <span class="limits" id="${id}-limits">${limits}</span>
    </div>
    <p class="error" id="${id}-error" hidden></p>
    <ul class="files" aria-label="Files for ${title}"></ul>
  </section>`;
}

function limitsText(limits: {
  accept: readonly string[];
  maxSize: number | undefined;
  maxFiles: number;
}): string {
  const { accept, maxSize, maxFiles } = limits;
  const parts = [
    acceptText(accept),
    maxSize === undefined ? "" : `up to ${sizeText(maxSize)}${maxFiles > 1 ? " each" : ""}`,
    maxFiles > 1 ? `at most ${maxFiles} files` : "",
  ].filter((part) => part !== "");
  const text = parts.join(" · ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function valueHtml(field: PageField, schema: PrimitiveSchemaDefinition): Html {
  const { id, name, isRequired } = field;
  const { title = name, description } = schema;
  const start = html`class="field" data-kind="value" data-id="${id}" data-name="${name}"
  data-type="${schema.type}"`;
  const described = html`aria-describedby="${description !== undefined && `${id}-hint `}${id}-error"`;
  const error = html`<p class="error" id="${id}-error" hidden></p>`;
  if (schema.type === "boolean")
    return html`<section ${start}>
      <div class="check">
        <input
          type="checkbox"
          id="${id}"
          ${described}${schema.default === true && html` checked`}
        />
        <label for="${id}"><bdi>${title}</bdi></label>
      </div>
      ${hint(id, description)}${error}
    </section>`;
  if (schema.type === "array")
    return html`<section ${start}>
      <fieldset aria-describedby="${id}-error">
        <legend><bdi>${title}</bdi>${optional(isRequired)}</legend>
        ${hint(id, description)}
        ${choicesOf(schema.items).map(
          ([value, label], n) =>
            html`<div class="check">
              <input
                type="checkbox"
                id="${id}-${n}"
                value="${value}"
                ${schema.default?.includes(value) && html` checked`}
              />
              <label for="${id}-${n}"><bdi>${label}</bdi></label>
            </div>`,
        )}
      </fieldset>
      ${error}
    </section>`;
  return html`<section ${start}>
    <label class="title" for="${id}"><bdi>${title}</bdi>${optional(isRequired)}</label>
    ${hint(id, description)} ${inputHtml(field, schema, described)}${error}
  </section>`;
}

type TextOrNumber = Exclude<PrimitiveSchemaDefinition, { type: "boolean" | "array" }>;

function inputHtml({ id, isRequired }: PageField, schema: TextOrNumber, described: Html): Html {
  const required = isRequired && html` required`;
  const choices = choicesOf(schema);
  const preset = "default" in schema ? schema.default : undefined;
  if (choices.length > 0)
    return html`<select id="${id}" ${described}${required}>
      <option value="">${isRequired ? "Choose…" : "No choice"}</option>
      ${choices.map(
        ([value, label]) =>
          html`<option value="${value}" ${value === preset && html` selected`}>${label}</option>`,
      )}
    </select>`;
  const limits = Object.entries(limitsOf(schema)).map(
    ([attribute, value]) => value !== undefined && html` ${attribute}="${value}"`,
  );
  return html`<input
    id="${id}"
    ${described}${required}${limits}${preset !== undefined && html` value="${preset}"`}
  />`;
}

const inputTypes: Readonly<Record<string, string>> = {
  email: "email",
  uri: "url",
  date: "date",
  "date-time": "datetime-local",
};

/** Attributes by which a browser checks a value itself. */
function limitsOf(schema: TextOrNumber): Record<string, string | number | undefined> {
  if (schema.type === "string") {
    const { format, minLength, maxLength } = schema as {
      format?: string;
      minLength?: number;
      maxLength?: number;
    };
    return { type: inputTypes[format ?? ""] ?? "text", minlength: minLength, maxlength: maxLength };
  }
  const step = schema.type === "integer" ? 1 : "any";
  return { type: "number", step, min: schema.minimum, max: schema.maximum };
}

/** Values and what they are called, in each of the forms that MCP has for a choice. */
function choicesOf(schema: object): (readonly [value: string, label: string])[] {
  const {
    oneOf,
    anyOf,
    enum: values,
    enumNames,
  } = schema as {
    oneOf?: readonly { readonly const: string; readonly title: string }[];
    anyOf?: readonly { readonly const: string; readonly title: string }[];
    enum?: readonly string[];
    enumNames?: readonly string[];
  };
  const titled = oneOf ?? anyOf;
  if (titled) return titled.map(({ const: value, title }) => [value, title]);
  return (values ?? []).map((value, n) => [value, enumNames?.[n] ?? value]);
}

function hint(id: string, description: string | undefined): Html | undefined {
  if (description === undefined) return undefined;
  return html`<p class="hint" id="${id}-hint"><bdi>${description}</bdi></p>`;
}

function optional(isRequired: boolean): Html | false {
  return !isRequired && html` <span class="optional">optional</span>`;
}
