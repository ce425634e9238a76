import { toJson } from "../drive/drive-item-json.ts";
import type { Item } from "../drive/drive.ts";
import { type ApiAnswer, type ApiParts, fail, type ItemCall } from "./api-call.ts";

const mostOnPage = 999;

/** One page of a folder. Its link is compared byte for byte: a link that was rebuilt is refused. */
export function childrenOf(parts: ApiParts, call: ItemCall, item: Item): ApiAnswer {
  const { drive, query, base, search } = call;
  const { pageSize, links, origin, downloads } = parts;
  const after = links.get(`${base}?${search}`) ?? "";
  if (query.has("$skiptoken") && after === "") return fail(400, "invalidRequest");
  const top = Math.min(Number(query.get("$top") ?? pageSize), pageSize, mostOnPage);
  const rest = [...item.children.entries()]
    .filter(([name]) => name > after)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  const page = rest.slice(0, top);
  const last = page.at(-1)?.[0];
  const link = `${base}?${search.replace(/&?\$skiptoken=.*/s, "")}&$skiptoken=${links.size + 1}.a%2bb%20c`;
  const isMore = rest.length > top && last !== undefined;
  if (isMore) links.set(link, last);
  const select = query.get("$select") ?? undefined;
  return {
    status: 200,
    body: {
      value: page.map(([, child]) =>
        toJson(drive, child, (file) => downloads.mint(file), { select }),
      ),
      "@odata.nextLink": isMore ? `${origin()}${link}` : undefined,
    },
  };
}

/** One page of changes, by the sequence in which they happened; an item that changed again comes once, with the last. */
export function deltaOf(parts: ApiParts, call: ItemCall, item: Item): ApiAnswer {
  const { drive, query, base } = call;
  const { pageSize, origin, downloads } = parts;
  if (item !== drive.root && drive.type !== "personal") return fail(400, "notSupported");
  const token = query.get("token") ?? "0-";
  const link = (value: string): string => `${origin()}${base}?token=${value}`;
  if (token === "latest")
    return { status: 200, body: { value: [], "@odata.deltaLink": link(`${drive.sequence()}-`) } };
  const [, from = "", until = ""] = /^(\d+)-(\d*)$/.exec(token) ?? [];
  if (from === "") return fail(400, "invalidRequest");
  // a walk that has begun goes on
  if (until === "" && from !== "0" && Number(from) < drive.oldest())
    return {
      ...fail(410, "resyncRequired", "resyncChangesApplyDifferences"),
      headers: { location: link("0-") },
    };
  const end = until === "" ? drive.sequence() : Number(until);
  const isNews = ({ sequence, deleted }: Item): boolean =>
    sequence > Number(from) && sequence <= end && (from !== "0" || !deleted);
  const changes = [...drive.items.values()]
    .filter(isNews)
    .toSorted((a, b) => a.sequence - b.sequence);
  const page = changes.slice(0, pageSize);
  const last = page.at(-1);
  return {
    status: 200,
    body: {
      value: page.map((changed) =>
        toJson(drive, changed, (file) => downloads.mint(file), { isDelta: true }),
      ),
      ...(changes.length > page.length && last
        ? { "@odata.nextLink": link(`${last.sequence}-${end}`) }
        : { "@odata.deltaLink": link(`${end}-`) }),
    },
  };
}
