// Command lines as people get them wrong: each ends with one line that says what to change, before anything is sent.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere } from "./run-here.ts";

let root = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-wrong-"));
  await mkdir(join(root, "folder/deep"), { recursive: true });
  await writeFile(join(root, "folder/a.txt"), "a");
  await writeFile(join(root, "folder/deep/b.txt"), "b");
  await writeFile(join(root, "empty"), "");
});
afterAll(() => rm(root, { recursive: true }));

const url = "http://127.0.0.1:1/mcp";
const secure = "https://127.0.0.1:1/mcp";

/** The words of a command, and what its line says. */
const lines: readonly (readonly [string, RegExp])[] = [
  ["lst", /unknown command 'lst'.*sluice help/],
  ["ls", /missing required argument 'server'/],
  ["ls localhost", /"localhost" is not a server URL; write it like http/],
  ["ls 127.0.0.1:2532/mcp", /is not a server URL; write it like http/],
  ["ls ftp://host/mcp", /is not a server URL; write it like http/],
  [`ls ${url} extra`, /too many arguments/],
  [`ls ${url} --jso`, /unknown option '--jso'.*--json/],
  [`ls ${url} --header Name`, /--header is malformed; write it as 'Name: value'/],
  [`ls ${url} --header X-Key:\${NO_SUCH_NAME}`, /names the variable NO_SUCH_NAME.*set it/],
  [`ls ${secure} --cacert nothing.pem`, /nothing\.pem cannot be read \(ENOENT\); name a file/],
  [`ls ${secure} --cacert empty`, /empty has no certificate in PEM; name a file/],
  [`ls ${secure} --key empty`, /--key has no effect without --cert; also pass --cert/],
  [`ls ${url} --cert empty`, /--cert is for https and wss; pass the https address/],
  [`ls ${url} --resolve host`, /HOST:PORT:ADDRESS, such as/],
  [`ls ${url} --resolve host:99999:127.0.0.1`, /HOST:PORT:ADDRESS, such as/],
  ["get", /missing required argument 'server'/],
  [`get ${url}`, /no resource is named; name one, a folder, or '\*\*'/],
  [`get ${url} x:a --jobs 0`, /Use a number from 1 to 16/],
  [`get ${url} x:a --connections 99`, /Use a number from 1 to 16/],
  [`get ${url} x:a --max-size big`, /Use a size such as 500M/],
  [`get ${url} x:a --limit-rate fast`, /Use a size such as 500M/],
  [`get ${url} x:a --trust cdn.example.com`, /is not an origin.*write it like --trust https/],
  [`get ${url} x:a --checksum nothing`, /nothing cannot be read; name a file of digests/],
  [`get ${url} x:a --checksum empty`, /empty has no SHA-256; make it with sha256sum/],
  [`get ${url} x:a -o - --checksum folder/a.txt`, /a\.txt has no SHA-256; make it/],
  [`cat ${url}`, /missing required argument 'resources'/],
  [`cat ${url} x:a --range 9-1`, /Use a range such as 0-99/],
  [`sync ${url} docs/`, /missing required argument 'folder'/],
  [`sync ${url} docs/ empty`, /empty is not a folder; name one/],
  [`sync ${url} docs/ copy --yes`, /--yes has no effect without --delete; leave it out/],
  [`put ${url} nothing.txt`, /nothing\.txt is not a file; name files that exist/],
  [`put ${url} folder`, /in a subfolder.*pass --flat/],
  [`put ${url} folder/*.pdf`, /no file matches folder\/\*\.pdf/],
  [`put ${url} folder/a.txt --include *.txt`, /choose from a folder; name one/],
  [`put ${url} -`, /standard input, one file; name it with --name/],
  [`put ${url} folder/a.txt empty --name x`, /--name is for one file; send it alone/],
  [`put ${url} empty --max-step 1K`, /Use a size of 64K or more/],
  ["serve", /missing required argument 'source'/],
  ["serve nothing", /nothing is not a folder/],
  ["serve folder --port 70000", /Use a number from 0 to 65535/],
  ["serve folder --host 0.0.0.0", /without authentication; set SLUICE_TOKEN, or pass/],
  ["serve folder --tls-cert empty", /belong together; pass both/],
  ["serve folder --tls-cert empty --tls-key empty", /empty has no certificate in PEM/],
  ["serve folder --stdio --ws", /--ws has no effect with --stdio; leave one of them out/],
  ["serve folder --max-upload 1G", /no effect without --uploads; pass --uploads/],
  ["serve folder --origin example.com", /Use an origin without a path/],
  [`bridge ${url} --port 80`, /--port has no effect without --http; also pass --http/],
  [`bridge ${url} ${url}`, /2 servers are given; pass one URL/],
  ["bridge mcp.example.com/mcp", /neither.*write it like https:\/\/mcp\.example\.com\/mcp/],
  ["install emacs folder", /Allowed choices are claude-desktop/],
  ["doctor localhost", /not a server URL; write it like http/],
];

test.each(lines)(
  "sluice %s is refused with one line that says what to change",
  async (words, said) => {
    const { status, stdout, stderr } = await runHere(words.split(" "), { cwd: root });
    expect(stderr).toMatch(said);
    expect(stderr).toMatch(/^sluice: [^\n]+\n$/);
    expect([status, stdout]).toEqual([exitCodes.usage.status, ""]);
  },
);
