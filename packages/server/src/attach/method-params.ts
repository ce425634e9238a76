import type { StandardSchemaV1 } from "@modelcontextprotocol/server";
import { z } from "zod/v4";

/** Parameters of a method about one resource. */
export const uriParams: StandardSchemaV1<{ uri: string }> = passing(
  () => z.looseObject({ uri: z.string({ error: "must be a string" }) }),
  ({ uri }) => typeof uri === "string",
);

/** Parameters of a method that lists. */
export const cursorParams: StandardSchemaV1<{ cursor?: string | undefined }> = passing(
  () => z.looseObject({ cursor: z.optional(z.string({ error: "must be a string" })) }),
  ({ cursor }) => cursor === undefined || typeof cursor === "string",
);

/** Takes every result. Made once: schemas are large, and there is a server for each connection. */
export const anyResult: z.ZodType<Record<string, unknown>> = z.looseObject({});

/** The same schema, which copies nothing of what is well formed: calls pass several of them. It is made for a fault. */
function passing<Params>(
  makeSchema: () => z.ZodType<Params>,
  isWellFormed: (params: { readonly [K in keyof Params]?: unknown }) => boolean,
): StandardSchemaV1<Params> {
  let schema: z.ZodType<Params> | undefined;
  return {
    "~standard": {
      version: 1,
      vendor: "sluice",
      validate: (value) =>
        isObject(value) && isWellFormed(value)
          ? { value: value as Params }
          : (schema ??= makeSchema())["~standard"].validate(value),
    },
  };
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
