/** A site for `tools/inspector.mjs`. Prints its URL; ends with its standard input. */
import { registerKeepFile, startHostSite } from "../bed/host-site.ts";

const site = await startHostSite({
  files: {
    "notes/today.md": "# Today\n\nzwölf Zeilen\n",
    "photo.bin": new Uint8Array([0, 1, 255]),
  },
  sessions: true,
  asking(mcp, uploads) {
    registerKeepFile(mcp, uploads);
    uploads.attach(mcp);
  },
});
process.stdin.resume().once("end", () => {
  void site[Symbol.asyncDispose]().then(() => process.exit(0));
});
// oxlint-disable-next-line no-console -- the one line that the tool reads
console.log(site.url);
