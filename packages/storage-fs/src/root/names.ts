/** Uploads in progress; they are invisible whatever the settings. */
const temporaryPrefix = ".sluice-";

/** A new name for an upload in progress. */
export function temporaryName(): string {
  return `${temporaryPrefix}${crypto.randomUUID()}.tmp`;
}

/** True for names of {@link temporaryName}. */
export function isTemporary(name: string): boolean {
  return (
    name.startsWith(temporaryPrefix) &&
    /^[0-9a-f-]{36}\.tmp$/.test(name.slice(temporaryPrefix.length))
  );
}

/** The name of an object that is written in steps, of the 64 hexadecimal digits that name it, and 16 of its writer. */
export function stepsName(digest: string): string {
  return `${temporaryPrefix}${digest}.steps`;
}

/** True for names of {@link stepsName}. */
export function isStepsName(name: string): boolean {
  return /^\.sluice-[0-9a-f]{64}(?:-[0-9a-f]{16})?\.steps$/.test(name);
}

/**
 * True when a segment of the key must be neither listed nor opened. Names that begin with two dots
 * are always hidden: they are versions of a mounted volume, whose files have other names.
 */
export function isHidden(key: string, dotfiles: boolean): boolean {
  const prefixes = dotfiles ? [temporaryPrefix, ".."] : ["."];
  return prefixes.some((prefix) => key.startsWith(prefix) || key.includes(`/${prefix}`));
}

const devices = /^(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(?:\.|$)/i;

/**
 * True when Windows would take a segment of the key for something else: a device (`aux.txt`), an
 * alternate stream (`a:b`), another name (`a.`, `a `, `a?`).
 */
export function isWindowsTrap(key: string): boolean {
  return key
    .split("/")
    .some((name) => devices.test(name) || /[. ]$/.test(name) || /[:*?"<>|]/.test(name));
}
