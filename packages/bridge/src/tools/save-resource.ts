import type { Consent, StreamOptions } from "@sluice/client";
import {
  formatScale,
  type SavableStream,
  streamLinkToSave,
  streamToSave,
} from "@sluice/client/internal";
import { SluiceError } from "@sluice/core";
import { definedMembers, fileNameFromUri } from "@sluice/core/internal";
import type { SavePlace } from "../confine/save-folder.ts";
import {
  agree,
  agreedBytes,
  type Save,
  type SavedResource,
  withRoom,
  writeSaved,
  type SaveSettings,
} from "./save-call.ts";
import { saveContent } from "./save-content.ts";
import { createServerClient } from "./server-client.ts";
import { optionalText, textArgument, type OwnToolCall } from "./tool-answer.ts";
import { yesAdvice, type ToolContext } from "./tool-context.ts";

/**
 * Saves a resource by the server's own way: `resources/stream`, else from a link of a trusted origin, else by
 * `resources/read`. Each file appears whole or not at all.
 */
export async function saveForHost(
  call: OwnToolCall,
  context: ToolContext,
  settings: SaveSettings,
): Promise<SavedResource> {
  const uri = textArgument(call.args, "uri");
  const path = optionalText(call.args, "path");
  const save: Save = { uri, path, call, context, settings };
  const isLink = /^https?:\/\//i.test(uri);
  const terms: StreamTerms = {};
  let refusal: SluiceError | undefined;
  // what a server does not declare it is not asked for
  if (isLink ? context.streams() === true : context.streams() !== false) {
    const client = createServerClient(context.calls(), context.server.kind);
    const stream = await streamToSave(client, uri, placeOf(save), optionsOf(save, terms)).catch(
      (error: unknown) => {
        if (!isStreamless(error, context)) throw error;
      },
    );
    if (stream) return saveStream(stream, save, terms);
  }
  if (isLink) {
    const stream = await openLink(save, terms).catch((error: unknown) => {
      if (!SluiceError.is(error) || error.code !== "untrusted") throw error;
      refusal = error;
    });
    if (stream) return saveStream(stream, save, terms);
  }
  return saveContent(save).catch((error: unknown) => {
    throw refusal ?? error;
  });
}

async function openLink(save: Save, terms: StreamTerms): Promise<SavableStream> {
  const { uri, call, context } = save;
  const endpoint = context.server.url ?? (await context.loopback.endpointFor(uri, call));
  const options = { ...optionsOf(save, terms), ...definedMembers({ endpoint }) };
  // servers put names into their links as they are
  const link = uri.replaceAll(/ |[^\p{ASCII}\p{C}]/gu, encodeURIComponent);
  return streamLinkToSave(link, placeOf(save), options);
}

/** The file of the save if it is named as its URI is: an interrupted save is looked for there. */
function placeOf({ uri, path, settings }: Save): string {
  return settings.folder.pathOf(path, fileNameFromUri(uri));
}

/** What is known of a stream once it is to be written. */
interface StreamTerms {
  place?: SavePlace;
}

function optionsOf(save: Save, terms: StreamTerms): StreamOptions {
  const { call, context, settings } = save;
  const consent: Consent = (scale) => {
    // one of unknown size may have as much as was agreed to before
    if (scale.unknownSizes > 0 || scale.bytes <= agreedBytes(context)) return true;
    const { path: to } = terms.place ?? {};
    return agree(`Save ${formatScale({ ...scale, ...definedMembers({ to }) })}?`, save);
  };
  return {
    signal: call.signal,
    ...definedMembers({ maxStreamBytes: settings.maxBytes }),
    trustedOrigins: context.trustedOrigins,
    consent,
    onProgress: ({ bytes, totalBytes }) => call.progress(bytes, totalBytes),
  };
}

async function saveStream(
  stream: SavableStream,
  save: Save,
  terms: StreamTerms,
): Promise<SavedResource> {
  const { size } = stream;
  const agreed = agreedBytes(save.context);
  let refusal: unknown;
  try {
    return await withRoom(save, size ?? 0, (reservation) => {
      const reserve = async (bytes: number): Promise<void> => {
        try {
          if (size === undefined && bytes > agreed) throw unboundedFault(agreed);
          await reservation.growAhead(bytes);
        } catch (error) {
          refusal = error;
          throw error;
        }
      };
      return writeSaved(save, stream, (place) => {
        terms.place = place;
        return stream.saveTo(place.held, { resume: true, reserve });
      });
    });
  } catch (error) {
    stream.cancel(error);
    // the client has words of its own for a full disk
    throw refusal ?? error;
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
  return error.code === "unsupported" || (streams() === undefined && otherAnswers.has(error.code));
}

/** Servers that know no such method have several numbers for it. */
const otherAnswers: ReadonlySet<string> = new Set([
  "invalid_argument",
  "protocol",
  "internal",
  "unavailable",
  "not_found",
]);
