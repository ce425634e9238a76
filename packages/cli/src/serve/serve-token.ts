import { createHash, timingSafeEqual } from "node:crypto";
import type { NodeHandlerOptions } from "@sluice/transport-http/node";
import type { RefusalLog } from "./refusal-log.ts";

/** Compares a given token with that of the server, in a time that tells nothing. */
export function tokenCheck(token: string): (given: string) => boolean {
  return (given) => timingSafeEqual(digestOf(given), digestOf(token));
}

/** The token of a bearer header (RFC 6750 §2.1); empty where there is none. */
export function bearerIn(authorization: string | undefined): string {
  return /^bearer +(\S+)$/i.exec(authorization ?? "")?.[1] ?? "";
}

/** Lets requests in that carry the token, and answers 401 to all others. */
export function createAuthenticate(
  isToken: (given: string) => boolean,
  refusals: RefusalLog,
): NonNullable<NodeHandlerOptions["authenticate"]> {
  return (request, response, next, { kind }) => {
    const given = bearerIn(request.headers.authorization);
    if (isToken(given)) return next();
    refusals.add({ address: request.socket.remoteAddress, kind, hasToken: given !== "" });
    // a client learns whether its token came at all (RFC 6750 section 3.1)
    const reason = given === "" ? "" : ', error="invalid_token"';
    response.writeHead(401, { "www-authenticate": `Bearer realm="sluice"${reason}` }).end();
  };
}

/** Of equal length whatever the text, as `timingSafeEqual` wants it. */
function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
