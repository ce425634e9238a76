import { completable, McpServer, ResourceTemplate } from "@modelcontextprotocol/server";
import { z } from "zod";

/** A red pixel. */
const png =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";
/** A WAV file without samples. */
const wav = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const text = (value: string) => ({ type: "text" as const, text: value });
const image = { type: "image" as const, data: png, mimeType: "image/png" };
const embedded = (uri: string, mimeType: string, content: string) => ({
  type: "resource" as const,
  resource: { uri, mimeType, text: content },
});
const user = <Content>(content: Content) => ({ role: "user" as const, content });

/**
 * The part of the conformance suite's reference fixture that needs no input from the client: tools,
 * prompts, completion, and resources that an author registered without Sluice.
 */
export function createReferenceServer(): McpServer {
  const mcp = new McpServer(
    { name: "reference", version: "1.0.0" },
    { capabilities: { logging: {}, resources: { subscribe: true } } },
  );
  registerTools(mcp);
  registerResources(mcp);
  registerPrompts(mcp);
  return mcp;
}

function registerTools(mcp: McpServer): void {
  const answers = {
    test_simple_text: [text("This is a simple text response for testing.")],
    test_image_content: [image],
    test_audio_content: [{ type: "audio" as const, data: wav, mimeType: "audio/wav" }],
    test_embedded_resource: [
      embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."),
    ],
    test_multiple_content_types: [
      text("Multiple content types test:"),
      image,
      embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
  };
  for (const [name, content] of Object.entries(answers))
    mcp.registerTool(name, { description: `Answers ${name}` }, () => ({ content }));

  mcp.registerTool("test_error_handling", { description: "Fails" }, () => {
    throw new Error("This tool intentionally returns an error for testing");
  });
  mcp.registerTool("test_tool_with_logging", { description: "Logs" }, async (ctx) => {
    for (const data of ["started", "processing", "completed"]) {
      await ctx.mcpReq.log("info", `Tool ${data}`);
      await pause(50);
    }
    return { content: [text("Logged.")] };
  });
  mcp.registerTool("test_tool_with_progress", { description: "Reports" }, async (ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined)
        await ctx.mcpReq.notify({
          method: "notifications/progress",
          params: { progressToken, progress, total: 100 },
        });
      await pause(50);
    }
    return { content: [text("Done.")] };
  });
}

function registerResources(mcp: McpServer): void {
  mcp.registerResource(
    "static-text",
    "test://static-text",
    { mimeType: "text/plain", description: "Text" },
    (uri) => ({
      contents: [
        {
          uri: uri.href,
          mimeType: "text/plain",
          text: "This is the content of the static text resource.",
        },
      ],
    }),
  );
  mcp.registerResource(
    "static-binary",
    "test://static-binary",
    { mimeType: "image/png", description: "Binary" },
    (uri) => ({ contents: [{ uri: uri.href, mimeType: "image/png", blob: png }] }),
  );
  mcp.registerResource(
    "template",
    new ResourceTemplate("test://template/{id}/data", { list: undefined }),
    { mimeType: "application/json", description: "Template" },
    (uri, { id }) => ({
      contents: [
        {
          uri: uri.href,
          mimeType: "application/json",
          text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${String(id)}` }),
        },
      ],
    }),
  );
  mcp.server.setRequestHandler("resources/subscribe", () => ({}));
  mcp.server.setRequestHandler("resources/unsubscribe", () => ({}));
}

function registerPrompts(mcp: McpServer): void {
  mcp.registerPrompt("test_simple_prompt", { description: "Simple" }, () => ({
    messages: [user(text("This is a simple prompt for testing."))],
  }));
  mcp.registerPrompt(
    "test_prompt_with_arguments",
    {
      description: "Arguments",
      argsSchema: z.object({
        arg1: completable(z.string(), (value) => [`${value}ed`]),
        arg2: z.string(),
      }),
    },
    ({ arg1, arg2 }) => ({
      messages: [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
    }),
  );
  mcp.registerPrompt(
    "test_prompt_with_embedded_resource",
    { description: "Resource", argsSchema: z.object({ resourceUri: z.string() }) },
    ({ resourceUri }) => ({
      messages: [
        user(embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
        user(text("Please process the embedded resource above.")),
      ],
    }),
  );
  mcp.registerPrompt("test_prompt_with_image", { description: "Image" }, () => ({
    messages: [user(image), user(text("Please analyze the image above."))],
  }));
}
