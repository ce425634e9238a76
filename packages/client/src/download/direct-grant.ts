import { SluiceError } from "@sluice/core";
import {
  linkWith,
  parseMediaType,
  RESOURCE_SIZE_HEADER,
  RESOURCE_TYPE_HEADER,
} from "@sluice/core/internal";
import type { HopAnswer } from "../net/exchange.ts";
import { acceptUrl, type AcceptedUrl, type UrlPolicy } from "../trust/accept-url.ts";
import { ensureNamed } from "./check-answer.ts";
import type { GrantFacts } from "./download-grant.ts";

/** Bytes on the answer itself. */
export function sortDirect(uri: string, direct: HopAnswer, policy: UrlPolicy): GrantFacts {
  ensureNamed(uri, direct.headers);
  const link = linkWith(direct.headers, "stream");
  // a link that may not be followed only costs the way back in
  const target = link === undefined ? undefined : tryAccept(link, policy);
  return {
    mode: "direct",
    direct,
    target,
    auth: "bound",
    sessionBound: true,
    hopsLeft: 2,
    named: true,
  };
}

/** A redirect to the bytes. */
export function sortRedirect(uri: string, headers: Headers, policy: UrlPolicy): GrantFacts {
  ensureNamed(uri, headers);
  const hop = { base: policy.endpoint, redirect: true };
  const target = acceptUrl(headers.get("location") ?? "", policy, hop);
  return {
    mode: "redirect",
    target,
    auth: "bound",
    sessionBound: false,
    hopsLeft: 2,
    named: true,
    mimeType: parseMediaType(headers.get(RESOURCE_TYPE_HEADER))?.essence,
    size: sizeIn(headers.get(RESOURCE_SIZE_HEADER)),
  };
}

/** A number of bytes; anything else is ignored. */
function sizeIn(text: string | null): number | undefined {
  const size = /^\d{1,16}$/.test(text ?? "") ? Number(text) : Number.NaN;
  return Number.isSafeInteger(size) ? size : undefined;
}

function tryAccept(url: string, policy: UrlPolicy): AcceptedUrl | undefined {
  try {
    return acceptUrl(url, policy, { base: policy.endpoint, redirect: false });
  } catch (error) {
    if (SluiceError.is(error)) return undefined;
    throw error;
  }
}
