import type { Check, Evidence, SeenExchange } from "../evidence.ts";
import type { TransferFinding } from "../transfer-finding.ts";

/** JSON-RPC code `HeaderMismatch` (SEP-2243). */
const headerMismatch = -32_020;

/** The response that ended the attempt to agree on a session. */
function lastAnswer({ exchanges }: Evidence): (SeenExchange & { status: number }) | undefined {
  const answered = exchanges.findLast(({ httpMethod }) => httpMethod === "POST");
  return answered?.status === undefined ? undefined : { ...answered, status: answered.status };
}

/** The response, where it is why there is no session. */
function refusal(evidence: Evidence): (SeenExchange & { status: number }) | undefined {
  return evidence.sessionFault === undefined ? undefined : lastAnswer(evidence);
}

/** The endpoint answers itself. */
export const checkRedirect: Check = (evidence) => {
  const { status = 0, headers } = refusal(evidence) ?? {};
  if (status < 300 || status > 399) return undefined;
  const location = headers?.get("location") ?? "";
  const to = URL.canParse(location, evidence.endpoint.href)
    ? withoutQuery(new URL(location, evidence.endpoint))
    : "an invalid address";
  return {
    cause: "redirect",
    message: `The endpoint redirects to ${to}, which MCP clients do not follow: use that address if it is the right one, or have the operator fix the redirect.`,
  };
};

function withoutQuery({ origin, pathname }: URL): string {
  return `${origin}${pathname}`;
}

/** `Mcp-*` headers arrive at the server, and come back. */
export const checkMcpHeaders: Check = (evidence) => {
  const { exchanges } = evidence;
  const isMismatch = exchanges.some(({ rpcCode }) => rpcCode === headerMismatch);
  const answer = refusal(evidence);
  const wasAgreed = exchanges.some(
    ({ rpcMethod, status }) => rpcMethod === "initialize" && status === 200,
  );
  const isLost = answer?.rpcMethod !== "initialize" && (answer?.status ?? 0) >= 400;
  if (!isMismatch && !(wasAgreed && isLost && (answer?.status === 400 || answer?.status === 404)))
    return undefined;
  return {
    cause: "mcp-headers",
    message:
      "A proxy drops Mcp-* headers, by which the server knows sessions and methods: have it pass on Mcp-Session-Id, Mcp-Method, Mcp-Name and MCP-Protocol-Version, in both directions.",
  };
};

/** The caller is let in. */
export const checkSignIn: Check = (evidence) => {
  const answer = refusal(evidence);
  if (answer?.status !== 401) return undefined;
  const challenge = answer.headers.get("www-authenticate");
  if (!evidence.hasToken)
    return challenge === null
      ? {
          cause: "sign-in",
          message:
            "The server requires a sign-in and does not say how (401 without WWW-Authenticate): pass --token, and have the operator add that header or stop the proxy from dropping it.",
        }
      : {
          cause: "sign-in",
          message: /resource_metadata=/i.test(challenge)
            ? "The server requires a sign-in (401): pass --token, or connect with `sluice bridge`, which signs in with a browser."
            : "The server requires a token (401): pass it in SLUICE_TOKEN or with --token.",
        };
  // a server that saw a token says what is wrong with it (RFC 6750 section 3.1)
  return /\berror=/i.test(challenge ?? "")
    ? { cause: "sign-in", message: "The server refuses this token (401): get a new one." }
    : {
        cause: "authorization",
        message:
          "The server answers as if no token was sent (401): have the proxy in front pass on Authorization; without a proxy, get a new token.",
      };
};

/** Host, origin and caller may come in. */
export const checkAccess: Check = (evidence) => {
  const { status, text = "" } = refusal(evidence) ?? {};
  const { host } = evidence.endpoint;
  const says = status === 403 || status === 400;
  if (status === 421 || (says && /invalid host/i.test(text)))
    return {
      cause: "host",
      message: `The server does not take requests for ${host} (${status}): have the proxy pass on Host, or have the operator add this name to the server's public URL or allowed hosts.`,
    };
  if (status !== 403) return undefined;
  if (evidence.hasOrigin || /invalid origin/i.test(text))
    return {
      cause: "origin",
      message:
        "The server does not take requests of this Origin (403): leave the header out, or have the operator allow that origin.",
    };
  return {
    cause: "access",
    message:
      "The server, or a firewall in front, denies access (403): ask the operator, or pass another token.",
  };
};

/** The proxy reaches the server, and lets it be asked. */
export const checkServer: Check = (evidence) => {
  const { status = 0 } = refusal(evidence) ?? {};
  if (status === 413)
    return {
      cause: "body-cap",
      message:
        "Even a small request is too large here (413): have the operator raise the limit of request bodies.",
    };
  if (status === 429)
    return {
      cause: "server",
      message: "The server is busy or limits this caller (429): wait a little and try again.",
    };
  if (status === 502 || status === 503 || status === 504)
    return {
      cause: "server",
      message: `A proxy answers and the server behind it does not (${status}): have the operator start it, or correct the address that the proxy sends to.`,
    };
  // servers of web pages know no POST
  if (status >= 500 && status !== 501)
    return {
      cause: "server",
      message: `The server fails (${status}): its log says why.`,
    };
  return undefined;
};

/** What answers is MCP. */
export const checkEndpoint: Check = (evidence) => {
  if (evidence.sessionFault === undefined) return undefined;
  const answer = lastAnswer(evidence);
  const { pathname } = evidence.endpoint;
  if (answer?.fault !== undefined) return cutAnswer();
  if (answer?.status === 404) return noMcp(`There is no MCP endpoint at ${pathname} (404)`);
  if (answer?.status === 405 || answer?.status === 501)
    return noMcp(
      `${pathname} takes no POST (${answer.status}), so it is not a Streamable HTTP endpoint`,
    );
  if (/^text\/html\b/i.test(answer?.headers.get("content-type") ?? ""))
    return noMcp(`A web page answers at ${pathname}, not MCP`);
  const { name, code } = evidence.sessionFault as { name?: unknown; code?: unknown };
  if (name === "UnsupportedProtocolVersionError" || code === -32_022)
    return {
      cause: "revision",
      message:
        "The server speaks no protocol revision that this client knows: update the older of the two.",
    };
  return noMcp(`What answers at ${pathname} does not speak MCP (${answer?.status ?? "no status"})`);
};

function noMcp(what: string): TransferFinding {
  return {
    cause: "endpoint",
    message: `${what}: check the address, whose path often ends with /mcp.`,
  };
}

function cutAnswer(): TransferFinding {
  return {
    cause: "cut",
    message:
      "The answer is cut off in the middle: have the operator look for time limits and errors of the proxy in front.",
  };
}

/** There is something to read. */
export const checkCapability: Check = ({ server }) =>
  server && !server.hasResources
    ? {
        cause: "capability",
        message:
          "The server has no resources, only what its tools answer: have its operator declare the capability resources where files are meant to be read.",
      }
    : undefined;
