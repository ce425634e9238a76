import { SluiceError } from "./error.ts";

/**
 * What a failed connection says of TLS, as an error that no retry mends: `untrusted` for a certificate that the
 * client does not trust, `protocol` where the two ends share no TLS. `undefined` for every other fault. `operation` begins the
 * message. It knows the codes of Node, also behind the `fetch failed` of its `fetch`.
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
  if (!verificationCodes.has(code as string))
    return new SluiceError(
      "protocol",
      `${operation}: ${origin} does not speak TLS as this client does (${String(code)}); is it an http: address?`,
      cause,
    );
  return new SluiceError(
    "untrusted",
    `${operation}: the certificate of ${origin} is not trusted: ${String(message)} (${String(code)}); renew it, or name its authority in NODE_EXTRA_CA_CERTS`,
    cause,
  );
}

type Fault = { readonly code?: unknown; readonly message?: unknown; readonly cause?: unknown };

/** An error and what caused it: `fetch` hides the reason one level down. */
function causesOf(error: unknown): Fault[] {
  const faults: Fault[] = [];
  for (let at = error; isFault(at) && faults.length < mostCauses; at = at.cause) faults.push(at);
  return faults;
}

const mostCauses = 4;

function isFault(error: unknown): error is Fault {
  return typeof error === "object" && error !== null;
}

function isTls(code: string): boolean {
  return verificationCodes.has(code) || plainCodes.has(code);
}

/** Where OpenSSL reads something else than TLS. */
const plainCodes: ReadonlySet<string> = new Set([
  "EPROTO",
  "ERR_SSL_WRONG_VERSION_NUMBER",
  "ERR_SSL_PACKET_LENGTH_TOO_LONG",
]);

/** Reasons of Node's `tls` for a certificate that it rejects. */
const verificationCodes: ReadonlySet<string> = new Set([
  "CERT_CHAIN_TOO_LONG",
  "CERT_HAS_EXPIRED",
  "CERT_NOT_YET_VALID",
  "CERT_REJECTED",
  "CERT_REVOKED",
  "CERT_SIGNATURE_FAILURE",
  "CERT_UNTRUSTED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "HOSTNAME_MISMATCH",
  "INVALID_CA",
  "INVALID_PURPOSE",
  "PATH_LENGTH_EXCEEDED",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);
