/** A configuration that is refused, and what its one line says after `NAME line N: `. */
export interface WrongConfiguration {
  /** What is wrong, for titles. */
  readonly fault: string;
  /** Text of the file. */
  readonly text: string;
  readonly line: number;
  /** Key, what it is not, and what to change. */
  readonly says: RegExp;
}

const mounts = '"mounts": [{ "uri": "files://a/", "storage": "." }]';
const digest = "ab".repeat(32);
const alice = `{ "name": "alice", "sha256": "${digest}", "scopes": ["read"] }`;

/** A file whose first two lines are right, and whose third has the key. */
function withKey(line: string): string {
  return `{\n  ${mounts},\n  ${line}\n}\n`;
}

function row(fault: string, text: string, line: number, says: RegExp): WrongConfiguration {
  return { fault, text, line, says };
}

/** Mistakes that a new user makes, one in each file. */
export const wrongConfigurations: readonly WrongConfiguration[] = [
  row("an empty file", "", 1, /^the file is empty; write \{ "mounts"/),
  row(
    "a missing comma",
    `{\n  "ws": true\n  ${mounts}\n}`,
    3,
    /^this is not JSON .*; correct the line/,
  ),
  row(
    "a list instead of an object",
    "[]",
    1,
    /^the file is not an object; write \{ … \} with the keys mounts, /,
  ),
  row("no mounts", '{ "ws": true }', 1, /^mounts is missing; add \{ "uri"/),
  row(
    "an empty list of mounts",
    '{\n  "mounts": []\n}',
    2,
    /^mounts is not a list with an entry; add \{ "uri"/,
  ),
  row(
    "a mount without a storage",
    '{ "mounts": [{ "uri": "files://a/" }] }',
    1,
    /^mounts\[0\]\.storage is missing; write a folder/,
  ),
  row(
    "a base URI without its slash",
    '{ "mounts": [{ "uri": "files://a", "storage": "." }] }',
    1,
    /^mounts\[0\]\.uri is not a base URI; write it like .*slash/,
  ),
  row(
    "a mount below another one",
    '{ "mounts": [\n{ "uri": "files://a/", "storage": "." },\n{ "uri": "files://a/b/", "storage": "." }] }',
    3,
    /^mounts\[1\]\.uri is another mount or below one; write another URI/,
  ),
  row(
    "a storage of an unknown kind",
    '{ "mounts": [{ "uri": "files://a/", "storage": "gs://b" }] }',
    1,
    /^mounts\[0\]\.storage has the unknown scheme "gs:".*; it is a folder/,
  ),
  row(
    "credentials in a storage",
    '{ "mounts": [{ "uri": "files://a/", "storage": "s3://KEY:hunter2@b" }] }',
    1,
    /^mounts\[0\]\.storage has credentials in it.*; set AWS_ACCESS_KEY_ID/,
  ),
  row(
    "a misspelled key",
    withKey('"lsten": { "port": 1 }'),
    3,
    /^lsten is unknown; the keys here are mounts, listen, /,
  ),
  row(
    "a key that is there twice",
    withKey('"ws": true,\n  "ws": false'),
    4,
    /^ws is there twice; leave one of them out/,
  ),
  row(
    "a port that does not exist",
    withKey('"listen": { "port": 65536 }'),
    3,
    /^listen\.port is not such a number; write a whole number from 0 to 65535/,
  ),
  row(
    "true in quotes",
    withKey('"links": "true"'),
    3,
    /^links is not true or false; write true or false, without quotes/,
  ),
  row(
    "a public URL without TLS",
    withKey('"publicUrl": "http://files.example.com/mcp"'),
    3,
    /^publicUrl is not an https URL without credentials; write it like https:/,
  ),
  row(
    "an origin with a path",
    withKey('"origins": ["https://app.example.com/"]'),
    3,
    /^origins\[0\] is not an origin; write it without a path/,
  ),
  row(
    "an unknown delivery",
    withKey('"delivery": "fast"'),
    3,
    /^delivery is not a delivery; write auto, direct, redirect or downloadUrl/,
  ),
  row(
    "a redirect to a folder",
    withKey('"delivery": "redirect"'),
    2,
    /^mounts\[0\]\.storage is a folder, to which no redirect leads; write another delivery/,
  ),
  row(
    "a size without a meaning",
    withKey('"uploads": { "folder": "in", "maxFile": "big" }'),
    3,
    /^uploads\.maxFile is not a size; write a size such as "500M"/,
  ),
  row(
    "a variable that is not set",
    withKey('"keys": "${SLUICE_NO_SUCH}"'),
    3,
    /^keys needs the variable SLUICE_NO_SUCH, which is not set; set it, or write \$\{SLUICE_NO_SUCH:-other\}/,
  ),
  row(
    "users without anybody",
    withKey('"users": {}'),
    3,
    /^users has nobody in it; add tokens or jwt/,
  ),
  row(
    "a plain token",
    withKey('"users": { "tokens": [{ "name": "a", "sha256": "hunter2", "scopes": ["read"] }] }'),
    3,
    /^users\.tokens\[0\]\.sha256 is not a SHA-256 digest; write 64 hex digits, never the token: printf/,
  ),
  row(
    "an unknown scope",
    withKey(`"users": { "tokens": [{ "name": "a", "sha256": "${digest}", "scopes": ["write"] }] }`),
    3,
    /^users\.tokens\[0\]\.scopes\[0\] is not a scope; write list, read, upload/,
  ),
  row(
    "two users of one name",
    withKey(`"users": { "tokens": [${alice}, ${alice.replace("ab", "cd")}] }`),
    3,
    /^users\.tokens\[1\]\.name is there twice; give each user its own/,
  ),
  row(
    "two users with one token",
    withKey(`"users": { "tokens": [${alice}, ${alice.replace("alice", "bob")}] }`),
    3,
    /^users\.tokens\[1\]\.sha256 is there twice; give each user its own token/,
  ),
  row(
    "a folder below no mount",
    withKey(`"users": { "tokens": [${alice.replace("}", ', "folders": ["files://b/"] }')}] }`),
    3,
    /^users\.tokens\[0\]\.folders\[0\] is below no mount; begin it with files:\/\/a\//,
  ),
  row(
    "a folder without its slash",
    withKey(`"users": { "tokens": [${alice.replace("}", ', "folders": ["files://a/b"] }')}] }`),
    3,
    /^users\.tokens\[0\]\.folders\[0\] is not a folder; end it with a slash/,
  ),
  row(
    "a folder in another spelling",
    withKey(`"users": { "tokens": [${alice.replace("}", ', "folders": ["files://a/%62/"] }')}] }`),
    3,
    /^users\.tokens\[0\]\.folders\[0\] is not in canonical form; write files:\/\/a\/b\//,
  ),
  row(
    "keys of an issuer over plain http",
    withKey(
      '"users": { "jwt": { "issuer": "https://id.example.com", "audience": "x", "jwks": "http://id.example.com/jwks", "scopes": ["read"] } }',
    ),
    3,
    /^users\.jwt\.jwks is not an https URL without credentials; write it like https:/,
  ),
];
