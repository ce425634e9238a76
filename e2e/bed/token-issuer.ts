import { createServer } from "node:http";
import { exportJWK, generateKeyPair, SignJWT, type JWTPayload } from "jose";
import { listen } from "./listen.ts";

/** What of a token is not as it should be. */
export interface TokenFaults {
  /** Seconds from now until it expires. Default: 600. */
  readonly lifeS?: number;
  readonly audience?: string;
  readonly issuer?: string;
  readonly type?: string;
  /** Its signature is by a key that the issuer does not publish, under the name of one that it does. */
  readonly foreignKey?: boolean;
}

/** An authorization server of which only its keys and its tokens matter. */
export interface TokenIssuer extends AsyncDisposable {
  /** Its `iss`; the keys are at `<issuer>/jwks.json`. */
  readonly issuer: string;
  /** Signs an access token as RFC 9068 has it. */
  sign(claims: JWTPayload, faults?: TokenFaults): Promise<string>;
}

/** Starts one whose tokens are for one audience unless a fault says another. */
export async function startTokenIssuer(audience: string): Promise<TokenIssuer> {
  const [published, foreign] = [await generateKeyPair("ES256"), await generateKeyPair("ES256")];
  const jwk = { ...(await exportJWK(published.publicKey)), kid: "k-1", alg: "ES256", use: "sig" };
  const jwks = JSON.stringify({ keys: [jwk] });
  const http = await listen(
    createServer((req, res) => {
      const isKeys = req.url === "/jwks.json";
      res.writeHead(isKeys ? 200 : 404, { "content-type": "application/json" });
      res.end(isKeys ? jwks : "{}");
    }),
  );
  return {
    issuer: http.origin,
    sign(claims, faults = {}) {
      const { lifeS = 600, foreignKey = false, type = "at+jwt" } = faults;
      const now = Math.floor(Date.now() / 1_000);
      return new SignJWT({ client_id: "desk", scope: "trials:read", ...claims })
        .setProtectedHeader({ alg: "ES256", kid: "k-1", typ: type })
        .setIssuer(faults.issuer ?? http.origin)
        .setAudience(faults.audience ?? audience)
        .setIssuedAt(now)
        .setExpirationTime(now + lifeS)
        .sign((foreignKey ? foreign : published).privateKey);
    },
    [Symbol.asyncDispose]: () => http.close(),
  };
}
