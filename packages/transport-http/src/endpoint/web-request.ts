/** Reads headers; a request made by hand has no `Host`, and its URL says the same. */
export function headerReader(request: Request): (name: string) => string | undefined {
  return (name) =>
    request.headers.get(name) ?? (name === "host" ? new URL(request.url).host : undefined);
}
