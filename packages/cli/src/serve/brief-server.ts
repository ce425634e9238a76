import { McpServer, type StandardSchemaWithJSON } from "@modelcontextprotocol/server";
import { definedMembers } from "@sluice/core";

/**
 * A server whose tools do not name the dialect of their schemas: MCP has JSON Schema 2020-12 where none is named (SEP-1613),
 * and models read every name.
 */
export class BriefMcpServer extends McpServer {
  override registerTool: McpServer["registerTool"] = (
    name: string,
    config: ToolConfig,
    handler: never,
  ) => {
    const { inputSchema, outputSchema } = config;
    const schemas = definedMembers({
      inputSchema: inputSchema && withoutDialect(inputSchema),
      outputSchema: outputSchema && withoutDialect(outputSchema),
    });
    return super.registerTool(name, { ...config, ...schemas } as object, handler) as never;
  };
}

interface ToolConfig {
  readonly inputSchema?: StandardSchemaWithJSON;
  readonly outputSchema?: StandardSchemaWithJSON;
}

type MakeSchema = StandardSchemaWithJSON["~standard"]["jsonSchema"]["input"];

function withoutDialect({ "~standard": standard }: StandardSchemaWithJSON): StandardSchemaWithJSON {
  const { jsonSchema, validate, vendor, version } = standard;
  const schemas = { input: briefly(jsonSchema.input), output: briefly(jsonSchema.output) };
  return { "~standard": { version, vendor, validate, jsonSchema: schemas } };
}

function briefly(make: MakeSchema): MakeSchema {
  return (options) => {
    const { $schema: _, ...schema } = make(options);
    return schema;
  };
}
