import {
  CLIENT_CAPABILITIES_META_KEY,
  MissingRequiredClientCapabilityError,
  type ClientCapabilities,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import type { BinaryElicitation } from "@sluice/core/wire";
import { revisionOf } from "@sluice/server/transport";
import { z } from "zod";
import { uploadError } from "../slots/upload-error.ts";

/** How this client can be asked for files. */
export type AskingWay =
  | { readonly kind: "binary"; readonly limits: BinaryElicitation }
  | { readonly kind: "page" };

/**
 * Chooses by what the client declared: on this request without a session, else on its session. Bare
 * `elicitation: {}` means form mode only (SEP-1306, Backwards Compatibility). Throws what the author should read, and
 * without a session the error that the protocol has for it.
 */
export function wayTo(mcp: McpServer, ctx: ServerContext): AskingWay {
  if (!ctx.http?.req)
    throw uploadError(
      "unsupported",
      "files can be asked for over HTTP and WebSocket only: over stdio there is no upload endpoint; take a path, or a `data:` URI, as an argument of the tool",
    );
  const isStateless = revisionOf(mcp) === "modern";
  const declared = isStateless ? declaredIn(ctx) : mcp.server.getClientCapabilities();
  if (!isStateless && declared === undefined)
    throw uploadError(
      "unsupported",
      "a client of MCP 2025-11-25 or older can be asked within a session only: serve it with a sessionful transport",
    );
  const elicitation = elicitationSchema.safeParse(declared);
  const { binary, url } = elicitation.success ? elicitation.data.elicitation : {};
  if (binary !== undefined) return { kind: "binary", limits: binary as BinaryElicitation };
  if (url !== undefined) return { kind: "page" };
  if (!isStateless) throw noWay();
  throw new MissingRequiredClientCapabilityError(
    { requiredCapabilities: { elicitation: { binary: {} } } },
    noWay().message,
  );
}

/**
 * The SDK knows two modes: before it sends a question of any other it wants `form` declared, which a client
 * may well not have.
 */
export function letBinaryPass(ctx: ServerContext): void {
  const elicitation = declaredIn(ctx)?.elicitation;
  if (elicitation) elicitation.form ??= {};
}

function declaredIn(ctx: ServerContext): ClientCapabilities | undefined {
  const envelope = ctx.mcpReq.envelope as Record<string, unknown> | undefined;
  return envelope?.[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined;
}

const elicitationSchema = z.looseObject({
  elicitation: z.looseObject({
    binary: z
      .looseObject({
        maxFileSize: z.number().nonnegative().optional().catch(undefined),
        supportedMimeTypes: z.array(z.string()).optional().catch(undefined),
      })
      .optional()
      .catch(undefined),
    url: z.looseObject({}).optional().catch(undefined),
  }),
});

function noWay(): SluiceError {
  return uploadError(
    "unsupported",
    "this client cannot send files: it must declare `elicitation.binary` (SEP-1306), or `elicitation.url` for sending them in a browser",
  );
}
