import { SluiceError } from "@sluice/core";
import { isTlsFault } from "@sluice/core/internal";
import { proxyOrigin } from "@sluice/core/internal/node";
import { type Check, type Evidence, type SeenExchange, codesOf } from "../evidence.ts";

/** The request that ended the attempt to agree on a session, where it got no response. */
function unanswered({ sessionFault, exchanges }: Evidence): SeenExchange | undefined {
  if (sessionFault === undefined) return undefined;
  const last = exchanges.findLast(({ httpMethod }) => httpMethod === "POST");
  return last?.status === undefined ? last : undefined;
}

/** Codes of the fault that kept it from its response; none if there was one. */
function faultCodes(evidence: Evidence): string[] | undefined {
  const exchange = unanswered(evidence);
  return exchange && codesOf(exchange.fault);
}

/** The name has an address. */
export const checkName: Check = (evidence) => {
  const codes = faultCodes(evidence);
  const { hostname } = evidence.endpoint;
  if (codes?.includes("ENOTFOUND"))
    return {
      cause: "name",
      message: `The name ${hostname} has no address: check its spelling, or the DNS that this machine uses.`,
    };
  if (codes?.includes("EAI_AGAIN"))
    return {
      cause: "name",
      message: `No DNS server answers for ${hostname}: check the network and DNS of this machine.`,
    };
  return undefined;
};

/** The clock of one of the two makes the certificate look invalid, or the certificate is. */
export const checkCertificate: Check = (evidence) => {
  const fault = unanswered(evidence)?.fault;
  if (!isTlsFault(fault)) return undefined;
  const { host } = evidence.endpoint;
  const codes = codesOf(fault);
  const has = (...wanted: string[]): boolean => codes.some((code) => wanted.includes(code));
  if (has("CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID")) {
    const { from, to, serverTime } = evidence.certificate ?? {};
    if (from !== undefined && to !== undefined && serverTime !== undefined)
      if (from <= serverTime && serverTime <= to)
        return {
          cause: "clock",
          message: `This machine's clock says that the certificate of ${host} is not valid now, and the server's clock says that it is: set this machine's clock.`,
        };
    return has("CERT_HAS_EXPIRED")
      ? {
          cause: "certificate",
          message: `The certificate of ${host} has expired${dateOf(to)}: have the server's operator renew it.`,
        }
      : {
          cause: "certificate",
          message: `The certificate of ${host} is not valid yet${dateOf(from)}: have the server's operator install one that is.`,
        };
  }
  if (has("DEPTH_ZERO_SELF_SIGNED_CERT"))
    return {
      cause: "certificate",
      message: `The certificate of ${host} is self-signed: pass its file with --cacert or in NODE_EXTRA_CA_CERTS if it is yours, or have the operator get one of an authority.`,
    };
  if (has("ERR_TLS_CERT_ALTNAME_INVALID", "HOSTNAME_MISMATCH"))
    return {
      cause: "certificate",
      message: `The certificate at ${host} is for another name: use the name that it is for, or have the operator add this one.`,
    };
  if (codes.some((code) => code === "EPROTO" || code.startsWith("ERR_SSL_")))
    return {
      cause: "certificate",
      message: `${host} does not speak TLS 1.2 or 1.3: use http: if that is its address, or have the operator turn TLS on.`,
    };
  return {
    cause: "certificate",
    message: `This machine does not trust the authority of ${host}'s certificate (${codes[0] ?? "unknown"}): pass the authority's file with --cacert or in NODE_EXTRA_CA_CERTS, or have the operator send the whole chain.`,
  };
};

/** A certificate that is renewed at all has a new one by now. */
const renewalMs = 14 * 86_400_000;

/** The certificate goes on to be valid. Short-lived ones may have less left: a quarter of their time is enough. */
export const checkRenewal: Check = ({ endpoint, certificate, sessionFault }) => {
  if (!certificate || sessionFault !== undefined) return undefined;
  const { from, to } = certificate;
  const leftMs = to - Date.now();
  if (!(leftMs < Math.min(renewalMs, (to - from) / 4))) return undefined;
  const days = Math.max(0, Math.floor(leftMs / 86_400_000));
  return {
    cause: "renewal",
    message: `The certificate of ${endpoint.host} expires in ${days} days${dateOf(to)}: have the server's operator renew it before that.`,
  };
};

function dateOf(time: number | undefined): string {
  return time === undefined || Number.isNaN(time)
    ? ""
    : ` (${new Date(time).toISOString().slice(0, 10)})`;
}

/** There is a response. */
export const checkConnection: Check = (evidence) => {
  const codes = faultCodes(evidence);
  if (!codes) return undefined;
  const { host, protocol } = evidence.endpoint;
  const ofProxy = proxyFaultIn(unanswered(evidence)?.fault);
  if (ofProxy)
    return {
      cause: "connection",
      message: `${ofProxy.message.replace(/^proxy: t/, "T")}.`,
    };
  const code = codes[0] ?? "no answer in time";
  if (codes.includes("ECONNREFUSED"))
    return {
      cause: "connection",
      message: `Nothing listens at ${host}: start the server, or check host and port.`,
    };
  const isCut = codes.some((one) => /^(?:ECONNRESET|EPIPE|UND_ERR_SOCKET|HPE_[A-Z_]+)$/.test(one));
  if (isCut && protocol === "http:")
    return {
      cause: "connection",
      message: `${host} disconnects (${code}): use https: if the server speaks TLS, else see the server's log.`,
    };
  if (isCut)
    return {
      cause: "connection",
      message: `${host} disconnects before it answers (${code}): see the log of the server, or of the proxy in front.`,
    };
  return {
    cause: "connection",
    message: `${host} does not answer (${code}): check that the server runs, and that no firewall stands between.`,
  };
};

/** What the proxy of the environment did: `fetch` wraps it. */
function proxyFaultIn(fault: unknown): SluiceError | undefined {
  const proxyFault = [fault, fault instanceof Error && fault.cause].find((error) =>
    SluiceError.is(error),
  );
  return proxyFault?.origin === proxyOrigin ? proxyFault : undefined;
}

/** What a clock may be wrong by: signed URLs and tokens allow for about as much. */
const clockMs = 5 * 60_000;

/** Both clocks say the same. */
export const checkClock: Check = ({ clockAheadMs = 0 }) => {
  if (Math.abs(clockAheadMs) < clockMs) return undefined;
  const minutes = Math.round(Math.abs(clockAheadMs) / 60_000);
  return {
    cause: "clock",
    message: `The server's clock is ${minutes} minutes ${clockAheadMs > 0 ? "ahead of" : "behind"} this machine's: set the wrong one by NTP, since signed URLs and tokens expire by it.`,
  };
};
