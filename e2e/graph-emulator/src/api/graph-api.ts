import { namesTag, toJson } from "../drive/drive-item-json.ts";
import { type DriveState, type Item, toGenerated } from "../drive/drive.ts";
import { type ApiAnswer, type ApiCall, type ApiParts, fail, type ItemCall } from "./api-call.ts";
import { parseAddress } from "./item-address.ts";
import { childrenOf, deltaOf } from "./pages.ts";

const missing = fail(404, "itemNotFound");
const redirect = (url: string): ApiAnswer => ({ status: 302, headers: { location: url } });
const mostSimpleBytes = 250_000_000;

/** Creates the API. Its caller has checked the token. */
export function createGraphApi(parts: ApiParts): (call: ApiCall) => Promise<ApiAnswer> {
  const { drives, downloads, uploads, subscriptions } = parts;
  const mint = (item: Item): string => downloads.mint(item);

  const json = ({ drive, query }: ItemCall, item: Item): Record<string, unknown> => {
    const select = query.get("$select") ?? undefined;
    return toJson(drive, item, mint, { select });
  };
  const content = (item: Item): ApiAnswer => {
    if (item.kind === "package") return fail(405, "notSupported");
    if (item.kind !== "file") return missing;
    if (item.meta.malware)
      return {
        ...fail(403, "accessDenied", "malwareDetected"),
        headers: { "x-virus-infected": "Emulated.A" },
      };
    // Range belongs to the URL: here it is ignored
    return redirect(mint(item));
  };
  const versions = (item: Item, id?: string): ApiAnswer => {
    const current = `${item.cVersion}.0`;
    if (id === undefined)
      return {
        status: 200,
        body: {
          value: [
            { id: current, size: item.content.size },
            ...item.versions.map((one) => ({ id: one.id, size: one.content.size })),
          ],
        },
      };
    if (id === current) return fail(400, "invalidRequest");
    const version = item.versions.find((one) => one.id === id);
    return version ? redirect(downloads.mint(item, () => version.content)) : missing;
  };
  const store = (call: ItemCall, known: Item | undefined): ApiAnswer => {
    const { drive, from, segments, body, query, headers } = call;
    if (isMismatch(call, known)) return fail(412, "preconditionFailed", "resourceModified");
    if (body.byteLength > mostSimpleBytes) return fail(413, "maxFileSizeExceeded");
    if (known && query.get("@microsoft.graph.conflictBehavior") === "fail")
      return fail(409, "nameAlreadyExists");
    if (known && known.kind !== "file") return fail(409, "nameAlreadyExists");
    const type = headers["content-type"];
    const mimeType =
      typeof type === "string" && type !== "application/octet-stream" ? type : undefined;
    const item =
      known && segments.length === 0
        ? replace(drive, known, body)
        : drive.store(
            from,
            segments,
            toGenerated(body),
            mimeType === undefined ? {} : { mimeType },
          );
    return { status: known ? 200 : 201, body: json(call, item) };
  };
  const createSession = (call: ItemCall, known: Item | undefined): ApiAnswer => {
    const { drive, from, segments, body } = call;
    if (isMismatch(call, known)) return fail(412, "preconditionFailed", "resourceModified");
    const options = parse(body) as { item?: Record<string, string>; deferCommit?: unknown };
    const conflictBehavior = options.item?.["@microsoft.graph.conflictBehavior"] ?? "fail";
    if (known && conflictBehavior === "fail") return fail(409, "nameAlreadyExists");
    const plan = {
      drive,
      from,
      segments,
      conflictBehavior,
      deferCommit: options.deferCommit === true,
    };
    return { status: 200, body: uploads.open(plan) };
  };
  const onItem = (call: ItemCall, action: string): ApiAnswer => {
    const { method, drive, from, segments, body } = call;
    const item = drive.find(from, segments);
    if (method === "PUT" && action === "/content") return store(call, item);
    if (method === "POST" && action === "/createUploadSession") return createSession(call, item);
    if (item === undefined) return missing;
    const line = `${method} ${action}`;
    const [, version] = /^GET \/versions\/([^/]+)\/content$/.exec(line) ?? [];
    if (version !== undefined) return versions(item, version);
    switch (line) {
      case "GET ":
        return namesTag(call.headers["if-none-match"], call.drive, item)
          ? { status: 304 }
          : { status: 200, body: json(call, item) };
      case "GET /children":
        return childrenOf(parts, call, item);
      case "GET /content":
        return content(item);
      case "GET /versions":
        return versions(item);
      case "GET /delta":
        return deltaOf(parts, call, item);
      case "GET /contentStream":
        return item.kind === "file" && call.base.startsWith("/beta/")
          ? { status: 200, stream: item }
          : missing;
      case "PATCH ": {
        if (isMismatch(call, item)) return fail(412, "preconditionFailed", "resourceModified");
        const { name } = parse(body);
        if (typeof name === "string") drive.renameItem(item, name);
        return { status: 200, body: json(call, item) };
      }
      case "DELETE ":
        if (isMismatch(call, item)) return fail(412, "preconditionFailed", "resourceModified");
        drive.removeItem(item);
        return { status: 204 };
      default:
        return fail(400, "invalidRequest");
    }
  };
  const batch = async (call: ApiCall): Promise<ApiAnswer> => {
    const { requests } = parse(call.body) as {
      requests?: { id: string; method: string; url: string; headers?: Record<string, string> }[];
    };
    if (requests === undefined || requests.length > 20) return fail(400, "invalidRequest");
    const responses = await Promise.all(
      requests.map(async ({ id, method, url, headers = {} }) => {
        const prefix = call.url.slice(0, call.url.indexOf("/$batch"));
        const inner = await api({ method, url: `${prefix}${url}`, headers, body: Buffer.alloc(0) });
        const { location } = inner.headers ?? {};
        return {
          id,
          status: inner.status,
          headers: location ? { Location: location } : {},
          body: inner.body,
        };
      }),
    );
    // answers come in any order, so here never in the one that was asked
    return { status: 200, body: { responses: responses.toReversed() } };
  };

  const api = async (call: ApiCall): Promise<ApiAnswer> => {
    const [base = "", search = ""] = call.url.split("?", 2);
    const path = base.replace(/^\/(?:v1\.0|beta)/, "");
    if (path === base) return missing;
    if (call.method === "POST" && path === "/$batch") return batch(call);
    if (path.startsWith("/subscriptions"))
      return subscriptions.handle(call.method, path, parse(call.body));
    const [, driveId = "", rest = ""] = /^\/drives\/([^/]+)(\/.*)?$/s.exec(path) ?? [];
    const drive = drives.get(decodeURIComponent(driveId));
    if (drive === undefined) return driveId === "" ? missing : fail(403, "accessDenied");
    if (rest === "") return { status: 200, body: { id: drive.id, driveType: drive.type } };
    const address = parseAddress(rest);
    if (address === undefined) return fail(400, "invalidRequest");
    const { id, segments, action } = address;
    const path400 = segments.join("/");
    if (path400.length > 400) return fail(400, "invalidRequest", "pathIsTooLong");
    if (segments.some((name) => /["*:<>?|\\]|^ |[ .]$/.test(name)))
      return fail(400, "invalidRequest", "nameContainsInvalidCharacters");
    const from = id === undefined ? drive.root : drive.items.get(id);
    if (from === undefined || from.deleted) return missing;
    return onItem(
      { ...call, drive, from, segments, query: new URLSearchParams(search), base, search },
      action,
    );
  };
  return api;
}

/** True when `If-Match` names neither tag of the item. Where no file is yet it means nothing. */
function isMismatch({ headers, drive }: ItemCall, item: Item | undefined): boolean {
  const tag = headers["if-match"];
  return tag !== undefined && item !== undefined && !namesTag(tag, drive, item);
}

function replace(drive: DriveState, item: Item, body: Buffer): Item {
  if (item.parent === undefined) return item;
  return drive.store(item.parent, [item.name], toGenerated(body), item.meta);
}

function parse(body: Buffer): Record<string, unknown> {
  try {
    return JSON.parse(body.toString() || "{}") as Record<string, unknown>;
  } catch {
    return {};
  }
}
