import { sizeText } from "@sluice/core/internal";

/** What is in a folder, for people: `2 folders, 1,200 files, 3.4 GB`. Sizes are bytes. */
export function countText(folders: number, sizes: readonly number[]): string {
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  const parts = [
    folders > 0 && counted(folders, "folder"),
    sizes.length > 0 && `${counted(sizes.length, "file")}, ${sizeText(bytes)}`,
  ];
  return parts.filter((part) => part !== false).join(", ");
}

function counted(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
