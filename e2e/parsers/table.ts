import {
  fileNameFromUri,
  formatContentType,
  isSameResource,
  matchesIfMatch,
  matchesIfNoneMatch,
  matchesIfRange,
  parseContentDisposition,
  parseContentRange,
  parseEntityTag,
  parseHttpDate,
  parseJson,
  parseKey,
  parseMediaType,
  parseRange,
  parseReprDigest,
  parseResourceUri,
  parseRetryAfter,
  readSentDisposition,
  sanitizeFileName,
} from "@sluice/core/internal";
import { createOriginGate } from "@sluice/server/internal";
import { parseHead, parseKeyFile } from "@sluice/server/internal/node";
import { createUriMapper } from "@sluice/storage";
import { parseCursor } from "@sluice/storage/plugin";
import { boundaryOf } from "@sluice/binary-transfer/internal";
import { parsePartHeaders } from "../../packages/binary-transfer/src/multipart/boundary.ts";
import { parseStorageUrl } from "../../packages/cli/src/storages/storage-url.ts";
import { parseChecksums } from "../../packages/cli/src/download/checksum-file.ts";
import { parseBytes } from "../../packages/cli/src/terminal/quantity.ts";
import { repairField } from "../../packages/client/src/net/node/repair-field.ts";
import { acceptUrl } from "../../packages/client/src/trust/accept-url.ts";
import { parseLinks } from "../../packages/core/src/headers/link-header.ts";
import { createIdentify } from "../../packages/server/src/access/principal.ts";
import { parseAskedRange } from "../../packages/server/src/resources/read-range.ts";
import { isTextual } from "../../packages/server/src/content/resource-type.ts";
import { parseMessage } from "../../packages/storage-azure-blob/src/lib/watch.ts";
import type { BlobRoot } from "../../packages/storage-azure-blob/src/lib/blob-call.ts";
import { parsePosition } from "../../packages/storage-fs/src/read/list.ts";
import { parseAddress } from "../graph-emulator/src/api/item-address.ts";
import { parseEventId } from "../../packages/resume/src/stream/event-id.ts";
import { isAccepted } from "../../packages/core/src/headers/accept-list.ts";
import {
  parseBooleanField,
  parseIntegerField,
  parseLimit,
} from "../../packages/client/src/upload/send/send-resumable.ts";
import {
  boundaryOf as formBoundary,
  createFormReader,
} from "../../packages/uploads/src/receive/form-reader.ts";
import { parseObject } from "../../packages/uploads/src/store/layout.ts";
import { readFacts } from "../../packages/uploads/src/receive/request-facts.ts";
import { parseDataUri } from "../../packages/uploads/src/files-sep-2631/open-input.ts";
import { parseDigest } from "../../packages/uploads/src/files-sep-2631/file-download.ts";

/** A function that reads text of another party. */
export interface Parser {
  /** It may throw what it documents. */
  readonly read: (text: string) => unknown;
  /** How texts begin, so that the hostile part is reached. */
  readonly starts: readonly string[];
  /** What pumps are made of. */
  readonly symbols: readonly string[];
  /** Pumps that were slow once, here or elsewhere. */
  readonly pumps?: readonly string[];
}

const blanks = [" ", "\t"];
const parameters = [...blanks, ";", "=", '"', "\\", ",", "a", "a=b", '"x"', "\\a", "é"];
const url = ["/", "a", ".", ":", "@", "?", "#", "%", "%41", "[", "]", "-", " "];
const digits = ["0", "9", "-", ".", ",", " ", "a", ";", "="];
const encoder = new TextEncoder();
const gate = createOriginGate("https://example.com/mcp");
const identify = createIdentify({
  anonymous: false,
  principal: undefined,
  isLoopback: false,
  onWarning() {},
});
const mapper = createUriMapper("files:///");
const policy = {
  endpoint: new URL("https://example.com/mcp"),
  trustedOrigins: ["https://*.example.com"],
} as const;
const reading = (name: string) => (text: string) =>
  readFacts({ header: (asked) => (asked === name ? text : undefined) });

