import { type AuthProvider, extractWWWAuthenticateParams } from "@modelcontextprotocol/client";
import type { SignIn } from "@sluice/bridge/internal";
import { SluiceError } from "@sluice/core";
import { note } from "../terminal/print.ts";

/** Shows the page to sign in at. A browser may be elsewhere, or not open: the address is also printed. */
export async function showPage(url: URL): Promise<void> {
  note(`sluice: sign in at ${url.href}`);
  const { default: open } = await import("open");
  await open(url.href).catch(() => note("sluice: no browser opened: open that address yourself"));
}

/** How a command signs in. */
interface CommandSignIn {
  /** Origins that take part in a sign-in wherever they are. */
  readonly trustedOrigins?: readonly string[] | undefined;
  readonly signal: AbortSignal;
  /** Shows the page. Default: {@link showPage}, on a terminal. */
  readonly openBrowser?: (url: URL) => Promise<void>;
}

/**
 * Signs in with OAuth when the server asks for it, as the bridge does and with the tokens that it keeps: one sign-in serves
 * both. Its code is loaded at the first 401. Servers that name no authorization server want a token.
 */
export function commandSignIn(
  server: URL,
  { trustedOrigins, signal, openBrowser = showOnTerminal }: CommandSignIn,
): AuthProvider {
  let signIn: Promise<SignIn> | undefined;

  async function load(): Promise<SignIn> {
    const [{ SignIn: SignInOf }, { bridgeStateFolder }] = await Promise.all([
      import("@sluice/bridge/internal"),
      import("@sluice/bridge"),
    ]);
    const folder = bridgeStateFolder();
    return new SignInOf(server, { folder, openBrowser, trustedOrigins, signal });
  }

  return {
    token: async () => (await signIn)?.provider.token(),
    async onUnauthorized(context) {
      if (!extractWWWAuthenticateParams(context.response).resourceMetadataUrl)
        throw new SluiceError("unauthenticated", `${server.href} requires a valid token`);
      signIn ??= load();
      await (await signIn).provider.onUnauthorized?.(context);
    },
  };
}

/** A script has no user that could sign in. */
async function showOnTerminal(url: URL): Promise<void> {
  if (!process.stderr.isTTY)
    throw new SluiceError(
      "unauthenticated",
      "the server asks for a sign-in, and there is no terminal to ask on: run it on one once",
    );
  await showPage(url);
}
