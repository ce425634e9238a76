import mime from "mime";

/** The media type that a file name suggests; `application/octet-stream` when it suggests none. */
export function typeOfName(name: string): string {
  // by itself, a name without a dot is looked up as an extension
  return mime.getType(`/${name}`) ?? "application/octet-stream";
}
