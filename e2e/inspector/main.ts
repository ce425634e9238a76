/** A site for `tools/inspector.mjs`. Prints its URL; ends with its standard input. */
import { startSite } from "../bed/site.ts";

const site = await startSite({
  files: {
    "notes/today.md": "# Today\n\nzwölf Zeilen\n",
    "photo.bin": new Uint8Array([0, 1, 255]),
  },
  sessions: true,
  attach: { tools: { read: "read_file", list: false, link: false } },
  sluice: { onWarning: () => {} },
});
process.stdin.resume().once("end", () => {
  void site[Symbol.asyncDispose]().then(() => process.exit(0));
});
// oxlint-disable-next-line no-console -- the one line that the tool reads
console.log(site.url);
