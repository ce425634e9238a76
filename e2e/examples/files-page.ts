// The server of the guide about the files page: run by e2e/examples.test.ts.
// #region server
import { McpServer } from "@modelcontextprotocol/server";
import { type Caller, createSluice, type FilesOutcome, createUploads } from "sluice";
import { createFsBackend, serve } from "sluice/node";

const sluice = createSluice({ storage: createFsBackend({ root: "./files" }) });
const inbox = createFsBackend({ root: "./inbox", writable: true });
const uploads = createUploads(sluice, { storage: inbox, scan: "none" });
const create = () => sluice.attach(new McpServer({ name: "team", version: "1.0.0" }));
const ended = new AbortController(); // ends the wait for visitors
const filesPage = { name: "Team files", upload };
await serve(sluice, create, { uploads, filesPage });
// #endregion

// #region upload
/** The URL of an upload page for a visitor who presses "Send files". */
async function upload(caller: Caller): Promise<string> {
  const fields = { file: { type: "file", title: "File" } } as const;
  const message = "Which file is for the team?";
  const page = await uploads.askVisitor({ message, fields }, { caller, signal: ended.signal });
  void page.outcome.then(keep, console.error);
  return page.url;
}

function keep(outcome: FilesOutcome): void {
  if (outcome.action === "accept") console.log(Object.keys(outcome.files));
}
// #endregion
