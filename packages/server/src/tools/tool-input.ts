import { z } from "zod/v4";

/**
 * An argument that may be left out. Hosts that fill in what their model has not named send `null` or `""`: both are absent.
 * Models see the schema of the argument itself.
 */
export function optionalInput<Argument extends z.ZodType>(
  argument: Argument,
): z.ZodOptional<z.ZodType<z.output<Argument> | undefined>> {
  const preprocessed = z.preprocess(
    (given) => (given === null || given === "" ? undefined : given),
    argument.optional(),
  );
  return preprocessed.optional();
}

/** The arguments or the result of a tool. */
export function toolSchema<Shape extends z.core.$ZodLooseShape>(shape: Shape): z.ZodObject<Shape> {
  return withoutDialect(z.object(shape));
}

/** A schema that names no dialect: MCP has JSON Schema 2020-12 then (SEP-1613), and some hosts refuse a tool that names it. */
export function withoutDialect<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ $schema: undefined });
}
