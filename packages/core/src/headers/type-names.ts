/** The name that is compared → the other names of the type. */
const otherNames: Readonly<Record<string, string>> = {
  "application/gzip": "application/x-gzip application/gzip-compressed application/x-gunzip",
  "application/java-vm":
    "application/java application/x-java-class application/x-java application/x-java-vm",
  "application/java-archive": "application/x-java-archive application/x-jar application/jar",
  "application/pdf": "application/x-pdf",
  "application/pgp-encrypted": "application/pgp",
  "application/postscript":
    "application/eps application/x-eps image/eps image/x-eps application/illustrator application/x-ps",
  "application/rtf": "text/rtf text/richtext application/x-rtf",
  "application/vnd.ms-cab-compressed": "application/x-cab application/cab",
  "application/vnd.ms-excel":
    "application/msexcel application/x-msexcel application/x-excel application/excel",
  "application/vnd.ms-fontobject": "application/x-font-eot font/eot",
  "application/vnd.ms-powerpoint":
    "application/mspowerpoint application/x-mspowerpoint application/powerpoint",
  "application/vnd.rn-realmedia": "application/vnd.rn-realmedia-vbr audio/x-pn-realaudio",
  "application/vnd.tcpdump.pcap": "application/pcap application/x-pcap",
  "application/x-7z-compressed": "application/7z",
  "application/x-bzip2": "application/x-bzip application/bzip2",
  "application/x-cfb": "application/x-ole-storage",
  "application/x-deb":
    "application/vnd.debian.binary-package application/x-debian-package application/deb",
  "application/x-elf":
    "application/x-executable application/x-sharedlib application/x-object application/x-pie-executable application/elf",
  "application/x-mach-binary": "application/x-mach-o application/mach-o",
  "application/x-mobipocket-ebook":
    "application/vnd.amazon.ebook application/vnd.amazon.mobi8-ebook",
  "application/x-msdownload":
    "application/vnd.microsoft.portable-executable application/x-dosexec application/x-exe application/exe application/x-ms-dos-executable application/x-winexe",
  "application/x-rar-compressed": "application/vnd.rar application/x-rar application/rar",
  "application/x-rpm": "application/x-redhat-package-manager application/rpm",
  "application/x-shockwave-flash": "application/vnd.adobe.flash.movie",
  "application/x-sqlite3": "application/vnd.sqlite3 application/sqlite3",
  "application/x-tar": "application/tar application/x-gtar application/x-ustar",
  "application/x-unix-archive": "application/x-archive",
  "application/x-xz": "application/xz",
  "application/x.ms.shortcut": "application/x-ms-shortcut application/lnk",
  "application/xml": "text/xml",
  "application/zip": "application/x-zip-compressed application/x-zip application/zip-compressed",
  "application/zstd": "application/x-zstd",
  "audio/aac": "audio/x-aac audio/aacp audio/x-hx-aac-adts audio/vnd.dlna.adts",
  "audio/aiff": "audio/x-aiff",
  "audio/flac": "audio/x-flac",
  "audio/midi": "audio/mid audio/x-midi audio/sp-midi application/x-midi",
  "audio/mp4": "audio/x-m4a audio/m4a audio/x-m4b",
  "audio/mpeg": "audio/mp3 audio/x-mp3 audio/mpeg3 audio/x-mpeg audio/x-mpeg-3 audio/mpg",
  "audio/vnd.dolby.dd-raw": "audio/ac3 audio/x-ac3",
  "audio/wav": "audio/x-wav audio/wave audio/vnd.wave audio/x-pn-wav",
  "font/otf": "application/x-font-otf font/opentype application/vnd.ms-opentype",
  "font/ttf": "application/x-font-ttf application/x-font-truetype font/sfnt font/truetype",
  "font/woff": "application/font-woff application/x-font-woff",
  "font/woff2": "application/font-woff2",
  "image/bmp": "image/x-ms-bmp image/x-bmp image/x-windows-bmp",
  "image/icns": "image/x-icns",
  "image/jpeg": "image/jpg image/pjpeg",
  "image/png": "image/x-png image/apng image/vnd.mozilla.apng",
  "image/svg+xml": "image/svg image/svg-xml",
  "image/tiff": "image/tif image/x-tiff image/x-tif image/tiff-fx",
  "image/vnd.adobe.photoshop":
    "image/psd image/x-psd image/photoshop image/x-photoshop application/photoshop application/x-photoshop",
  "image/vnd.dwg": "image/x-dwg application/acad application/x-acad application/dwg",
  "image/vnd.ms-photo": "image/jxr",
  "image/x-icon": "image/vnd.microsoft.icon image/ico image/icon text/ico",
  "image/x-xcf": "image/xcf application/x-xcf",
  "model/3mf": "application/vnd.ms-package.3dmanufacturing-3dmodel+xml",
  "text/calendar": "text/x-vcalendar",
  "text/javascript":
    "application/javascript application/x-javascript text/ecmascript application/ecmascript",
  "text/markdown": "text/x-markdown",
  "text/vcard": "text/x-vcard text/directory",
  "video/matroska": "video/x-matroska audio/x-matroska audio/matroska video/x-matroska-3d",
  "video/mpeg": "video/mpg video/x-mpeg video/mp1s video/mp2p video/x-ms-vob",
  "video/vnd.avi": "video/x-msvideo video/avi video/msvideo",
  "video/x-flv": "video/flv",
};

const canonicalNames: ReadonlyMap<string, string> = new Map(
  Object.entries(otherNames).flatMap(([name, others]) =>
    others.split(" ").map((other): [string, string] => [other, name]),
  ),
);

/** The one name that a type is compared by: in lower case, without parameters. */
export function canonicalType(type: string): string {
  const essence = type.split(";", 1)[0]!.trim().toLowerCase();
  return canonicalNames.get(essence) ?? essence;
}
