import { parseMediaType, type SluiceError } from "@sluice/core";
import { RefusedFile } from "./refused-file.ts";

/** What is said of a file, and what its beginning shows. */
export interface KindClues {
  /** Media type as the sender declared it. */
  readonly declaredType: string | undefined;
  readonly name: string | undefined;
  /** Type that its first bytes are of; `undefined` when they have no mark that is known. */
  readonly detectedType: string | undefined;
  /** Whether the declared type has a mark that would have been found. */
  readonly hasMark: (essence: string) => boolean;
  /** Type of an extension. */
  readonly typeOfName: (name: string) => string | null;
}

/**
 * Says what a file is: `application/octet-stream` when nothing tells. Throws `unsupported` when
 * mark, declared type and extension contradict each other, or when the slot does not accept it.
 */
export function kindOf(clues: KindClues, accept: readonly string[]): string {
  const { detectedType: detected, name = "", hasMark, typeOfName } = clues;
  const declared = specific(parseMediaType(clues.declaredType)?.essence);
  const named = specific(typeOfName(name) ?? undefined);
  for (const told of [declared, named]) {
    if (told === undefined) continue;
    if (detected !== undefined && !isSameKind(told, detected))
      throw wrongType(`it is called ${told} and is ${detected}`);
    if (detected === undefined && hasMark(told) && !isText(told))
      throw wrongType(`it is called ${told} and does not begin like one`);
  }
  if (declared !== undefined && named !== undefined && !isSameKind(declared, named))
    throw wrongType(`it is called ${declared} and its name says ${named}`);
  // a general mark, such as that of a ZIP, says less than the name of what is made with it
  const kind = declared ?? named ?? detected ?? unknownType;
  if (!accepts(accept, [kind, ...(detected === undefined ? [] : [detected])], name))
    throw wrongType(`${kind} is not accepted here`);
  return kind;
}

const unknownType = "application/octet-stream";

function specific(essence: string | undefined): string | undefined {
  return essence === unknownType || essence === undefined ? undefined : canonical(essence);
}

function accepts(accept: readonly string[], kinds: readonly string[], name: string): boolean {
  if (accept.length === 0) return true;
  const lowerName = name.toLowerCase();
  return accept.some((entry) => {
    if (entry === "*/*") return true;
    if (entry.startsWith(".")) return lowerName.endsWith(entry) && lowerName.length > entry.length;
    if (entry.endsWith("/*")) return kinds.some((kind) => kind.startsWith(entry.slice(0, -1)));
    return kinds.some((kind) => kind === canonical(entry));
  });
}

/** Names of the same type that are about. */
const aliases: Readonly<Record<string, string>> = {
  "image/jpg": "image/jpeg",
  "image/pjpeg": "image/jpeg",
  "image/x-png": "image/png",
  "image/x-ms-bmp": "image/bmp",
  "image/vnd.microsoft.icon": "image/x-icon",
  "audio/mp3": "audio/mpeg",
  "audio/x-wav": "audio/wav",
  "audio/vnd.wave": "audio/wav",
  "audio/wave": "audio/wav",
  "audio/x-m4a": "audio/mp4",
  "audio/m4a": "audio/mp4",
  "audio/x-flac": "audio/flac",
  "application/x-gzip": "application/gzip",
  "application/x-zip-compressed": "application/zip",
  "application/x-rar": "application/x-rar-compressed",
  "application/vnd.rar": "application/x-rar-compressed",
  "application/x-pdf": "application/pdf",
  "text/xml": "application/xml",
  "text/javascript": "application/javascript",
};

function canonical(essence: string): string {
  return aliases[essence] ?? essence;
}

function isSameKind(told: string, found: string): boolean {
  const [a, b] = [canonical(told), canonical(found)];
  if (a === b || (isText(a) && isText(b))) return true;
  return containers.some(
    ({ marks, made }) => (marks.test(a) && made.test(b)) || (marks.test(b) && made.test(a)),
  );
}

/** Formats whose beginning is that of the container they are made with. */
const containers: readonly { readonly marks: RegExp; readonly made: RegExp }[] = [
  {
    marks: /^application\/zip$/,
    made: /^application\/(?:.+\+zip|vnd\.openxmlformats-officedocument\..+|vnd\.ms-.+|vnd\.oasis\.opendocument\..+|java-archive|vnd\.android\.package-archive|vnd\.apple\..+|x-xpinstall|vnd\.google-earth\.kmz)$/,
  },
  {
    marks: /^application\/x-cfb$/,
    made: /^application\/(?:msword|vnd\.ms-.+|x-msi|vnd\.visio)$/,
  },
  { marks: /^application\/xml$/, made: /\+xml$/ },
  {
    marks: /^application\/gzip$/,
    made: /^application\/(?:x-tar|x-tgz|x-compressed-tar|.+\+gzip)$/,
  },
  {
    marks: /^video\/(?:mp4|webm|ogg|quicktime|3gpp)$/,
    made: /^(?:audio|video)\/(?:mp4|webm|ogg|quicktime|3gpp|x-m4v)$/,
  },
  { marks: /^(?:application|audio)\/ogg$/, made: /^(?:audio|video|application)\/(?:ogg|opus)$/ },
  { marks: /^video\/matroska$/, made: /^(?:audio|video)\/(?:x-matroska|matroska|webm)$/ },
  { marks: /^image\/heif$/, made: /^image\/(?:heic|heif-sequence|heic-sequence|avif)$/ },
  { marks: /^image\/apng$/, made: /^image\/png$/ },
];

/** True for what is text whatever it is called: senders choose these names freely, and nothing in the bytes tells. */
function isText(essence: string): boolean {
  return (
    essence.startsWith("text/") ||
    /^application\/(?:json|javascript|xml|x-sh|x-yaml|yaml|toml|sql|rtf|x-ndjson|x-httpd-php)$/.test(
      essence,
    ) ||
    /\+(?:json|xml|yaml)$/.test(essence)
  );
}

function wrongType(why: string): SluiceError {
  return new RefusedFile("unsupported", `the file is refused: ${why}`);
}
