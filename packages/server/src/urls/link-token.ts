import { createTextSealer, encodeBase64Url, SluiceError, type KeyRing } from "@sluice/core";
import { createSealedRecords, isStoredToken, type StateStore } from "@sluice/state";
import { advised } from "../faults/advice.ts";

/** Where what a token permits is kept: in the state store, or in the token itself. */
export type TokenForm = "stored" | "sealed";

/** Turns the text of a link into a token, and back. */
export interface LinkTokens {
  /** Rejects with `too_large` for a text that has no place in a token, and with what the store says. */
  issue(text: string, terms: LinkTokenTerms): Promise<string>;
  /** Rejects with `not_found` for what was not issued by these keys for this endpoint, and with what the store says. */
  open(token: string, now: number): Promise<string>;
}

interface LinkTokenTerms {
  readonly now: number;
  /** Until then the store keeps the text, unix milliseconds. */
  readonly expiresAt: number;
  /** In whose share of the store it counts. */
  readonly owner: string;
}

interface LinkTokensOptions {
  readonly keys: KeyRing;
  readonly state: StateStore;
  /** URL of the endpoint, for which alone tokens are good. */
  readonly audience: string;
  readonly form: TokenForm;
}

/** Most bytes of a text: a URL of 4 KiB passes every client and proxy. */
const maxText: Readonly<Record<TokenForm, number>> = { sealed: 2_900, stored: 16_384 };
const secretLength = 24;

/**
 * Makes the tokens of links. A stored one is 192 random bits, 32 characters of base64url; its text is a record under its
 * SHA-256, sealed for this token: the store alone opens, alters and makes none. A sealed one carries its text.
 */
export function createLinkTokens({ keys, state, audience, form }: LinkTokensOptions): LinkTokens {
  const sealer = createTextSealer({ keys, purpose: "link", maxLength: 32_768 });
  const records = createSealedRecords({ state, sealer, kind: "link" });
  const context = [audience];
  const limit = maxText[form];
  return {
    async issue(text, terms) {
      if (new TextEncoder().encode(text).length > limit)
        throw advised(
          "too_large",
          `The claims of this principal fit into no link: at most ${limit} bytes do`,
        );
      if (form === "sealed") return sealer.seal(text, context);
      const token = encodeBase64Url(crypto.getRandomValues(new Uint8Array(secretLength)));
      await records.keep(token, text, context, terms);
      return token;
    },
    async open(token, now) {
      try {
        // without stored tokens a text that looks like one costs the store nothing
        return form === "stored" && isStoredToken(token)
          ? await records.find(token, context, now)
          : sealer.unseal(token, context);
      } catch (error) {
        if (!SluiceError.is(error) || error.code !== "invalid_argument") throw error;
        throw new SluiceError("not_found", "sluice: there is no such link", { cause: error });
      }
    },
  };
}
