import { sizeText } from "@sluice/core/internal";
import {
  html,
  // a page has hundreds of rows: under another name no formatter puts spaces between their elements
  html as row,
  type FolderLink,
  type FolderView,
  type Html,
  type ListedFile,
} from "@sluice/server/internal";
import { countText } from "./count-text.ts";
import { extensionMark, nameHtml, nameText } from "./name-html.ts";

/** What stands around the content of every page. */
export interface PageFrame {
  /** Of the server, for people. */
  readonly name: string;
  /** Host and port that people see in the address. */
  readonly host: string;
  /** Address for MCP clients, which browsers that open it are led from. */
  readonly endpoint: string;
  /** Lets script and style of this page in, and no other. */
  readonly nonce: string;
  readonly scriptUrl: string;
  readonly styleUrl: string;
  readonly iconUrl: string;
}

/** Where a folder leads, beyond its own files. */
export interface FolderActions {
  /** URI of an archive of the folder; absent for none. */
  readonly archive?: string | undefined;
  readonly takesFiles: boolean;
  /** The page begins after others. */
  readonly isLater: boolean;
}

/** Characters of a name that may not fit into its two lines. */
const longName = 40;
/** Rows of one part of the table: those that are out of sight are not laid out. */
const rowsOfPart = 50;

/** One page of a folder. It needs no script to list and to download. */
export function folderPage(frame: PageFrame, view: FolderView, actions: FolderActions): string {
  const { uri = "", trail, folders, files, cursor, unlisted } = view;
  const { archive, takesFiles, isLater } = actions;
  const name = trail.at(-1)?.name;
  const rows = [...folders.map(folderRow), ...files.map(fileRow)];
  const more = cursor === undefined ? undefined : linkOf({ folder: uri, after: cursor });
  const content = html`<header>
      <p class="host"><span class="dot" aria-hidden="true"></span>${frame.host}</p>
      ${trail.length > 0 && trailHtml(trail, frame.name)}
      <div class="head">
        <h1>${nameHtml(name ?? frame.name)}</h1>
        ${takesFiles && html`<form id="send" method="post" action="/"><button class="primary" type="submit">Send files</button></form>`}
        ${archive !== undefined && html`<a class="button quiet" href="${linkOf({ download: archive })}" download>Download all</a>`}
      </div>
      <div class="find" id="find" hidden>
        <label class="unseen" for="search">Search in this folder</label
        ><input
          type="search"
          id="search"
          placeholder="Search in this folder"
          autocomplete="off"
          spellcheck="false"
          maxlength="255"
        />
      </div>
    </header>
    ${rows.length > 0 && tableHtml(rows)}
    <p class="empty" id="empty" ${rows.length > 0 && html` hidden`}>
      ${isLater ? "No more files." : cursor === undefined ? "This folder is empty." : "Nothing here yet; look at the next page."}
    </p>
    <footer>
      <p class="soft" id="count">
        ${countText(
          folders.length,
          files.map(({ size = 0 }) => size),
        )}
      </p>
      ${unlisted && html`<p class="soft" id="unlisted">${unlisted}.</p>`}
      ${more !== undefined && html`<p><a class="button quiet" id="more" href="${more}">Show more</a></p>`}
    </footer>
    <p class="unseen" id="status" role="status"></p>`;
  const title = name === undefined ? frame.name : `${nameText(name)} – ${frame.name}`;
  return documentHtml(frame, title, content);
}

/** A page that says why there is no other one. */
export function noticePage(frame: PageFrame, heading: string, sentence: string): string {
  return documentHtml(
    frame,
    heading,
    html`<header>
        <p class="host"><span class="dot" aria-hidden="true"></span>${frame.host}</p>
      </header>
      <div class="notice-page">
        <h1>${heading}</h1>
        <p>${sentence}</p>
        <p><a class="button quiet" href="/">All files</a></p>
      </div>`,
  );
}

function documentHtml(
  { nonce, scriptUrl, styleUrl, iconUrl, endpoint }: PageFrame,
  title: string,
  content: Html,
): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title}</title>
        <link rel="icon" type="image/svg+xml" href="${iconUrl}" />
        <link rel="stylesheet" href="${styleUrl}" nonce="${nonce}" />
        <script type="module" src="${scriptUrl}" nonce="${nonce}"></script>
      </head>
      <body>
        <main>
          ${content}
          <p class="soft address">Address for MCP clients: <code>${endpoint}</code></p>
        </main>
      </body>
    </html> `.text;
}

function trailHtml(trail: readonly FolderLink[], top: string): Html {
  const last = trail.length - 1;
  const steps = trail.map(({ name, uri }, at) =>
    at === last
      ? html`<li aria-current="page">${nameHtml(name)}</li>`
      : html`<li><a href="${linkOf({ folder: uri })}">${nameHtml(name)}</a></li>`,
  );
  return html`<nav aria-label="Folders">
    <ol class="trail">
      <li>
        <a href="/"><bdi>${top}</bdi></a>
      </li>
      ${steps}
    </ol>
  </nav>`;
}

/** The roles are those of a table: the style, which lays rows out as grids, takes them away in some browsers. */
function tableHtml(rows: readonly Html[]): Html {
  const parts = Array.from({ length: Math.ceil(rows.length / rowsOfPart) }, (_, at) =>
    rows.slice(at * rowsOfPart, (at + 1) * rowsOfPart),
  );
  return html`<table role="table" id="files" aria-label="Files">
    <thead role="rowgroup">
      <tr role="row">
        <th role="columnheader" scope="col" data-key="name" aria-sort="ascending">Name</th>
        <th role="columnheader" scope="col" data-key="size">Size</th>
        <th role="columnheader" scope="col" data-key="time">
          Changed <span id="zone">(UTC)</span>
        </th>
        <th role="columnheader" scope="col"><span class="unseen">Download</span></th>
      </tr>
    </thead>
    ${parts.map(
      (part) =>
        html`<tbody role="rowgroup">
          ${part}
        </tbody>`,
    )}
  </table>`;
}

function folderRow({ name, uri }: FolderLink): Html {
  const href = linkOf({ folder: uri });
  return row`<tr role="row" data-name="${name}" data-folder><td role="cell"><a href="${href}"><span class="mark" aria-hidden="true"></span><span class="name">${nameHtml(name)}<span class="unseen"> (folder)</span></span></a></td><td role="cell"></td><td role="cell"></td><td role="cell"></td></tr>`;
}

function fileRow({ name, uri, size, modified }: ListedFile): Html {
  const [open, get] = [linkOf({ open: uri }), linkOf({ download: uri })];
  const text = nameText(name);
  const time = modified?.toISOString();
  const mark = extensionMark(name);
  return row`<tr role="row" data-name="${name}"${size !== undefined && row` data-size="${size}"`}><td role="cell"><a href="${open}"${name.length > longName && row` title="${text}"`}><span class="mark" aria-hidden="true"${mark.length > 3 && row` data-long`}>${mark}</span><span class="name">${nameHtml(name)}</span></a></td><td role="cell">${size !== undefined && sizeText(size)}</td><td role="cell">${time && row`<time datetime="${time}">${time.slice(0, 16).replace("T", " ")}</time>`}</td><td role="cell"><a class="get" href="${get}" download aria-label="Download ${text}"></a></td></tr>`;
}

/** Address below the page, which is at the root of its server. */
function linkOf(query: Readonly<Record<string, string>>): string {
  return `/?${new URLSearchParams(query).toString()}`;
}