/** Every `parse…` of the packages by package and name, and behind them other readers of foreign text. */
export const parsers: Readonly<Record<string, Parser>> = {
  "binary-transfer parsePartHeaders": {
    read: (text) => parsePartHeaders(encoder.encode(text)),
    starts: ["", "Content-Type:", "Content-ID: <", "A:b\r\n"],
    symbols: [...parameters, "\r\n", "\r", ":", "<", ">"],
  },
  "cli parseStorageUrl": {
    read: parseStorageUrl,
    starts: ["", "s3://", "azblob://c/", "graph://d/", "file:", "s3://b?region="],
    symbols: [...url, "=", "&"],
  },
  "cli parseChecksums": {
    read: parseChecksums,
    starts: ["", "a".repeat(64), `${"a".repeat(64)}  `, "SHA256 ("],
    symbols: ["a", " ", "*", "\\", "n", "(", ")", " = ", "\n", "\r\n"],
  },
  "cli parseBytes": { read: parseBytes, starts: ["", "1"], symbols: [...digits, "k", "i", "b"] },
  "core parseLinks": {
    read: parseLinks,
    starts: ["", "<a>", '<a>; rel="', "<>;", "<a>; rel=stream, "],
    symbols: [...parameters, "<", ">", "<a>", "rel", "stream", "anchor"],
    pumps: [";a=\t", ";a=", "<", '; a="', ",", "<a>;rel=b,", " ;a", "a "],
  },
  "core parseContentDisposition": {
    read: parseContentDisposition,
    starts: ["", "a", "a;", 'a; b="', "attachment; filename*=UTF-8''"],
    symbols: [...parameters, "filename", "*", "'", "%e2"],
    pumps: [" ", "; ", "\\", ' ; a=""'],
  },
  "core readSentDisposition": {
    read: readSentDisposition,
    starts: ["", 'a; filename="', "a; filename==?utf-8?Q?", "a; filename*="],
    symbols: [...parameters, "filename", "=?", "?=", "Q", "B", "?", "*", "'", "%e2"],
    pumps: [" ", "=?utf-8?Q?a?= ", "\\", "; "],
  },
  "client repairField": {
    read: (text) => repairField("Content-Disposition", text),
    starts: ["", "a; filename=", 'a; filename="'],
    symbols: [...parameters, "filename", "=", "/", "\\"],
    pumps: ["; filename=", " ", "\t", "a "],
  },
  "core parseContentRange": {
    read: parseContentRange,
    starts: ["", "bytes ", "bytes 1-"],
    symbols: [...digits, "/", "*"],
  },
  "core parseEntityTag": {
    read: parseEntityTag,
    starts: ["", '"a"', "W/"],
    symbols: [...parameters, "W/", '"a",'],
  },
  "core parseJson": {
    read: parseJson,
    starts: ["", "[", '{"a":', '"'],
    symbols: ["[", "]", "{", "}", '"', "\\", ",", ":", "1", " ", "[]", '"a":'],
  },
  "core parseKey": {
    read: parseKey,
    starts: ["", "k1:"],
    symbols: ["a", "=", ":", ".", "\n", " ", "+"],
  },
  "core parseMediaType": {
    read: parseMediaType,
    starts: ["", "a/b", "a/b;", 'a/b; c="'],
    symbols: [...parameters, "/", "charset"],
  },
  "core parseRange": {
    read: (text) => parseRange(text, 1_000),
    starts: ["", "bytes=", "bytes=0-"],
    symbols: digits,
  },
  "core parseReprDigest": {
    read: parseReprDigest,
    starts: ["", "sha-256=:", "a;", 'a="'],
    symbols: [...parameters, ":", "?1", "1", ".", "@1", "*", "AAAA"],
  },
  "core parseResourceUri": {
    read: parseResourceUri,
    starts: ["", "=?base64?"],
    symbols: [...url, "=", "?=", "A"],
  },
  "core parseHttpDate": {
    read: (text) => parseHttpDate(text, 0),
    starts: ["", "Sun, 06 Nov 1994 ", "Sunday, ", "Sun Nov "],
    symbols: [...digits, "Sun", "Z", ":", "GMT"],
  },
  "core parseRetryAfter": {
    read: (text) => parseRetryAfter(text, 0),
    starts: ["", "Sun, 06 Nov 1994 ", "Sunday, ", "Sun Nov "],
    symbols: [...digits, "Sun", "Z", ":", "GMT"],
  },
  "graph-emulator parseAddress": {
    read: parseAddress,
    starts: ["", "/root", "/items/a", "/root:/"],
    symbols: [...url, "\n"],
  },
  "server parseAskedRange": {
    read: parseAskedRange,
    starts: ["", "bytes ", "lines=1-"],
    symbols: [...digits, "\u2013"],
  },
  "server parseHead": {
    read: parseHead,
    starts: ["", "1:", `1:${"a".repeat(64)}`],
    symbols: [...digits, ":", "f", "\n"],
  },
  "server parseKeyFile": {
    read: parseKeyFile,
    starts: ["", "# ", "k1 "],
    symbols: ["a", "#", "\n", "\r", " ", "=", ":", "."],
  },
  "storage parseCursor": {
    read: (text) => parseCursor(text, "test"),
    starts: ["", "01234567."],
    symbols: url,
  },
  "storage-azure-blob parseMessage": {
    read: (text) =>
      parseMessage(text, { container: { containerName: "c" }, prefix: "" } as BlobRoot),
    starts: ["", "[", '{"subject":"/blobServices/default/containers/c/blobs/', "eyJ"],
    symbols: ["[", "]", "{", "}", '"', ",", ":", " ", "a", "/", "%", "\\", "1", "="],
  },
  "storage-fs parsePosition": {
    read: parsePosition,
    starts: ["", "W10", "WyIi"],
    symbols: ["a", "I", "X", "_", "-", "=", "\n"],
  },
  "resume parseEventId": {
    read: parseEventId,
    starts: ["", "01234567-0123-4123-8123-0123456789ab/"],
    symbols: [...digits, "/", "f"],
  },
  "client parseBooleanField": {
    read: parseBooleanField,
    starts: ["", "?1", " "],
    symbols: [...digits, "?1"],
  },
  "uploads parseObject": {
    read: (key) => parseObject({ key, size: 0, etag: undefined, lastModified: undefined } as never),
    starts: ["", "uploads/1/", `uploads/1/${"A".repeat(32)}/a.1/`],
    symbols: [...digits, "/", ".", "-", "A", "file-", "part-", "confirmed"],
  },
  "uploads parseDataUri": {
    read: (text) => parseDataUri(text, 1_000_000),
    starts: ["", "data:", "data:;base64,", "data:text/plain;name="],
    symbols: [...parameters, "%", "%41", "base64", "/", "+", "A"],
  },
  "uploads parseDigest": { read: parseDigest, starts: [""], symbols: ["A", "-", "_", "=", " "] },
  "client parseIntegerField": {
    read: parseIntegerField,
    starts: ["", "1", "1;"],
    symbols: digits,
  },
  "client parseLimit": {
    read: (text) => parseLimit(text, "a"),
    starts: ["", "a="],
    symbols: digits,
  },

  "binary-transfer boundaryOf": {
    read: boundaryOf,
    starts: ["", "multipart/mixed", "multipart/mixed;boundary="],
    symbols: parameters,
  },
  "client acceptUrl": {
    read: (text) => acceptUrl(text, policy, { redirect: true }),
    starts: ["", "https://", "https://example.com/"],
    symbols: url,
  },
  "core fileNameFromUri": { read: fileNameFromUri, starts: ["", "a:", "a://"], symbols: url },
  "core formatContentType": {
    read: formatContentType,
    starts: ["", "text/plain;charset="],
    symbols: parameters,
  },
  "core isSameResource": {
    read: (text) => isSameResource(text, `${text}a`),
    starts: ["", "a:/"],
    symbols: url,
  },
  "core matchesIfMatch": {
    read: (text) => matchesIfMatch(text, '"a"'),
    starts: ["", '"b"'],
    symbols: [...parameters, "*", "W/"],
  },
  "core matchesIfNoneMatch": {
    read: (text) => matchesIfNoneMatch(text, '"a"'),
    starts: ["", '"b"'],
    symbols: [...parameters, "*", "W/"],
  },
  "core matchesIfRange": {
    read: (text) => matchesIfRange(text, '"a"'),
    starts: ["", '"b"'],
    symbols: parameters,
  },
  "core sanitizeFileName": {
    read: (text) => sanitizeFileName(text),
    starts: ["", "con", "a/"],
    symbols: [...url, "\\", "\u200b", "\ufeff", "é", "e\u0301", "\ud800", "漢"],
  },
  "server bearer": {
    read: (text) => identify({ header: (name) => (name === "authorization" ? text : undefined) }),
    starts: ["", "Bearer ", "bearer a"],
    symbols: [" ", "a", ",", "\t", "="],
  },
  "server host": {
    read: (text) => gate.refuse({ header: (name) => (name === "host" ? text : undefined) }),
    starts: ["", "example.com", "["],
    symbols: url,
  },
  "server origin": {
    read: (text) =>
      gate.refuse({
        header: (name) => (name === "host" ? "example.com" : name === "origin" ? text : undefined),
      }),
    starts: ["", "https://"],
    symbols: url,
  },
  "server isTextual": {
    read: isTextual,
    starts: ["", "text/plain; charset="],
    symbols: [...parameters, "; charset="],
  },
  "storage toKey": { read: (text) => mapper.toKey(text), starts: ["", "files:///"], symbols: url },
  "uploads boundaryOf": {
    read: formBoundary,
    starts: ["", "multipart/form-data; boundary="],
    symbols: parameters,
  },
  "uploads Content-Disposition": {
    read: reading("content-disposition"),
    starts: ["", "attachment; filename="],
    symbols: parameters,
  },
  "uploads Repr-Digest": {
    read: reading("repr-digest"),
    starts: ["", "sha-256=:"],
    symbols: [...parameters, ":"],
  },
  "uploads Upload-Complete": {
    read: reading("upload-complete"),
    starts: ["", "?1"],
    symbols: [...digits, "?1"],
  },
  "uploads Upload-Offset": {
    read: reading("upload-offset"),
    starts: ["", "1", "1;"],
    symbols: digits,
  },
  "core isAccepted": {
    read: (text) => isAccepted({ name: text, mimeType: text }, [text.slice(0, 10), "image/*"]),
    starts: ["", "image/png"],
    symbols: parameters,
  },
  "uploads part headers": {
    read: (text) =>
      createFormReader("b", 4, () => ({ data: () => undefined, end() {} })).write(
        encoder.encode(`--b\r\n${text}\r\n\r\n`),
      ),
    starts: ["A:", "Content-Disposition: form-data; name=", "a: b\r\n"],
    symbols: [...parameters, "\r\n", ":"],
  },
};
