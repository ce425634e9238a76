import {
  formatScale,
  streamLink,
  streamResource,
  type Consent,
  type SavableStream,
  type StreamOptions,
} from "@sluice/client";
import { definedMembers, SluiceError } from "@sluice/core";
import {
  agree,
  agreedBytes,
  type Save,
  type SavedResource,
  type SaveSettings,
} from "./save-call.ts";
import { saveContent } from "./save-content.ts";
import { createServerClient } from "./server-client.ts";
import { optionalText, textArgument, type ToolCall } from "./tool-answer.ts";
import { yesAdvice, type ToolContext } from "./tool-context.ts";

/**
 * Saves a resource by the server's own way: `resources/stream`, else from a link of a trusted origin, else by
 * `resources/read`. Each file appears whole or not at all.
 */
export async function saveForHost(
  call: ToolCall,
  context: ToolContext,
  settings: SaveSettings,
): Promise<SavedResource> {
  const uri = textArgument(call.args, "uri");
  const path = optionalText(call.args, "path");
  const save: Save = { uri, path, call, context, settings };
  const isLink = /^https?:\/\//i.test(uri);
  let refusal: SluiceError | undefined;
  if (!isLink || context.streams()) {
    const client = createServerClient(context.calls(), context.server.kind);
    const stream = await streamResource(client, uri, optionsOf(save)).catch((error: unknown) => {
      if (!isStreamless(error, context)) throw error;
    });
    if (stream) return saveStream(stream, save);
  }
  if (isLink) {
    const endpoint = context.server.url ?? context.loopback.endpointFor(uri);
    const stream = await streamLink(uri, {
      ...optionsOf(save),
      ...definedMembers({ endpoint }),
    }).catch((error: unknown) => {
      if (!SluiceError.is(error) || error.code !== "untrusted") throw error;
      refusal = error;
    });
    if (stream) return saveStream(stream, save);
  }
  return saveContent(save).catch((error: unknown) => {
    throw refusal ?? error;
  });
}

function optionsOf(save: Save): StreamOptions {
  const { call, context, settings } = save;
  const tooMuch = new AbortController();
  const consent: Consent = (scale) => {
    // one of unknown size may have as much as was agreed to before
    if (scale.unknownSizes > 0 || scale.bytes <= agreedBytes(context)) return true;
    return agree(`Save ${formatScale(scale)}?`, save);
  };
  return {
    signal: AbortSignal.any([call.signal, tooMuch.signal]),
    maxStreamSize: settings.maxBytes,
    trustedOrigins: context.trustedOrigins,
    consent,
    onProgress({ receivedBytes, totalBytes }) {
      call.progress(receivedBytes, totalBytes);
      if (totalBytes === undefined && receivedBytes > agreedBytes(context))
        tooMuch.abort(unboundedFault(agreedBytes(context)));
    },
  };
}

async function saveStream(stream: SavableStream, { path, settings }: Save): Promise<SavedResource> {
  try {
    const place = await settings.folder.place(path, stream.name);
    return await stream.saveTo(place.path, { resume: true });
  } catch (error) {
    await stream.body.cancel(error).catch(() => {});
    throw error;
  }
}

function unboundedFault(bytes: number): SluiceError {
  return new SluiceError(
    "too_large",
    `bridge: the server does not tell the size, and it is more than ${bytes} bytes; ${yesAdvice}`,
  );
}

/** True when the error says that the server does not stream this resource. */
function isStreamless(error: unknown, { streams }: ToolContext): boolean {
  if (!SluiceError.is(error)) return false;
  return error.code === "unsupported" || (!streams() && otherAnswers.has(error.code));
}

/** Servers that know no such method have several numbers for it. */
const otherAnswers: ReadonlySet<string> = new Set([
  "invalid_argument",
  "protocol",
  "internal",
  "unavailable",
  "not_found",
]);
