import { randomUUID } from "node:crypto";
import {
  auth,
  computeScopeUnion,
  extractWWWAuthenticateParams,
  isStrictScopeSuperset,
  OAuthError,
  type AuthProvider,
  type OAuthClientInformationMixed,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthTokens,
  InsufficientScopeError,
} from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { definedMembers, ensureConfidential, isClearUrl } from "@sluice/core/internal";
import { openCallbackServer, type CallbackServer } from "./callback-server.ts";
import {
  readSignIn,
  tokenFilePath,
  writeSignIn,
  type StoredSignIn,
  whileLocked,
} from "./token-file.ts";
import { oauthCode, signInFetch, SignInPlaces, type PlaceGuard } from "./sign-in-fetch.ts";

/** How a user signs in. */
export interface SignInOptions {
  /** Folder for tokens; files in it have mode 0600. */
  readonly folder: string;
  /** Shows the user the page to sign in at. */
  readonly openBrowser: (url: URL) => void | Promise<void>;
  /** How long the user may take, in milliseconds. Default: 5 min. */
  readonly userMs?: number | undefined;
  /**
   * Origins that take part in a sign-in wherever they are, such as `https://login.internal`. Default: none, so that a server
   * elsewhere names addresses of the public internet alone.
   */
  readonly trustedOrigins?: readonly string[] | undefined;
  /** Ends a wait for the user. */
  readonly signal?: AbortSignal | undefined;
}

/** What a server wants of a token (RFC 6750 §3.1). */
interface ScopeChallenge {
  readonly scope?: string | undefined;
  readonly resourceMetadataUrl?: URL | undefined;
}

const defaultUserMs = 300_000;
/** A server that makes up scopes must not open one page after the other. */
const maxWidenings = 8;

/**
 * Tokens of one server. Signs in with OAuth as the official SDK does it: discovery, registration, PKCE, refresh. If a
 * server names a forbidden address, and over plain http to another machine, it throws `untrusted`.
 */
export class SignIn {
  readonly #url: URL;
  readonly #options: SignInOptions;
  readonly #places: PlaceGuard;
  readonly #userMs: number;
  readonly #signal: AbortSignal;
  readonly #path: string;
  #lastToken: string | undefined;
  #signingIn: Promise<void> | undefined;
  readonly #widenings = new Map<string, Promise<void>>();
  /** For the transport: the token of each request, and a sign-in when the server wants one. */
  readonly provider: AuthProvider = {
    token: () => this.#token(),
    onUnauthorized: ({ response }) => {
      const { scope, resourceMetadataUrl } = extractWWWAuthenticateParams(response);
      return this.#signInOnce({ scope, resourceMetadataUrl, isWider: false });
    },
  };

  constructor(
    url: URL,
    options: SignInOptions,
    places: PlaceGuard = new SignInPlaces(url, options.trustedOrigins),
  ) {
    this.#url = url;
    this.#options = options;
    this.#places = places;
    const { userMs = defaultUserMs, signal = new AbortController().signal } = options;
    this.#userMs = userMs;
    this.#signal = signal;
    this.#path = tokenFilePath(options.folder, url);
  }

