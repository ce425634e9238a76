import { canonicalType, extensionOf, isTextName } from "@sluice/core/internal";

// Which types are formats of one another: the signature of a container is that of everything that is made with it.

/** Types of programs, of packages that install some, and of what starts one. */
const programs: ReadonlySet<string> = new Set([
  "application/java-archive",
  "application/java-vm",
  "application/vnd.android.package-archive",
  "application/vnd.ms-htmlhelp",
  "application/wasm",
  "application/x-deb",
  "application/x-dex",
  "application/x-elf",
  "application/x-google-chrome-extension",
  "application/x-llvm",
  "application/x-lua-bytecode",
  "application/x-mach-binary",
  "application/x-msdownload",
  "application/x-rpm",
  "application/x-shockwave-flash",
  "application/x-xpinstall",
  "application/x.apple.alias",
  "application/x.ms.shortcut",
]);

/** Whether files with the signature of this type run, or may hold what does. */
export function isProgram(type: string): boolean {
  return programs.has(type);
}

const office =
  /^application\/(?:msword|vnd\.(?:openxmlformats-officedocument|ms-(?:word|excel|powerpoint|visio))\b)/;
const madeOfZip =
  /\+zip$|^application\/(?:java-archive|x-xpinstall|x-krita|oxps|vnd\.(?:openxmlformats-|oasis\.|sun\.xml\.|android\.|apple\.|ms-(?:word|excel|powerpoint|visio|package|xpsdocument)|google-earth\.kmz|comicbook|visio\b|geogebra|recordare\.musicxml$))|^image\/openraster$|^model\/(?:3mf|vnd\.usdz)/;
const madeOfCfb =
  /^application\/(?:msword|x-msi|x-mspublisher|hwp|x-hwp|vnd\.(?:openxmlformats-officedocument|ms-|visio|hancom))|^image\/vnd\.fpx$/;
const macroEnabled = /macroenabled/;
/** Formats that are told apart only further down, if at all, or that carry one name for another. */
const families: readonly RegExp[] = [
  /^application\/(?:msword|rtf|vnd\.ms-word\b|vnd\.openxmlformats-officedocument\.wordprocessingml\.)/,
  /^application\/vnd\.(?:ms-excel\b|openxmlformats-officedocument\.spreadsheetml\.)/,
  /^application\/vnd\.(?:ms-powerpoint\b|openxmlformats-officedocument\.presentationml\.)/,
  /^application\/vnd\.(?:ms-)?visio\b/,
  /^application\/vnd\.oasis\.opendocument\./,
  /^application\/(?:java-archive|x-xpinstall|vnd\.android\.package-archive)$/,
  /^application\/xml$|\+xml$/,
  /^(?:audio|video|application)\/(?:mp4|quicktime|3gpp|3gpp2|x-m4v|x-m4p|mpeg4-generic)$/,
  /^(?:video\/(?:matroska|webm)|audio\/webm)$/,
  /^(?:application|audio|video)\/(?:ogg|opus|vorbis|speex|theora|x-vorbis\+ogg|x-speex\+ogg|x-theora\+ogg|x-opus\+ogg|x-flac\+ogg|x-ogm\+ogg)$/,
  /^(?:application|audio|video)\/(?:vnd\.ms-asf|x-ms-asf|x-ms-asx|x-ms-wma|x-ms-wmv|x-ms-wm|x-ms-wax|x-ms-wvx)$/,
  /^video\/(?:x-flv|x-f4v)$/,
  /^font\/(?:ttf|otf|collection)$/,
  /^image\/(?:heif|heic|heif-sequence|heic-sequence|avif)$/,
  /^image\/(?:jp2|jpx|jpm|j2c|jpeg2000|x-jp2|jpeg2000-image)$|^(?:image|video)\/mj2$/,
  /^image\/(?:tiff|x-(?:dcraw|(?:adobe|nikon|sony|canon|pentax|samsung|epson|kodak|hasselblad|mamiya|leica|minolta|leaf|phaseone|olympus|panasonic|fujifilm|sigma)-\w+))$/,
  /^image\/x-portable-(?:anymap|bitmap|graymap|pixmap|arbitrarymap)$/,
  /^application\/(?:postscript|x-font-type1)$/,
];

/** Container formats whose signature is also that of everything built on them. */
const containers: ReadonlySet<string> = new Set([
  "application/gzip",
  "application/x-bzip2",
  "application/x-cfb",
  "application/x-cpio",
  "application/x-sqlite3",
  "application/x-tar",
  "application/x-unix-archive",
  "application/x-xz",
  "application/xml",
  "application/zip",
  "application/zstd",
]);

/** Whether a type is named after its container, so that a name beside it says more. */
export function isContainer(type: string): boolean {
  return containers.has(type);
}

/**
 * Whether a file that is called `told` may begin as one of type `found` does. `hasOwnSignature` says whether `told` has a
 * signature of its own, see {@link hasSignature}.
 */
