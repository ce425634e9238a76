import { UriTemplate } from "@modelcontextprotocol/server";
import { createUriMapper, type UriMapper } from "@sluice/storage";
import { checkKey } from "@sluice/storage/plugin";

/** Which URIs a provider is for. */
export interface ProviderRoute {
  /** Between URIs and the keys below the base: the literal text up to the last `/` before the first variable. */
  readonly mapper: UriMapper;
  /** As the author wrote it; absent for one URI. */
  readonly template: string | undefined;
  /** Canonical; absent for a template. */
  readonly uri: string | undefined;
  /** The decoded values of the variables in a canonical URI; `undefined` for a URI of another resource. */
  match(canonicalUri: string): Record<string, string> | undefined;
}

/** An expression of a template, and the literal text up to the next one. */
interface Expression {
  readonly isReserved: boolean;
  readonly name: string;
  readonly after: string;
}

/**
 * Reads the URI or template of a provider: `{name}` for a part of a path segment, `{+path}` for one or more segments
 * (RFC 6570 levels 1 and 2). Throws a `TypeError` for other expressions, for text that is not in its canonical spelling,
 * and for variables that could share a URI out between them in too many ways.
 */
export function createProviderRoute(uriOrTemplate: string): ProviderRoute {
  const what = `sluice.provide: ${JSON.stringify(uriOrTemplate)}`;
  const expressions = readExpressions(uriOrTemplate, what);
  const [literal = ""] = uriOrTemplate.split("{", 1);
  const mapper = mapperOf(literal.slice(0, literal.lastIndexOf("/") + 1), what);
  ensureCanonical(mapper, uriOrTemplate.replaceAll(expression, "x"), what);
  if (expressions.length === 0)
    return {
      mapper,
      template: undefined,
      uri: uriOrTemplate,
      match: (uri) => (uri === uriOrTemplate ? {} : undefined),
    };
  const template = new UriTemplate(uriOrTemplate);
  return {
    mapper,
    template: uriOrTemplate,
    uri: undefined,
    match: (uri) => (uri.startsWith(mapper.baseUri) ? valuesIn(template, uri) : undefined),
  };
}

const expression = /\{([^{}]*)\}/g;
const variable = /^(\+?)([A-Za-z][A-Za-z0-9_]*)$/;

function readExpressions(template: string, what: string): Expression[] {
  const [first = "", ...parts] = template.split(expression);
  if ([first, ...parts.filter((_, at) => at % 2 === 1)].some((text) => /[{}]/.test(text)))
    throw new TypeError(`${what} has an unmatched brace`);
  const expressions: Expression[] = [];
  for (let at = 0; at < parts.length; at += 2) {
    const [, plus, name] = variable.exec(parts[at]!) ?? [];
    if (name === undefined)
      throw new TypeError(
        `${what} has the expression {${parts[at]}}; only path variables are supported: {name} and {+path}`,
      );
    if (expressions.some((other) => other.name === name))
      throw new TypeError(`${what} has the variable ${name} twice`);
    expressions.push({ isReserved: plus === "+", name, after: parts[at + 1]! });
  }
  // each such pair multiplies the time of a match by the length of the URI, which the client chooses
  const loose = expressions
    .slice(0, -1)
    .filter((one) => one.isReserved || !one.after.includes("/"));
  if (loose.length > 1)
    throw new TypeError(
      `${what} has too many variables that are not apart; put "/" between them, or make one variable of several`,
    );
  return expressions;
}

function mapperOf(base: string, what: string): UriMapper {
  try {
    return createUriMapper(base);
  } catch (cause) {
    throw new TypeError(`${what} has no base; write it like "reports://sales/{year}.csv"`, {
      cause,
    });
  }
}

/** Throws a `TypeError` unless a URI is spelled as the mapper spells it: any other would never match. */
function ensureCanonical(mapper: UriMapper, uri: string, what: string): void {
  let canonical: string;
  try {
    canonical = mapper.toUri(mapper.toKey(uri));
  } catch (cause) {
    throw new TypeError(
      `${what} is not a resource URI: it has a query, a fragment, or an empty, "." or ".." segment`,
      { cause },
    );
  }
  if (canonical !== uri)
    throw new TypeError(
      `${what} is not in canonical spelling: percent-encode all but letters, digits, "-._~" and "/"`,
    );
}

function valuesIn(template: UriTemplate, uri: string): Record<string, string> | undefined {
  const values: Record<string, string> = {};
  for (const [name, value] of Object.entries(template.match(uri) ?? {})) {
    const text = decode(String(value));
    // a part of a segment may be ".." or begin with "/", and lead out of a folder
    if (text === undefined || checkKey(text) !== undefined) return undefined;
    values[name] = text;
  }
  return Object.keys(values).length === 0 ? undefined : values;
}

/** `undefined` if literal text of the template cut an encoding in two. */
function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
