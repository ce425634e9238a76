/** Ways to say "up", even as careless decoders understand them. */
const ups = [
  "..",
  ".",
  "...",
  "%2e%2e",
  "%252e%252e",
  "%c0%ae%c0%ae",
  "%e0%80%ae%e0%80%ae",
  ".%00.",
  "..\0",
  "..;",
  "up",
  "up/..",
  "inside/..",
  "\u2025",
  "\uff0e\uff0e",
  "..\u200b",
  "",
];
const slashes = [
  "/",
  "//",
  "\\",
  "%2f",
  "%5c",
  "%252f",
  "%c0%af",
  "/./",
  "\u2215",
  "\uff0f",
  "/\0/",
];
const starts = ["", "/", "//", "inside/", "./", "\\\\?\\", "C:", "file://", "~/", "link/", "%00"];
const ends = ["", "\0", "\0.txt", "::$DATA", ".", " ", "/", "/.", "%00", "?x", "#x"];
const targets = [
  "secret.txt",
  "data-secret/secret.txt",
  "data-secret",
  "data/../secret.txt",
  "etc/passwd",
  "CON",
  "aux.txt",
  "proc/self/environ",
  "dev/zero",
];

/**
 * Keys that try to leave the root, always the same ones: first every short way to every target,
 * then mixtures of all parts.
 */
export function hostileKeys(count: number): string[] {
  const keys = new Set<string>();
  for (const target of targets)
    for (const up of ups) for (const slash of slashes) keys.add(up + slash + target);
  let state = 20260501;
  const pick = (from: readonly string[]): string => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return from[(state >>> 8) % from.length] ?? "";
  };
  while (keys.size < count) {
    let key = pick(starts);
    for (let depth = pick(slashes).length % 4; depth >= 0; depth--)
      key += pick(ups) + pick(slashes);
    keys.add(key + pick(targets) + pick(ends));
  }
  // spread, so that a tenth of them is a fair sample
  const all = [...keys];
  const step = Math.max(1, Math.floor(all.length / count));
  return all.filter((_, index) => index % step === 0).slice(0, count);
}
