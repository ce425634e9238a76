/** A name as people see it: letters in any case and Unicode form, and every kind of space, are the same. */
export function foldName(name: string): string {
  return name.normalize("NFKC").toLowerCase();
}
