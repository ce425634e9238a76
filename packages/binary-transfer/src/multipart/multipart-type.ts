import { parseMediaType } from "@sluice/core";

/** Boundary of a `Content-Type` of `multipart/mixed`; `undefined` for every other one, and without exactly one boundary. */
export function boundaryOf(contentType: string | null): string | undefined {
  const type = parseMediaType(contentType);
  return type?.essence === "multipart/mixed" ? type.boundary : undefined;
}
