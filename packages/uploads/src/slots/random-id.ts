import { encodeBase64Url } from "@sluice/core";

/** 192 random bits: 32 characters of base64url. */
export function newId(): string {
  return encodeBase64Url(crypto.getRandomValues(new Uint8Array(24)));
}

/** True for what {@link newId} makes. Asked before an id of a request is used for anything. */
export function isId(text: string): boolean {
  return /^[A-Za-z0-9_-]{32}$/.test(text);
}
