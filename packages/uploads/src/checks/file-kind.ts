import type { SluiceError } from "@sluice/core";
import { canonicalType, parseMediaType } from "@sluice/core/internal";
import { RefusedFile } from "../slots/upload-error.ts";
import type { FirstBytes } from "./first-bytes.ts";
import {
  hasSignature,
  isContainer,
  isHarmless,
  isMedia,
  isProgram,
  isText,
  mayBegin,
  typesOfName,
  unknownType,
} from "./media-types.ts";

/** What is said of a file, and what its beginning shows. */
export interface KindClues {
  readonly name: string | undefined;
  /** Media type as the sender declared it. */
  readonly declaredType: string | undefined;
  readonly bytes: FirstBytes;
  /** Types whose signatures are known. */
  readonly signatureTypes: ReadonlySet<string>;
  /** Type of an extension. */
  readonly typeOfExtension: (extension: string) => string | null;
}

/** What a file is. */
export interface FileKind {
  /** Media type; `application/octet-stream` when nothing tells. */
  readonly type: string;
  /** The file is text that claims to be media or a PDF: scan all of it, and refuse it if anything in it could run. */
  readonly mustBeInactive: boolean;
}

/**
 * Says what a file is by its first bytes, its name and its declared type. Where everything is accepted, throws
 * `unsupported` only for what runs and is called something harmless. Where types are asked for, throws it for a file
 * that is of none of them, and when name, declared type and bytes do not agree.
 */
export function judgeKind(clues: KindClues, accept: readonly string[]): FileKind {
  const verdict = weighClues(clues);
  return accept.length === 0 || accept.includes("*/*")
    ? anyKind(clues, verdict)
    : askedKind(clues, verdict, accept);
}

interface Verdict {
  /** Claimed types that the bytes contradict. */
  readonly denied: readonly string[];
  readonly type: string;
  /** Claimed container types that the bytes confirm. */
  readonly containers: readonly string[];
  /** Types of the name that plain text may be, if the sender only said that it is text. */
  readonly textTypes: readonly string[];
}

function weighClues({
  name = "",
  declaredType,
  bytes,
  signatureTypes,
  typeOfExtension,
}: KindClues): Verdict {
  const essence = parseMediaType(declaredType)?.essence ?? unknownType;
  const ownType = essence === unknownType ? undefined : canonicalType(essence);
  const namedTypes = typesOfName(name, bytes.text !== undefined, typeOfExtension);
  const agrees = (type: string): boolean => mayBe(type, bytes, signatureTypes);
  const isNameTrue = namedTypes.length === 0 || namedTypes.some(agrees);
  // browsers declare what the extension means, or one of its meanings
  const isDeclarationTrue =
    ownType === undefined || agrees(ownType) || (isNameTrue && namedTypes.includes(ownType));
  const denied = [
    ...(isNameTrue ? [] : namedTypes.slice(0, 1)),
    ...(isDeclarationTrue ? [] : [ownType]),
  ];
  const isCalled = ownType !== undefined || namedTypes.length > 0;
  const shownTypes = bytes.type !== undefined && !(bytes.isWeak && isCalled) ? [bytes.type] : [];
  const isOwnWord = ownType !== undefined && !namedTypes.includes(ownType);
  const fitting = [...(isOwnWord ? [ownType] : []), ...namedTypes].filter(agrees);
  // the signature of a container says less than the name of what is made with it
  const [type = bytes.text === undefined ? unknownType : "text/plain"] = [
    ...fitting.filter((candidate) => !isContainer(candidate)),
    ...shownTypes,
    ...fitting,
  ];
  return {
    denied,
    type,
    containers: fitting.filter(isContainer),
    textTypes: ownType === "text/plain" ? namedTypes.filter(isText).filter(agrees) : [],
  };
}

/** Whether a file with these first bytes may be of this type. */
function mayBe(
  type: string,
  { type: found, isWeak, text }: FirstBytes,
  signatureTypes: ReadonlySet<string>,
): boolean {
  const hasOwnSignature = hasSignature(type, signatureTypes);
  if (found !== undefined && mayBegin(type, found, hasOwnSignature)) return true;
  if (found !== undefined && !isWeak) return false;
  return text === undefined
    ? !hasOwnSignature
    : isText(type) || !(hasOwnSignature || isMedia(type));
}

function anyKind({ bytes }: KindClues, { denied, type }: Verdict): FileKind {
  const { type: found = unknownType, isScript } = bytes;
  const runs = isProgram(found) && !bytes.isWeak;
  // archives of programs begin like any other
  const mayRun = isScript || found === "text/html" || archives.has(found);
  for (const name of denied)
    if ((runs && isHarmless(name)) || (mayRun && isPassive(name)))
      throw wrongType(`it is called ${name} and is ${isScript ? "a script" : found}`);
  return { type, mustBeInactive: bytes.text !== undefined && denied.some(isPassive) };
}

const archives: ReadonlySet<string> = new Set(["application/zip", "application/x-cfb"]);

function isPassive(type: string): boolean {
  return isMedia(type) || type === "application/pdf";
}

function askedKind(
  { name = "", bytes }: KindClues,
  { denied, type: likelyType, containers, textTypes }: Verdict,
  accept: readonly string[],
): FileKind {
  const { type: found = unknownType, text } = bytes;
  if (denied.length > 0) {
    const what = found === unknownType ? "does not begin like one" : `is ${found}`;
    throw wrongType(
      `it is called ${denied.join(", ")} and ${what}; accepted: ${accept.join(", ")}`,
    );
  }
  const lowerName = name.toLowerCase();
  const isAsked = (candidate: string): boolean =>
    accept.some((entry) => {
      if (entry.startsWith("."))
        return lowerName.endsWith(entry) && lowerName.length > entry.length;
      if (!entry.endsWith("/*"))
        return [candidate, found, ...containers].includes(canonicalType(entry));
      if (entry === "text/*" && isText(candidate)) return !isMedia(candidate);
      // `image/*` admits types without naming them, so a media file must prove its type by its bytes
      const isShown = found !== unknownType && mayBegin(candidate, found, false);
      const isIn = [candidate, found].some((each) => each.startsWith(entry.slice(0, -1)));
      return isIn && (isShown || !isMedia(entry));
    });
  const type = [likelyType, ...textTypes].find(isAsked);
  if (type === undefined)
    throw wrongType(`${likelyType} is not accepted here; accepted: ${accept.join(", ")}`);
  return { type, mustBeInactive: text !== undefined && isMedia(type) };
}

/** The error for a file of another type than it must be. */
export function wrongType(why: string): SluiceError {
  return new RefusedFile("unsupported", `the file is refused: ${why}`);
}
