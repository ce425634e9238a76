import { canonicalType, extensionOf, isTextName } from "@sluice/core";

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
 * Every type that a name may mean, the likeliest first; none where it has no extension, or one that is not known.
 * `tableOf` is the table of media types.
 */
export function typesOfName(
  name: string,
  isInText: boolean,
  tableOf: (extension: string) => string | null,
): readonly string[] {
  const extension = extensionOf(name);
  if (extension === "") return [];
  const known = [
    canonicalType(tableOf(extension) ?? unknownType),
    typesByRunExtension.get(extension) ?? unknownType,
    ...(furtherMeanings[extension] ?? []),
  ];
  const asText = isTextName(name) ? ["text/plain"] : [];
  const types = isInText ? [...asText, ...known] : [...known, ...asText];
  return [...new Set(types)].filter((type) => type !== unknownType);
}
