import {
  CLIENT_CAPABILITIES_META_KEY,
  MissingRequiredClientCapabilityError,
  type ClientCapabilities,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import type { BinaryElicitation } from "@sluice/core/internal";
import { clientCapabilities, revisionOf } from "@sluice/server/internal";
import { z } from "zod/v4";
import { uploadError } from "../slots/upload-error.ts";

/** How this client can be asked for files. */
export type AskingWay =
  | { readonly kind: "binary"; readonly limits: BinaryElicitation }
  | { readonly kind: "page" }
  /** It can be asked nothing: the tool's answer asks its model. */
  | { readonly kind: "result" };

/**
 * Chooses by what the client declared: on this request if there is no session, else when it opened the session. Bare
 * `elicitation: {}` means form mode only (SEP-1306, Backwards Compatibility). Over stdio no client sends files itself:
 * they go to an upload endpoint that is served beside it.
 */
export function wayTo(mcp: McpServer, ctx: ServerContext): AskingWay {
  const elicitation = elicitationSchema.safeParse(clientCapabilities(mcp, ctx));
  const { binary, url } = elicitation.success ? elicitation.data.elicitation : {};
  if (binary !== undefined && !isStdio(ctx))
    return { kind: "binary", limits: binary as BinaryElicitation };
  return url === undefined ? { kind: "result" } : { kind: "page" };
}

/** True for a call that did not come over HTTP or WebSocket. */
export function isStdio(ctx: ServerContext): boolean {
  return !ctx.http?.req;
}

/** True in the revision without sessions. */
export function isStateless(mcp: McpServer): boolean {
  return revisionOf(mcp) === "modern";
}

/**
 * The error of a tool that asks and does not take an upload id, in a host that can be asked nothing. Without a session it
 * is the one that the protocol has for a missing capability.
 */
export function noUploadId(mcp: McpServer): Error {
  const message =
    "this host declares neither `elicitation.binary` nor `elicitation.url`, and the tool has no argument to take files up with: its author registers it with uploads.registerTool, or declares upload_id: uploadIdInput() and passes it to uploads.ask as uploadId";
  if (!isStateless(mcp)) return uploadError("unsupported", message);
  return new MissingRequiredClientCapabilityError(
    { requiredCapabilities: { elicitation: { binary: {} } } },
    `uploads: ${message}`,
  );
}

/** The error of a tool that asks over stdio, where no process that it knows takes files. */
export function noEndpoint(): SluiceError {
  return uploadError(
    "unsupported",
    "this process takes no files over HTTP; give the tool a path, or the content itself as a `data:` URI",
  );
}

/**
 * The SDK knows two modes: before it sends a question of any other it wants `form` declared, which a client
 * may well not have.
 */
export function letBinaryPass(ctx: ServerContext): void {
  const envelope = ctx.mcpReq.envelope as Record<string, unknown> | undefined;
  const capabilities = envelope?.[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined;
  const elicitation = capabilities?.elicitation;
  if (elicitation) elicitation.form ??= {};
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
