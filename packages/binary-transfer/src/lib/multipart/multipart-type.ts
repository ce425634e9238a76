const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const quoted = String.raw`"(?:[\t !#-\[\]-~]|\\[\t -~])*"`;
const mixed = new RegExp(
  `^multipart/mixed((?:[\\t ]*;[\\t ]*${token}=(?:${token}|${quoted}))*)[\\t ]*(?:;[\\t ]*)?$`,
  "i",
);
const parameter = new RegExp(`;[\\t ]*(${token})=(${token}|${quoted})`, "g");

/** Boundary of a `Content-Type` of `multipart/mixed`; `undefined` for every other one, and without exactly one boundary. */
export function boundaryOf(contentType: string | null): string | undefined {
  const [, parameters] = mixed.exec((contentType ?? "").trim()) ?? [];
  if (parameters === undefined) return undefined;
  const boundaries = [...parameters.matchAll(parameter)].filter(
    ([, name]) => name!.toLowerCase() === "boundary",
  );
  const [, , value] = boundaries[0] ?? [];
  if (boundaries.length !== 1 || value === undefined) return undefined;
  return value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, "$1") : value;
}
