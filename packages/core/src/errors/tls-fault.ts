import { SluiceError } from "./error.ts";

/**
 * The TLS fault of a failed connection, as an error that no retry mends: `untrusted` for a
 * certificate that the client does not trust, `unauthenticated` if the client is to show one, `protocol` if the two ends share no TLS. `undefined`
 * for every other fault. `operation` begins the message. Recognises the codes of Node, even inside
 * the `fetch failed` of its `fetch`.
 */
export function tlsFault(
  operation: string,
  { origin }: URL,
  error: unknown,
): SluiceError | undefined {
  const found = causesOf(error).find(({ code }) => typeof code === "string" && isTls(code));
  if (!found) return undefined;
  const { code, message } = found;
  const cause = { cause: error };
  if (String(code).endsWith("CERTIFICATE_REQUIRED"))
    return new SluiceError(
      "unauthenticated",
      `${operation}: ${origin} requires a certificate of this client; pass one with its key`,
      cause,
    );
  if (!isVerification(code as string))
    return new SluiceError(
      "protocol",
      `${operation}: ${origin} does not speak TLS as this client does (${String(code)}); is it an http: address? Otherwise have the server offer TLS 1.2 or 1.3 and a certificate, and ask for none`,
      cause,
    );
  return new SluiceError(
    "untrusted",
    `${operation}: the certificate of ${origin} is not trusted: ${String(message)} (${String(code)}); renew it, or name its authority in NODE_EXTRA_CA_CERTS`,
    cause,
  );
}

type CodedError = { readonly code?: unknown; readonly message?: unknown; readonly cause?: unknown };

/** An error and what caused it: `fetch` hides the reason one level down. */
function causesOf(error: unknown): CodedError[] {
  const faults: CodedError[] = [];
  for (let at = error; isCoded(at) && faults.length < maxCauses; at = at.cause) faults.push(at);
  return faults;
}

const maxCauses = 8;

function isCoded(error: unknown): error is CodedError {
  return typeof error === "object" && error !== null;
}

/** True for an error of `tlsFault`, or for its cause. */
export function isTlsFault(error: unknown): boolean {
  return causesOf(error).some(({ code }) => typeof code === "string" && isTls(code));
}

/** `EPROTO` and `ERR_SSL_…` are what OpenSSL says of an alert, or of something else than TLS. */
function isTls(code: string): boolean {
  return isVerification(code) || code === "EPROTO" || code.startsWith("ERR_SSL_");
}

/** A certificate that Node's `tls` rejects; `UNSPECIFIED` is for reasons that have no code, such as a weak key. */
function isVerification(code: string): boolean {
  return verificationCodes.has(code) || code.startsWith("ERR_TLS_CERT_") || code === "UNSPECIFIED";
}

/** Reasons of Node's `tls` that have a code. */
const verificationCodes: ReadonlySet<string> = new Set([
  "CERT_CHAIN_TOO_LONG",
  "CERT_HAS_EXPIRED",
  "CERT_NOT_YET_VALID",
  "CERT_REJECTED",
  "CERT_REVOKED",
  "CERT_SIGNATURE_FAILURE",
  "CERT_UNTRUSTED",
  "CRL_HAS_EXPIRED",
  "CRL_NOT_YET_VALID",
  "CRL_SIGNATURE_FAILURE",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "ERROR_IN_CERT_NOT_AFTER_FIELD",
  "ERROR_IN_CERT_NOT_BEFORE_FIELD",
  "HOSTNAME_MISMATCH",
  "INVALID_CA",
  "INVALID_PURPOSE",
  "PATH_LENGTH_EXCEEDED",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY",
  "UNABLE_TO_DECRYPT_CERT_SIGNATURE",
  "UNABLE_TO_GET_CRL",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);
