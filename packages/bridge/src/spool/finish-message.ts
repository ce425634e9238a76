import mime from "mime";
import { SluiceError } from "@sluice/core";
import {
  isResponse,
  extensionOf,
  localFileName,
  parseMediaType,
  type LooseResponse,
  type RpcId,
} from "@sluice/core/internal";
import { findPlaces, isOfBytes, mimeTypeOf, nameHintOf, type FoundPlace } from "./found-places.ts";
import type { SpooledString, SpooledStrings, StringCoding } from "./spooled-string.ts";
import type { StringFacts, StringFile } from "./files/string-file.ts";

/** A long string of a message: its file, and what is known of it since its end. */
export interface FoundString {
  readonly file: StringFile;
  facts?: StringFacts;
}

interface FoundStrings {
  /** What stands for them, also for those without a file. */
  readonly markers: ReadonlySet<string>;
  readonly files: ReadonlyMap<string, FoundString>;
  /** Why no response of the message can be given. */
  readonly failure: SluiceError | undefined;
}

interface AnswerRules {
  readonly spooled: SpooledStrings;
  readonly inlineBytes: number;
  readonly isAwaited: (id: RpcId) => boolean;
}

interface FinishedMessage {
  /** Other JSON, where it has some. */
  readonly json?: string;
  /** Markers that are words now, as no file of theirs is kept. */
  readonly leftOut: readonly string[];
}

/** A message of a batch, or the only one. */
interface Part {
  readonly message: unknown;
  readonly places: readonly FoundPlace[];
  /** Its files are kept: the host waits for it. */
  readonly isAnswer: boolean;
}

/**
 * Names the files of the responses in a parsed text and removes all others. Responses become JSON-RPC errors where a file
 * failed, or where a long string stands in a place that JSON-RPC or MCP reads.
 */
export async function finishMessage(
  value: unknown,
  strings: FoundStrings,
  rules: AnswerRules,
): Promise<FinishedMessage> {
  const parts = (Array.isArray(value) ? value : [value]).map((message: unknown): Part => {
    const places = findPlaces(message, strings.markers);
    return { message, places, isAnswer: isResponse(message) && rules.isAwaited(message.id) };
  });
  const failure = strings.failure ?? (await publishAnswers(parts, strings, rules));
  const keptMarkers = new Set(failure ? [] : placesOf(parts, true).map(({ marker }) => marker));
  for (const [marker, { file }] of strings.files)
    if (!keptMarkers.has(marker)) await file.discard();
  const leftOut = placesOf(parts, false).map(({ marker }) => marker);
  if (!failure) return { leftOut };
  const messages = parts.map(({ message, places, isAnswer }) =>
    isAnswer && places.length > 0 ? errorFor(message as LooseResponse, failure) : message,
  );
  return { json: JSON.stringify(Array.isArray(value) ? messages : messages[0]), leftOut };
}

function placesOf(parts: readonly Part[], isAnswer: boolean): FoundPlace[] {
  return parts.filter((part) => part.isAnswer === isAnswer).flatMap(({ places }) => places);
}

/** Gives the files their names; what hinders it, where something does. */
async function publishAnswers(
  parts: readonly Part[],
  { files }: FoundStrings,
  { spooled, inlineBytes }: AnswerRules,
): Promise<SluiceError | undefined> {
  const places = placesOf(parts, true);
  const refusedPlace = places.find(({ protocolMember }) => protocolMember !== undefined);
  if (refusedPlace)
    return new SluiceError(
      "too_large",
      `bridge: spool: the answer has a "${refusedPlace.protocolMember}" of more than ${inlineBytes} bytes; raise that limit to get it`,
    );
  try {
    for (const { message, places: own } of parts.filter(({ isAnswer }) => isAnswer)) {
      const { id: answerId } = message as LooseResponse;
      // many servers write a text once more as structured content
      const published = new Map<string, Omit<SpooledString, "answerId">>();
      for (const place of own) {
        const found = files.get(place.marker);
        const key = `${found?.facts?.coding} ${found?.facts?.sha256}`;
        const twin = published.get(key);
        if (twin) await found?.file.discard();
        const string = twin ?? (await publish(place, found));
        published.set(key, string);
        spooled.set(place.marker, { answerId, ...string, id: place.marker });
      }
    }
    return undefined;
  } catch (error) {
    for (const { marker } of places) spooled.delete(marker);
    if (SluiceError.is(error)) return error;
    throw error;
  }
}

async function publish(
  place: FoundPlace,
  found: FoundString | undefined,
): Promise<Omit<SpooledString, "answerId">> {
  const { marker, holder } = place;
  if (!found?.facts) throw new SluiceError("internal", "bridge: spool: a file was lost");
  const { coding, bytes, sha256, head } = found.facts;
  const isWrong = coding === "text" && isOfBytes(place);
  const hints = { name: nameHintOf(place), mimeType: mimeTypeOf(holder), coding, isWrong };
  const name = spoolName(hints);
  const published = await found.file.publish(name);
  return { id: marker, place: published, name, bytes, sha256, head, coding };
}

/** An error in place of a response (JSON-RPC 2.0 §5.1). */
function errorFor({ id }: LooseResponse, { message, code }: SluiceError): object {
  return { jsonrpc: "2.0", id, error: { code: internalError, message, data: { reason: code } } };
}

const internalError = -32_603;

interface NameHints {
  /** As another party gave it. */
  readonly name: string | undefined;
  readonly mimeType: string | undefined;
  readonly coding: StringCoding;
  /** It is a text where bytes were promised: name and type are those of the bytes. */
  readonly isWrong: boolean;
}

/** A safe file name of at most 64 characters, always with an extension. */
function spoolName({ name, mimeType, coding, isWrong }: NameHints): string {
  const safe = name === undefined ? "" : localFileName(name);
  const givenExtension = isWrong ? "" : extensionOf(safe);
  const isGiven = givenExtension !== "" && givenExtension.length <= longestExtension;
  const stem = isGiven ? safe.slice(0, safe.length - givenExtension.length - 1) : safe;
  const extension = isGiven
    ? safe.slice(-givenExtension.length)
    : extensionFor(isWrong ? undefined : mimeType, coding);
  const shortStem = Array.from(stem).slice(0, longestStem).join("");
  return `${shortStem === "" ? (coding === "text" ? "text" : "data") : shortStem}.${extension}`;
}

const longestStem = 48;
const longestExtension = 15;

function extensionFor(mimeType: string | undefined, coding: StringCoding): string {
  const type = parseMediaType(mimeType)?.essence;
  const typeExtension = type === undefined ? undefined : mime.getExtension(type);
  return typeExtension ?? (coding === "text" ? "txt" : "bin");
}
