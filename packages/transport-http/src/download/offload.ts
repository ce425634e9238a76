import { hash, timingSafeEqual } from "node:crypto";
import { fstat, lstat, realpathSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { relative, sep } from "node:path";
import { promisify } from "node:util";
import type { FileRegion } from "@sluice/core";
import { OFFLOAD_HEADER, parseContentRange } from "@sluice/core/internal";
import type { Reply } from "@sluice/server/internal";

/** Lets an nginx in front send the files; this process checks permission and sends only headers. */
export interface OffloadOptions {
  /** Folder that nginx can read, as this process sees it. Files elsewhere are sent from here. */
  readonly root: string;
  /** Path of the internal location that leads nginx to that folder, such as "/_sluice/". */
  readonly prefix: string;
  /**
   * What nginx puts into the header `X-Sluice-Offload` of every request: at least 16 characters that
   * cannot be guessed. A request without it did not come through that nginx, and gets the bytes from here.
   */
  readonly secret: string;
}

const fstatAsync = promisify(fstat);
const lstatAsync = promisify(lstat);

/**
 * Has nginx send files in place of this process, where it would send the same bytes. Throws a `TypeError` for options
 * that cannot work, and when there is no such folder.
 */
export class Offload {
  readonly #prefix: string;
  readonly #folder: string;
  readonly #expected: NonSharedBuffer;

  constructor({ root, prefix, secret }: OffloadOptions) {
    this.#prefix = prefix;
    if (!/^\/(?:\w[\w.-]*\/)+$/.test(prefix))
      throw new TypeError('http: offload: write `prefix` like "/_sluice/", as nginx has it');
    if (!/^[\x21-\x7e]{16,}$/.test(secret))
      throw new TypeError("http: offload: `secret` needs 16 visible characters or more");
    this.#folder = canonical(root);
    this.#expected = hash("sha256", secret, "buffer");
  }

  /** Whether a request came through the proxy. Takes the secret off it: handlers behind have no use for it. */
  cameThroughProxy(req: IncomingMessage): boolean {
    const secretHeader = req.headers[OFFLOAD_HEADER];
    delete req.headers[OFFLOAD_HEADER];
    return (
      typeof secretHeader === "string" &&
      timingSafeEqual(hash("sha256", secretHeader, "buffer"), this.#expected)
    );
  }

  /** Headers that have nginx send a reply's file, or `undefined` when it would not send the same bytes. */
  async headersFor(
    req: IncomingMessage,
    reply: Reply,
    file: FileRegion,
  ): Promise<string[] | undefined> {
    const name = nameIn(this.#folder, file.path);
    if (name === undefined || !nginxAgrees(req, reply) || !(await isSameFile(file, reply)))
      return undefined;
    const target = this.#prefix + name.split(sep).map(encodeURIComponent).join("/");
    return [...headersForNginx(reply), "Content-Length", "0", "X-Accel-Redirect", target];
  }
}

function canonical(root: string): string {
  try {
    return realpathSync.native(root);
  } catch (cause) {
    throw new TypeError(`http: offload: there is no folder ${JSON.stringify(root)}`, { cause });
  }
}

/** The path of a file relative to a folder; `undefined` if it is not inside. */
function nameIn(folder: string, path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  const inside = folder.endsWith(sep) ? folder : folder + sep;
  return path.startsWith(inside) ? relative(folder, path) : undefined;
}

/**
 * Whether nginx, which evaluates conditions and ranges again, is certain to send the same reply. Otherwise this process
 * sends the bytes.
 */
function nginxAgrees({ headers }: IncomingMessage, reply: Reply): boolean {
  // without an entity tag of its own nginx fails every If-Match; the dates are those of the file
  if (headers["if-match"] ?? headers["if-modified-since"] ?? headers["if-unmodified-since"])
    return false;
  // nginx would compare it with the file on disk, even in the response to a JSON-RPC call
  if (headers["if-none-match"] === "*") return false;
  // nginx offers ranges of every file
  if (headerOf(reply, "Accept-Ranges") === "none") return false;
  const { range, "if-range": ifRange } = headers;
  if (reply.status === 200) return range === undefined;
  if (reply.status !== 206 || range === undefined || !plainRange.test(range)) return false;
  return ifRange === undefined || ifRange === headerOf(reply, "ETag");
}

const plainRange = /^bytes=(?:\d{1,15}-\d{0,15}|-\d{1,15})$/i;

/**
 * Whether the path still names the open file, unchanged, and the reply's total is the file's size. Another file can
 * still take the name before nginx opens it.
 */
async function isSameFile(file: FileRegion, reply: Reply): Promise<boolean> {
  const [opened, named] = await Promise.all([
    fstatAsync(file.fd, { bigint: true }),
    lstatAsync(file.path!, { bigint: true }).catch(() => undefined),
  ]);
  if (opened.ino !== named?.ino || opened.dev !== named.dev) return false;
  const total =
    reply.status === 200
      ? file.end - file.start
      : parseContentRange(headerOf(reply, "Content-Range"))?.size;
  if (reply.status === 200 && file.start !== 0) return false;
  await file.verify();
  return total !== undefined && opened.size === BigInt(total);
}

/** Headers of a reply without those that nginx sets itself. */
function headersForNginx({ status, headers }: Reply): string[] {
  const nginxHeaders = [
    "content-length",
    "content-range",
    ...(status === 200 ? ["accept-ranges"] : []),
  ];
  const keptHeaders: string[] = [];
  for (let at = 0; at < headers.length; at += 2)
    if (!nginxHeaders.includes(headers[at]!.toLowerCase()))
      keptHeaders.push(headers[at]!, headers[at + 1]!);
  return keptHeaders;
}

function headerOf({ headers }: Reply, name: string): string | undefined {
  const at = headers.findIndex(
    (field, index) => index % 2 === 0 && field.toLowerCase() === name.toLowerCase(),
  );
  return at < 0 ? undefined : headers[at + 1];
}