export function mayBegin(told: string, found: string, hasOwnSignature: boolean): boolean {
  if (told === found) return true;
  if (macroEnabled.test(found) && office.test(told) && !macroEnabled.test(told)) return false;
  if (families.some((family) => family.test(told) && family.test(found))) return true;
  if (told === "application/zip") return madeOfZip.test(found);
  if (told === "application/x-cfb") return madeOfCfb.test(found);
  if (found === "application/zip")
    return madeOfZip.test(told) || isOpenEnded(told, hasOwnSignature);
  if (found === "application/x-cfb")
    return madeOfCfb.test(told) || isOpenEnded(told, hasOwnSignature);
  if (
    found === "application/gzip" &&
    /gzip$|^application\/(?:tgz|x-tgz|x-compressed-tar)$/.test(told)
  )
    return true;
  if (isText(told) && isText(found)) return !told.startsWith("image/");
  return containers.has(found) && isOpenEnded(told, hasOwnSignature);
}

/** Types of applications, which make their files with whatever container they like. */
function isOpenEnded(type: string, hasOwnSignature: boolean): boolean {
  return !hasOwnSignature && /^(?:application|model|chemical)\//.test(type) && !isText(type);
}

/** Types without a signature, or with one of several. */
const withoutSignature: ReadonlySet<string> = new Set([
  "application/pgp-encrypted",
  "application/vnd.ms-outlook",
  "application/x-apple-diskimage",
  "application/x-esri-shape",
  "application/x-ms-regedit",
  "model/stl",
]);

/** Whether files of this type begin with a signature. `known` are the types whose signatures are known. */
export function hasSignature(type: string, known: ReadonlySet<string>): boolean {
  if (isText(type) || withoutSignature.has(type)) return false;
  if (known.has(type) || madeOfZip.test(type) || madeOfCfb.test(type)) return true;
  return families.some((family) => family.test(type));
}

/** True for what is text whatever it is called: senders choose these names freely, and nothing in the bytes tells. */
export function isText(type: string): boolean {
  return (
    type.startsWith("text/") ||
    /^(?:application|audio)\/(?:json|json5|javascript|ecmascript|node|xml|xml-dtd|x-sh|x-csh|x-tcl|x-perl|x-tex|x-latex|x-bat|yaml|toml|sql|rtf|graphql|x-ndjson|x-httpd-php|x-httpd-script|x-wsh|x-powershell|x-shortcut|hta|x-subrip|pgp-keys|x-pem-file|x-x509-ca-cert|x-ms-regedit|x-mpegurl|mpegurl|vnd\.apple\.mpegurl|x-scpls)$/.test(
      type,
    ) ||
    /^image\/(?:svg\+xml|x-xpixmap|x-xbitmap|vnd\.dxf)$/.test(type) ||
    /\+(?:json|xml|yaml|text)$/.test(type)
  );
}

/** Pictures, sound, film and fonts. */
export function isMedia(type: string): boolean {
  return /^(?:image|audio|video|font)\//.test(type);
}

/** Types of text that a system or a server runs by the name of the file. */
const runs =
  /^application\/(?:hta|node|x-bat|x-csh|x-httpd-\w+|x-perl|x-powershell|x-sh|x-shortcut|x-tcl|x-wsh)$/;

/** Types whose files people open without a thought. */
export function isHarmless(type: string): boolean {
  return (
    isMedia(type) ||
    (isText(type) && !runs.test(type)) ||
    office.test(type) ||
    /^application\/(?:pdf|epub\+zip|vnd\.(?:oasis|apple)\..+)$/.test(type)
  );
}

/** Type of a file of which nothing is known. */
export const unknownType = "application/octet-stream";

/** Extensions that programs, scripts and pages run by, where the table of media types names none. */
const runExtensions: Readonly<Record<string, string>> = {
  "application/x-msdownload": "exe dll scr com cpl sys ocx pif",
  "application/x-msi": "msi msp",
  "application/x-bat": "bat cmd",
  "application/hta": "hta",
  "application/x-httpd-php": "php php3 php4 php5 php7 php8 phtml phar pht",
  "application/x-httpd-script": "asp aspx ashx asmx asa jsp jspx jsf cgi fcgi cfm shtm stm",
  "application/x-wsh": "vbs vbe jse ws wsf wsc wsh sct",
  "application/x-powershell": "ps1 psm1 psd1 ps1xml",
  "application/x-shortcut": "url desktop scf webloc appref-ms library-ms",
  "application/xhtml+xml": "xht",
};

/** Extensions with a further meaning beside the one in the table of media types. */
const furtherMeanings: Readonly<Record<string, readonly string[]>> = {
  ai: ["application/pdf"],
  csv: ["application/vnd.ms-excel"],
  doc: ["application/rtf"],
  mid: ["audio/midi"],
  svgz: ["application/gzip"],
};

const typesByRunExtension: ReadonlyMap<string, string> = new Map(
  Object.entries(runExtensions).flatMap(([type, extensions]) =>
    extensions.split(" ").map((extension): [string, string] => [extension, type]),
  ),
);

/**
 * Every type that a name may mean, the likeliest first; none without a known extension. `tableOf` is the table of
 * media types.
 */
export function typesOfName(
  name: string,
  isInText: boolean,
  tableOf: (extension: string) => string | null,
): readonly string[] {
  const extension = extensionOf(name);
  if (extension === "") return [];
  const knownTypes = [
    canonicalType(tableOf(extension) ?? unknownType),
    typesByRunExtension.get(extension) ?? unknownType,
    ...(furtherMeanings[extension] ?? []),
  ];
  const asText = isTextName(name) ? ["text/plain"] : [];
  const types = isInText ? [...asText, ...knownTypes] : [...knownTypes, ...asText];
  return [...new Set(types)].filter((type) => type !== unknownType);
}
