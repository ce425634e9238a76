import { InsufficientScopeError } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import type { SignIn } from "./sign-in.ts";

/**
 * Sends a message, and again once where the server wants a wider scope and the user has given it: nothing was done
 * before. Rejects with `permission_denied` where the scope is still missing.
 */
export async function sendWithScope(
  send: () => Promise<void>,
  signIn: SignIn | undefined,
): Promise<void> {
  try {
    await send();
  } catch (error) {
    if (!(error instanceof InsufficientScopeError)) throw error;
    if (!signIn) throw scopeFault(error, "pass a token that has it");
    const { requiredScope: scope, resourceMetadataUrl } = error;
    await signIn.widen({ scope, resourceMetadataUrl });
    await send().catch((again: unknown) => {
      throw again instanceof InsufficientScopeError
        ? scopeFault(again, "the sign-in did not give it; ask the server's operator")
        : again;
    });
  }
}

function scopeFault({ requiredScope = "more" }: InsufficientScopeError, hint: string): SluiceError {
  const scope = requiredScope.replaceAll(/[^\x20-\x7e]/g, " ").slice(0, 200);
  return new SluiceError("permission_denied", `bridge: the server wants scope "${scope}": ${hint}`);
}