  /**
   * Signs in again for more, after a 403 with `insufficient_scope`: once for each scope, whatever comes of it. Later
   * calls give the outcome of the first. Tokens stay as they are until the user has agreed.
   */
  async widen(challenge: ScopeChallenge): Promise<void> {
    const { scope = "" } = challenge;
    let widening = this.#widenings.get(scope);
    if (!widening) {
      if (this.#widenings.size === maxWidenings)
        throw new SluiceError(
          "permission_denied",
          `bridge: ${this.#url.origin} keeps asking for more scopes; restart the bridge to continue`,
        );
      widening = this.#signIn({ ...challenge, isWider: true });
      this.#widenings.set(scope, widening);
    }
    await widening;
  }

  async #token(): Promise<string | undefined> {
    if (isClearUrl(this.#url)) return undefined;
    this.#lastToken = accessTokenOf(await readSignIn(this.#path));
    return this.#lastToken;
  }

  /** Signs in, one page at a time: the lock keeps out the other calls of this process and other bridges. */
  async #signIn(challenge: Challenge): Promise<void> {
    ensureConfidential("bridge", this.#url);
    const refusedToken = this.#lastToken;
    return whileLocked(this.#path, 2 * this.#userMs, this.#signal, async () => {
      const stored = await readSignIn(this.#path);
      const isNewer = accessTokenOf(stored) !== undefined && accessTokenOf(stored) !== refusedToken;
      const isWide = !isStrictScopeSuperset(challenge.scope, stored.scope);
      // another bridge has done it meanwhile
      if (isNewer && (isWide || !challenge.isWider)) return;
      await this.#authorize(withGranted(challenge, stored.scope), stored);
    });
  }

  /** One sign-in serves all requests of this process. */
  #signInOnce(challenge: Challenge): Promise<void> {
    this.#signingIn ??= this.#signIn(challenge).finally(() => {
      this.#signingIn = undefined;
    });
    return this.#signingIn;
  }

  async #authorize(challenge: Challenge, stored: StoredSignIn): Promise<void> {
    const state = randomUUID();
    const callback = await openCallbackServer(state, stored.port);
    try {
      const { scope, resourceMetadataUrl, isWider } = challenge;
      const calls = signInFetch(this.#places, this.#signal);
      const openBrowser = (page: URL): void | Promise<void> => {
        // the SDK would have the user sign in for a fault that passes
        calls.ensureRefreshed();
        if (calls.refusal) throw calls.refusal;
        this.#places.ensure(page);
        return this.#options.openBrowser(page);
      };
      const providerOptions = { ...this.#options, openBrowser, state, scope };
      const provider = new FileProvider(this.#path, stored, callback, providerOptions);
      const authOptions = {
        serverUrl: this.#url,
        fetchFn: calls.fetch,
        ...definedMembers({ scope, resourceMetadataUrl }),
      };
      // a refresh cannot give more than there was (RFC 6749 §6)
      const isMore = scope === undefined || isStrictScopeSuperset(scope, stored.scope);
      const forceReauthorization = isWider && isMore;
      const run: typeof auth = async (...step) => {
        try {
          return await auth(...step);
        } catch (error) {
          this.#signal.throwIfAborted();
          throw calls.refusal ?? signInFault(error);
        }
      };
      if ((await run(provider, { ...authOptions, forceReauthorization })) === "AUTHORIZED") return;
      const params = await callback.wait(this.#userMs, this.#signal);
      const code = params.get("code");
      if (code === null) throw signInRefused(faultIn(params));
      const iss = params.get("iss");
      const answered = { ...authOptions, authorizationCode: code };
      await run(provider, iss === null ? answered : { ...answered, iss });
    } finally {
      callback.close();
    }
  }
}

interface Challenge extends ScopeChallenge {
  /** The token is good and allows too little. */
  readonly isWider: boolean;
}

/** What the user has agreed to before is asked for again. A 403 that names no scope wants those of the server's metadata. */
function withGranted(challenge: Challenge, grantedScope: string | undefined): Challenge {
  const { scope, isWider } = challenge;
  if (isWider && scope === undefined) return challenge;
  return { ...challenge, scope: computeScopeUnion(grantedScope, scope) };
}

interface FileProviderOptions extends SignInOptions {
  /** Sent to the authorization server and expected back. */
  readonly state: string;
  readonly scope: string | undefined;
}

/** What the SDK keeps of a sign-in, in a file. */
class FileProvider implements OAuthClientProvider {
  readonly #path: string;
  readonly #callback: CallbackServer;
  readonly #options: FileProviderOptions;
  #stored: StoredSignIn;
  #verifier = "";

  constructor(
    path: string,
    stored: StoredSignIn,
    callback: CallbackServer,
    options: FileProviderOptions,
  ) {
    this.#path = path;
    // a client is registered with its address: another port is another client
    this.#stored = stored.port === callback.port ? stored : { ...stored, client: undefined };
    this.#callback = callback;
    this.#options = options;
  }

  get redirectUrl(): string {
    return this.#callback.url;
  }

  get clientMetadata(): OAuthClientProvider["clientMetadata"] {
    return {
      client_name: "Sluice bridge",
      redirect_uris: [this.#callback.url],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    };
  }

  state(): string {
    return this.#options.state;
  }

  clientInformation(): OAuthClientInformationMixed | undefined {
    return this.#stored.client as OAuthClientInformationMixed | undefined;
  }

  saveClientInformation(client: OAuthClientInformationMixed): Promise<void> {
    return this.#save({ client: { ...client }, port: this.#callback.port });
  }

  tokens(): OAuthTokens | undefined {
    return this.#stored.tokens as OAuthTokens | undefined;
  }

  saveTokens(tokens: OAuthTokens): Promise<void> {
    // one that is left out is the one that was asked for (RFC 6749 §5.1)
    const scope = tokens.scope ?? this.#options.scope;
    return this.#save({ tokens: { ...tokens }, scope });
  }

  codeVerifier(): string {
    return this.#verifier;
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }

  discoveryState(): OAuthDiscoveryState | undefined {
    return this.#stored.discovery;
  }

  saveDiscoveryState(discovery: OAuthDiscoveryState): Promise<void> {
    return this.#save({ discovery });
  }

  redirectToAuthorization(url: URL): void | Promise<void> {
    // the system opens any scheme with the program that takes it: a server must not choose one
    if (url.protocol !== "https:" && url.protocol !== "http:")
      throw new SluiceError("untrusted", `bridge: ${url.protocol} is not a page to sign in at`);
    return this.#options.openBrowser(url);
  }

  invalidateCredentials(
    scope: "all" | "client" | "tokens" | "verifier" | "discovery",
  ): Promise<void> {
    const { client, tokens, discovery, port, scope: granted } = this.#stored;
    const isGone = (name: typeof scope): boolean => scope === "all" || scope === name;
    return this.#save({
      client: isGone("client") ? undefined : client,
      tokens: isGone("tokens") ? undefined : tokens,
      discovery: isGone("discovery") ? undefined : discovery,
      scope: granted,
      port,
    });
  }

  async #save(change: StoredSignIn): Promise<void> {
    this.#stored = { ...this.#stored, ...change };
    await writeSignIn(this.#path, this.#stored);
  }
}

function accessTokenOf(stored: StoredSignIn): string | undefined {
  const token = stored.tokens?.["access_token"];
  return typeof token === "string" ? token : undefined;
}

/** What an authorization server says is wrong: the code of OAuth, and none of its words. */
function faultIn(params: URLSearchParams): string {
  return oauthCode(params.get("error")) ?? "no code came back";
}

/** What the SDK throws may hold the body of a response. */
function signInFault(error: unknown): unknown {
  if (SluiceError.is(error)) return error;
  if (!(error instanceof Error)) return signInRefused("it failed");
  if (SluiceError.is(error.cause)) return error.cause;
  // the fault of a connection, in the words of Node
  if (error instanceof TypeError && error.cause !== undefined) return error;
  if (error instanceof OAuthError) return signInRefused(oauthCode(error.code) ?? "it was refused");
  return signInRefused("the authorization server does not answer as OAuth requires");
}

function signInRefused(why: string): SluiceError {
  return new SluiceError(
    "unauthenticated",
    `bridge: the sign-in failed: ${why}; ask the server's operator, or pass a token`,
  );
}

/**
 * Sends a message, and again once if the server requires a wider scope and the user has given it: nothing was done
 * before. Rejects with `permission_denied` if the scope is still missing.
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
