// How the site reads Markdown: as GitHub does. The configuration that `build-site.mjs` writes imports it.

/** The anchor of a heading. */
const slugify = (heading) =>
  heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_\- ]/gu, "")
    .replaceAll(" ", "-");

/** `markdown` of the configuration of VitePress. `<name>` in our pages is text: no page has HTML of its own. */
export const markdown = { html: false, anchor: { slugify } };
