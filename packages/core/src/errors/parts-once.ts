/** A text whose parts between colons follow each other once: errors that pass several programs get each one's words. */
export function partsOnce(text: string): string {
  const parts = text.split(": ");
  return parts.filter((part, at) => part !== parts[at - 1]).join(": ");
}
